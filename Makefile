# Every target sets up what it needs: Python 3.11 to 3.13 and Java 17 or 21 are enough.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tests start hundreds of processes: without bytecode on disk each of them compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SOURCES := tidemark pipelines sources sinks paimon_table
PYTHON_FILES := $(SOURCES) tests benchmarks scripts
# What tests share (a broker, a JVM, a Spark session) stays with one worker: tests/support/order.py. They wait for JVMs and
# brokers half of the time, so two cores have work for four.
TEST_WORKERS ?= 4
# Fast tests wait a quarter of the time, for commands and threads that they start: one worker more than there are cores.
FAST_WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < $(TEST_WORKERS) ? cores + 1 : $(TEST_WORKERS))))
SHARES = $(shell seq $(FAST_WORKERS))
PYTEST := $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder --show-failures-at-once
FAST := not slow and not spark and not stack and not interop and not crash
# Types are checked while the tests run: mypy has work for one core.
define beside_types
	@mkdir -p build
	$(BIN)/mypy >build/mypy.log 2>&1 & mypy=$$!; failed=0; \
	$(1) || failed=1; \
	wait $$mypy || failed=1; cat build/mypy.log; exit $$failed
endef
PYPAIMON_LOCK := tests/interop/requirements-pypaimon.lock

.PHONY: help demo test check try lint coverage bench bench-smoke docs pages fmt lock venv venv-dev java clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: java venv ## replay a dump of shop events into Paimon tables
	@$(BIN)/tidemark run configs/quickstart.yaml --once

test: java venv-dev lint ## everything: static checks and all tests
	-$(BIN)/python -m tests.stack.class_archive
	$(call beside_types,$(PYTEST) -n $(TEST_WORKERS) --durations=15)

# Each process collects its share of the files alone: workers of pytest-xdist would each collect all of them.
check: java venv-dev lint ## format, lint, types, layers and the fast tests
	$(call beside_types,$(MAKE) --no-print-directory --keep-going --jobs --output-sync $(SHARES:%=share-%))

share-%:
	@$(BIN)/python -m pytest --quiet --share $*/$(FAST_WORKERS) -m "$(FAST)"

try: venv-dev ## the fast tests of T, such as T="tests/paimon_table/merge -x"
	$(BIN)/python -m pytest -q -m "$(FAST)" $(T)

lint: venv-dev
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/ruff check $(PYTHON_FILES)

coverage: java venv-dev ## lines and branches that the fast tests run, in build/coverage
	mkdir -p build/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(FAST_WORKERS) --dist loadgroup --no-loadscope-reorder -m "$(FAST)"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet && $(BIN)/coverage report --format=total

docs: venv-dev ## build the site into build/site; links and anchors that lead nowhere fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo build/site/index.html

pages: venv-dev ## write the generated pages of docs/ again
	mkdir -p build
	$(BIN)/python -m pipelines.config.config_reference > build/CONFIGURATION.md
	mv build/CONFIGURATION.md docs/CONFIGURATION.md
	$(BIN)/python -m pipelines.command_reference docs/COMMANDS.md
	$(BIN)/python -m pipelines.http.metrics_reference docs/OPERATIONS.md
	$(BIN)/python -m tests.docs.cookbook

bench: java venv-dev ## measure events per second; BENCH_ARGS are passed on
	$(BIN)/python -m benchmarks.throughput $(BENCH_ARGS)

# A test does the same with Tidemark alone: tests/benchmarks/test_side_by_side_run.py.
bench-smoke: java venv-dev ## run what benchmarks/side_by_side has set up already, on few events: it works, no numbers
	$(BIN)/python -m benchmarks.side_by_side --events 2000 --workloads uniform,append --ready-only --results build/bench-smoke.json

fmt: venv-dev ## format and fix
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)

# --universal: one file for all supported Pythons and systems, plain pip reads it; no index address is written.
UV_COMPILE = $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" $(LOCK_ARGS)

lock: venv-dev ## resolve the lock files again; LOCK_ARGS=--upgrade for newer versions
	$(BIN)/python -m pip --quiet install uv
	$(UV_COMPILE) pyproject.toml --extra build --extra jdbc --extra s3 --extra docs --extra dev -o requirements-dev.lock
	$(UV_COMPILE) pyproject.toml --extra build --extra jdbc --extra s3 --constraints requirements-dev.lock -o requirements.lock
	$(UV_COMPILE) tests/interop/requirements-pypaimon.in -o $(PYPAIMON_LOCK)

venv: ## .venv with what Tidemark needs to run
	@scripts/venv.sh $$([ -f .venv/.installed-requirements-dev.lock ] && echo requirements-dev.lock || echo requirements.lock)

venv-dev: ## .venv with what the tests need too
	@scripts/venv.sh requirements-dev.lock

java:
	@scripts/java.sh

clean: ## remove environments, caches and demo output
	rm -rf .venv .cache build demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
