# Everything a developer does, each on a machine with nothing but Python and make.
#   make demo   set up, then the whole job on the generated corpus
#   make test   set up, then lint, types and tests
#   make bench  set up, then every benchmark that runs on this machine
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin

.PHONY: demo test tests lint bench clean

demo: $(VENV)/.installed
	$(RUN)/focat demo

test: $(VENV)/.installed
	$(MAKE) --no-print-directory -j 2 lint tests

tests: $(VENV)/.installed
	$(RUN)/pytest

lint: $(VENV)/.installed
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

bench: $(VENV)/.installed-bench
	$(RUN)/python -m benchmarks

clean:
	rm -rf $(VENV)

# A stamp is newer than what it was made from: a second run installs nothing. Python compiles what it imports, when it
# first does, and must be allowed to keep it; to let pip compile everything takes longer than all the rest of the set-up.
# The largest part is compiled while pip, which has one core's work, installs the rest.
INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(RUN)/python -m compileall -q $(VENV)/lib/python*/site-packages/torch & $(INSTALL) -e '.[dev]' && wait
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) -e '.[dev,bench]'
	touch $@
