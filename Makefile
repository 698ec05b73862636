# Needs only python3 (3.11 or newer, with venv) and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
pip     = $(1)/bin/python -m pip --quiet --disable-pip-version-check
PIP    := $(call pip,$(VENV))

.PHONY: demo docs test test-all test-processors test-plain test-haswell lint bench clean
.DELETE_ON_ERROR:

# One stamp per set of packages, so that a second run installs nothing.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --editable ".[plot,tables]"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --group test
	touch $@

# Style and types are checked in an environment of their own, with the packages that they were
# checked with before: these need not be the ones that the tests run with.
LINT := $(VENV)/lint

$(LINT)/installed: pyproject.toml
	$(PYTHON) -m venv $(LINT)
	$(call pip,$(LINT)) install --upgrade 'pip>=25.1'
	$(call pip,$(LINT)) install --editable ".[plot,tables]" --group lint
	touch $@

demo: $(VENV)/installed
	$(BIN)/cutplane demo

lint: $(LINT)/installed
	$(LINT)/bin/ruff check .
	$(LINT)/bin/ruff format --check .
	$(LINT)/bin/mypy

TESTS ?= tests

test: $(VENV)/installed-dev
	$(BIN)/pytest --numprocesses auto -m "not slow" $(TESTS)

# Torch, a driver of browsers and others: tests are skipped where they are missing.
$(VENV)/installed-torch: $(VENV)/installed-dev
	$(PIP) install torch==2.13.0
	$(PIP) install --group release --group more
	touch $@

test-all: $(VENV)/installed-torch
	$(BIN)/pytest --numprocesses auto

# The tests as on other processors: results differ in their last bits, and nothing may hang on them.
# A plain one has no fused multiplication and addition, and short vectors; for NumPy that means all
# that it would choose at run time, whatever its version calls it. The other one has AVX2. Kernels
# have a cache of their own for each.
as_on = NUMBA_CPU_NAME=$(1) NUMBA_CPU_FEATURES= OPENBLAS_CORETYPE=$(2) \
	NUMBA_CACHE_DIR=$(abspath $(VENV))/kernels-$(1)
CHOSEN_BY_NUMPY = $$($(BIN)/python -c \
	"from numpy._core._multiarray_umath import __cpu_dispatch__ as names; print(*names)")

test-plain: $(VENV)/installed-dev
	$(call as_on,generic,Prescott) NPY_DISABLE_CPU_FEATURES="$(CHOSEN_BY_NUMPY)" \
		$(BIN)/pytest --numprocesses auto -m "not slow" $(TESTS)

test-haswell: $(VENV)/installed-dev
	$(call as_on,haswell,Haswell) $(BIN)/pytest --numprocesses auto -m "not slow" $(TESTS)

test-processors: test-plain test-haswell

$(VENV)/installed-docs: $(VENV)/installed-dev
	$(PIP) install --group docs
	touch $@

docs: $(VENV)/installed-docs
	$(BIN)/sphinx-build -b html -W --keep-going docs docs/_build/html

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/linear.py

clean:
	rm -rf $(VENV) docs/_build docs/reference .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
