# make demo    adapt a network on real digits and show what was gained
# make check   lint, types and the core tests: a minute and a half on two cores
# make test    lint, types and all tests: under eight minutes on two cores
# make bench   the benchmarks, as json lines
# make examples  the examples, whole: their pictures and their numbers
# make faults  every promise under faults, about an hour; goes on where it was
# make mutants the most important lines, broken one by one: the tests must notice each
# make lowest  the core tests on the lowest versions that pyproject.toml names; make newest: the newest
# make docs    the pages that are made of records and of --help, and the site: build/site/index.html
PYTHON ?= python3
BIN := .venv/bin
#: Two processes of one thread each: two threads on a busy machine can be ten times slower than one.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

.PHONY: demo check lint test bench examples faults mutants lowest newest docs
.DELETE_ON_ERROR:

.venv: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_NO_COMPILE=1 $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch .venv

demo: .venv
	$(BIN)/revgrad demo

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint
	$(PYTEST) -m "not slow and not paper"

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

.venv/.docs: .venv
	PIP_NO_COMPILE=1 $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch .venv .venv/.docs

docs: .venv/.docs
	$(BIN)/python docs/make.py
	OMP_NUM_THREADS=1 $(BIN)/python docs/website.py
