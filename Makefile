# make demo    adapt a network on real digits and show what was gained
# make fast    the core tests
# make check   lint, types and the core tests: a minute and a half on two cores
# make test    lint, types and all tests: a quarter of an hour on two cores
# make bench   the benchmarks, as json lines
# make examples  the examples, whole: their pictures and their numbers
# make faults  every promise under faults, about an hour; goes on where it was
# make mutants the most important lines, broken one by one: the tests must notice each
# make lowest  the core tests on the lowest versions that pyproject.toml names; make newest: the newest; TORCH=2.10.0 or newest: PyTorch too
# make scale   how step and memory grow, and what reading ahead gains: docs/scale.md
# make docs    the pages that are made of records and of --help, and the site: build/site/index.html
# make look    every page of the site in Chromium, wide and narrow, light and dark; after make docs
# make package build/: sdist and wheel, checked, installed in an empty environment and tried
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
SCRIPTS := Scripts
else
SCRIPTS := bin
endif
BIN := .venv/$(SCRIPTS)
PIP := PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
#: What the core tests leave out.
CORE := -m "not slow and not paper"
#: Two processes of one thread each: two threads on a busy machine can be ten times slower than one.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

.PHONY: demo fast check lint test bench examples faults mutants lowest newest docs look package
.DELETE_ON_ERROR:

.venv: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) $(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch .venv

demo: .venv
	$(BIN)/revgrad demo

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fast: .venv
	$(PYTEST) $(CORE)

check: lint
	$(PYTEST) $(CORE)

test: lint
	$(PYTEST)

examples: .venv
	OMP_NUM_THREADS=1 $(BIN)/python studies/examples/record_examples.py

bench: .venv
	for file in benchmarks/*.py; do OMP_NUM_THREADS=1 $(BIN)/python $$file --json || exit 1; done

faults: .venv
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/run.py

mutants: .venv
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/mutants.py

lowest newest: .venv
	$(BIN)/python tests/faults/versions.py $@

scale: .venv
	for name in growth reading shards predict two_processes; do OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py --json || exit 1; done > benchmarks/scale.jsonl

.venv/.docs: .venv
	$(PIP) $(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	touch .venv .venv/.docs

docs: .venv/.docs
	$(BIN)/python docs/make.py
	OMP_NUM_THREADS=1 $(BIN)/python docs/website.py

look: .venv
	$(BIN)/python docs/browser.py

package:
	rm -rf dist build/tools build/empty
	$(PYTHON) -m venv build/tools
	$(PIP) build/tools/$(SCRIPTS)/pip install --quiet 'build>=1.2' 'twine>=6'
	build/tools/$(SCRIPTS)/python -m build
	build/tools/$(SCRIPTS)/twine check --strict dist/*
	test $$(cat dist/*.whl | wc -c) -lt 2000000 && test $$(cat dist/*.tar.gz | wc -c) -lt 2000000
	$(PYTHON) -m venv build/empty
	$(PIP) build/empty/$(SCRIPTS)/pip install --quiet -c constraints.txt dist/*.whl
	cd build && empty/$(SCRIPTS)/python ../tests/smoke.py
