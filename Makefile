# Needs only python3 (3.11 or newer, with venv) and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test test-all lint bench clean
.DELETE_ON_ERROR:

# One stamp per set of packages, so that a second run installs nothing.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --editable '.[plot]'
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --group test --group lint
	touch $@

demo: $(VENV)/installed
	$(BIN)/cutplane demo

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest --numprocesses auto -m "not slow"

test-all: lint
	$(BIN)/pytest --numprocesses auto

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/linear.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
