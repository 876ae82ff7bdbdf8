# Everything runs in .venv, which is made from nothing on first use and again when the requirements change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.stamp
PEERS_ARGS ?=
PYTEST_ARGS ?= -n 2 --dist worksteal

# One thread per process: the tests already run in two processes.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export NUMBA_NUM_THREADS ?= 2
export MPLBACKEND ?= Agg

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format docs bench-peers clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## *' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dtmgp needs Python >= 3.11, but $(PYTHON) is $$($(PYTHON) --version 2>&1). Set PYTHON, e.g.: make PYTHON=python3.12 test"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	# torch first and by its exact version, so that no later requirement can pull another build.
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all,dev,docs]"
	@touch $@

demo: $(STAMP)  ## fit the one-layer model to the activity network, print its accuracy, draw a plot
	$(BIN)/python examples/demo_activity_network.py

test: $(STAMP)  ## unit tests and doctests, without the slow ones
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all: $(STAMP)  ## all tests, the statistical and scale tests included
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "slow or not slow"

lint: $(STAMP)  ## ruff check, ruff format --check, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## format the code and apply ruff's safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## build the documentation in docs/_build/html; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(PEERS_STAMP): benchmarks/peers/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	# torch first and by its exact version, so that no later requirement can pull another build.
	$(PEERS)/bin/python -m pip install --quiet torch==2.13.0
	$(PEERS)/bin/python -m pip install --quiet -r benchmarks/peers/requirements.txt
	$(PEERS)/bin/python -m pip install --quiet --no-deps -e .
	@touch $@

bench-peers: $(PEERS_STAMP)  ## the peers beside the default, in .venv-peers; hours, goes on where it stopped
	NUMBA_NUM_THREADS=1 $(PEERS)/bin/python benchmarks/peers_against_time.py $(PEERS_ARGS)

clean:  ## remove caches and generated documentation (not .venv)
	rm -rf build dist docs/_build docs/gallery docs/generated docs/sg_execution_times.rst
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
