# make demo    adapt a network on real digits and show what was gained
# make test    lint, types, tests
# make bench   the benchmarks, as json lines
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test bench docs
.DELETE_ON_ERROR:

.venv: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_NO_COMPILE=1 $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch .venv

demo: .venv
	$(BIN)/revgrad demo

test: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest

bench: .venv
	for file in benchmarks/*.py; do OMP_NUM_THREADS=1 $(BIN)/python $$file --json || exit 1; done

# pages and tables that are made, never typed
docs: .venv
	$(BIN)/python docs/make.py
