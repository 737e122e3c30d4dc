# Everything works on a fresh clone with Python (venv, pip), make and a C compiler.
# `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Many tests wait for processes that they started: four at a time. tests/conftest.py shares them out.
PYTEST_FLAGS ?= --numprocesses 4
BENCH_FLAGS ?=
FUZZ_ROUNDS ?= 200000
# Bytecode is kept where PYTHONDONTWRITEBYTECODE is set, too: each of the processes would take seconds
# to compile the tests.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

ifneq ($(words $(VENV)),1)
$(error VENV is "$(VENV)", and make cannot name a file with a space: give a path without one)
endif

.DEFAULT_GOAL := help
.PHONY: help build demo test test-c test-one soak bench lint format release docs coverage asan tsan sanitized aarch64 fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	"$(PYTHON)" -m venv $(VENV)

# An editable install with one set of extras; done again when the packaging changes.
$(VENV)/installed-%: pyproject.toml setup.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--config-settings editable_mode=compat --editable '.[$*]'
	@touch $@

# Bytecode, too: where PYTHONDONTWRITEBYTECODE is set, every start would compile all modules again.
build: $(VENV)/installed-test ## install into .venv, and compile what changed
	@$(BIN)/python tools/native.py
	@$(BIN)/python -m compileall -q fanstore

demo: $(VENV)/installed-demo ## pack real images, train from the directory and from FanStore
	@$(BIN)/python tools/native.py
	@$(BIN)/python tools/demo/demo.py

test: build ## run the tests
	@$(PYTEST) $(PYTEST_FLAGS)

test-c: ## run the tests in C alone
	"$(PYTHON)" tools/fuzz/build.py --sanitize none

test-one: build ## run what you name: make test-one T=tests/cli, or T="tests -k fork"
	@$(PYTEST) --exitfirst $(T)

soak: build ## run the tests that take long and rarely find anything
	@$(PYTEST) $(PYTEST_FLAGS) --soak

bench: $(VENV)/installed-bench ## beside other file systems: one table (BENCH_FLAGS="--quick --check")
	@$(BIN)/python tools/native.py
	@$(BIN)/python tools/bench/bench.py $(BENCH_FLAGS)

lint: $(VENV)/installed-dev ## ruff, mypy, compiler warnings, layers
	@$(BIN)/python tools/native.py
	@$(BIN)/python tools/native.py --strict --out build/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_layers.py

format: $(VENV)/installed-dev ## format Python, and the lines of C that changed since the last commit
	$(BIN)/ruff format .
	$(BIN)/git-clang-format --binary $(BIN)/clang-format --extensions c,h HEAD

release: $(VENV)/installed-release ## what is published, to dist: built, checked, tried where no compiler is
	@$(BIN)/python tools/native.py
	@$(BIN)/python tools/docs.py
	@$(BIN)/python tools/release.py

docs: $(VENV)/installed-docs ## the documentation as a site that needs no network, to build/docs/site
	@$(BIN)/python tools/docs.py

coverage: $(VENV)/installed-dev ## which lines of Python no test runs (PYTEST_FLAGS="tests/cli" for some)
	@$(BIN)/python tools/native.py
	@rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/coverage run -m pytest $(PYTEST_FLAGS)
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report

asan: ## C tests and fuzz rounds under the address and undefined sanitizers
	"$(PYTHON)" tools/fuzz/build.py --sanitize address,undefined --rounds 20000

tsan: ## C tests under the thread sanitizer
	"$(PYTHON)" tools/fuzz/build.py --sanitize thread

aarch64: build ## build for aarch64, and run what can be run of it under qemu-user
	@$(BIN)/python tools/aarch64.py
	@$(BIN)/python tools/aarch64_job.py
	$(BIN)/python -m pytest tests/contrast/test_aarch64.py $(PYTEST_FLAGS)

sanitized: build ## the contrast suite with a sanitized preload library
	$(BIN)/python tools/sanitized_contrast.py $(PYTEST_FLAGS)

fuzz: build ## fuzz the index and pack readers (FUZZ_ROUNDS=200000)
	"$(PYTHON)" tools/fuzz/build.py --sanitize address,undefined --rounds $(FUZZ_ROUNDS)
	$(BIN)/python tools/fuzz/fuzz_dataset.py --rounds $$(($(FUZZ_ROUNDS) / 50))

clean: ## remove what was built (the virtual environment stays)
	rm -rf build dist *.egg-info bench-*.json
	rm -f fanstore/_native/*.so fanstore/_native/_declarations.py fanstore/_native/*.stamp
	rm -f $(VENV)/installed-*
