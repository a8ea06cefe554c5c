# Development targets. They need Python 3.10 or later, make and, for the first set-up, the network.
#   make demo    set up, then train and measure three tiny systems on the generated corpus
#   make test    set up, then lint, types and tests
#   make docs    set up, then build the documentation into site/; a broken link is an error
#   make wheel   build the wheel, install it into an empty environment and train and translate with it
#   make soak    set up, then kill and fuzz every command for MINUTES (10), with SEED (1) and WORKERS (one for each core)
#   make cluster set up, then lose an actor of Ray that translates, and one of two agents of torchrun that train
#   make kernels set up, then test the kernels of GPUs on the CPU, in Triton's interpreter, and compile them
#   make bench   set up, then run every benchmark that runs on this machine
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin

.PHONY: demo test tests lint docs wheel soak cluster kernels bench clean

demo: $(VENV)/.installed
	$(RUN)/focat demo

test: $(VENV)/.installed
	$(MAKE) --no-print-directory -j 2 lint tests
	$(MAKE) --no-print-directory kernels

tests: $(VENV)/.installed
	$(RUN)/pytest

lint: $(VENV)/.installed
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict

wheel: $(VENV)/.installed-release
	rm -rf dist
	$(RUN)/python -m build --quiet --outdir dist
	$(RUN)/python -m tests.release.check_wheel dist constraints.txt

MINUTES ?= 10
SEED    ?= 1
soak: $(VENV)/.installed
	$(RUN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(if $(WORKERS),--workers $(WORKERS)) --out soak

cluster: $(VENV)/.installed-ray
	FOCAT_CLUSTER=1 $(RUN)/pytest -n 0 tests/test_ray.py tests/training/test_elastic.py

kernels: $(VENV)/.installed-kernels
	TRITON_INTERPRET=1 $(RUN)/pytest tests/model/test_packed_attention.py tests/model/test_source_projection.py tests/model/test_fused_layers.py \
	    tests/model/test_fused_embeddings.py tests/model/test_tree_attention.py \
	    tests/model/test_next_tokens.py tests/decoding/test_top_tokens.py tests/decoding/test_fused_beam.py \
	    tests/training/test_loss_kernel.py tests/training/test_fused_muon.py
	$(RUN)/pytest tests/training/test_compiled_kernels.py

bench: $(VENV)/.installed-bench
	$(RUN)/python -m benchmarks

clean:
	rm -rf $(VENV) site dist

# A stamp is newer than the files it depends on, so a second run installs nothing. `--no-compile`: Python compiles a module
# when it is first imported, which is faster than letting pip compile every file. torch, the largest package, is
# compiled while pip installs the rest.
INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
unexport PYTHONDONTWRITEBYTECODE

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(RUN)/python -m compileall -qq $(VENV)/lib/python*/site-packages/torch & $(INSTALL) -e '.[dev]' && wait
	touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(INSTALL) -e '.[dev,$*]'
	touch $@
