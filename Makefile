# Every target sets up what it needs in .venv; a fresh machine needs Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test check slow clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.demo  ## the main job, on data that needs no download
	$(BIN)/fedwqcp demo --out out

test: $(VENV)/.dev  ## the quick suite
	$(BIN)/python -m pytest -n 2 -m "not slow"

check: $(VENV)/.dev  ## format, lint, types, doors between rooms, docstrings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/numpydoc lint $$(git ls-files 'src/*.py' ':!src/fedwqcp/cli')  # a command's docstring is its --help

slow: $(VENV)/.dev  ## coverage against exact laws
	$(BIN)/python -m pytest -n 2 -m slow

clean:
	rm -rf $(VENV) out dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("fedwqcp needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade "pip>=25.1"

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(PIP) install --quiet -e ".[demo]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(PIP) install --quiet -e ".[all]" --group test --group check
	touch $@
