# Two commands: `make demo` and `make test`. Both make the environment first; Python ≥ 3.11 is all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SIDE_BY_SIDE := --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

.PHONY: help demo test test-all test-lowest faults docs environment lint clean

help:
	@echo "make demo      run several learners through the embedded stream and write the report"
	@echo "make environment  make the environment alone, in .venv"
	@echo "make test      run the tests"
	@echo "make test-all  run the slow tests too, those of Ray and of the site among them (which it installs)"
	@echo "make test-lowest  run the tests with the lowest versions that are supported"
	@echo "make faults    kill every command that writes, fail its files and cut its power: 45 minutes"
	@echo "make lint      check style, format and types: ruff and mypy"
	@echo "make docs      build the documentation site in build/docs, and check its links"
	@echo "make clean     remove the environment and the demo's runs"

environment: $(VENV)/ready

$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: environment
	$(BIN)/python -m launch.demo

test: environment
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-all: environment
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cluster,docs]'
	$(BIN)/python -m pytest -m '' $(SIDE_BY_SIDE)

test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable '.[dev]'
	.venv-lowest/bin/python -m pytest $(SIDE_BY_SIDE)

faults: environment
	$(BIN)/python -m tests.nightly.sweep build/faults --part=1/2 & \
		$(BIN)/python -m tests.nightly.sweep build/faults --part=2/2; wait

lint: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: environment
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs

clean:
	rm -rf $(VENV) runs/demo
