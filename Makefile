# Everything a developer does, each on a machine with nothing but Python and make.
#   make demo   set up, then the whole job on the generated corpus
#   make test   set up, then lint, types and tests
#   make bench  set up, then every benchmark that runs on this machine
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/.installed
	$(RUN)/focat demo

test: $(VENV)/.installed
	$(MAKE) --no-print-directory -j 2 lint $(VENV)/.compiled
	$(RUN)/pytest

lint: $(VENV)/.installed
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

bench: $(VENV)/.installed-bench
	$(RUN)/python -m benchmarks

clean:
	rm -rf $(VENV)

# A stamp is newer than what it was made from: a second run installs nothing. pip compiles one file after the other; for
# tests, which start many processes, it is done on all cores, while types are checked.
INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[dev]'
	touch $@

$(VENV)/.compiled: $(VENV)/.installed
	-$(RUN)/python -m compileall -q -j 0 $(VENV)/lib
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) -e '.[dev,bench]'
	touch $@
