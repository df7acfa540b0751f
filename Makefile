# Every target makes its own virtual environment with what it needs, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
THREADS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
RESULTS := build/bench

.PHONY: help demo test lint format bench spec eintup fuzz clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:
	@echo "make demo       recognise handwritten digits, then time AlexNet (needs no compiler)"
	@echo "make test       run every test"
	@echo "make lint       check style and types"
	@echo "make format     put the code into its style"
	@echo "make spec       every section of the specification and every operator, on both executors"
	@echo "make eintup     every feature and every program of Einsum Tuple, against TensorFlow and others"
	@echo "make fuzz       ten thousand damaged programs, values and files; random formulas"
	@echo "make bench      numbers and speed beside ONNX Runtime, OpenVINO and PyTorch; takes an hour"
	@echo "make clean      remove what the other targets made"

demo: $(STAMPS)/demo
	@$(BIN)/python examples/demo.py

test: $(STAMPS)/test
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

lint: $(STAMPS)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMPS)/lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMPS)/bench
	$(BIN)/python -m benchmarks.suite --threads $(THREADS) --json $(RESULTS)/suite.json --svg $(RESULTS)
	$(BIN)/python -m benchmarks.compile_time --threads $(THREADS)
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.tiny
	$(BIN)/python -m benchmarks.loops --threads $(THREADS)
	$(BIN)/python -m benchmarks.gradients --threads $(THREADS)
	$(BIN)/python -m benchmarks.eintup --threads $(THREADS)
	$(BIN)/python -m benchmarks.no_names --threads $(THREADS)
	$(BIN)/python -m benchmarks.shared_cores --threads $(THREADS)

spec: $(STAMPS)/test
	$(BIN)/python -m tests.spec

eintup: $(STAMPS)/test
	$(BIN)/python -m tests.eintup
	$(BIN)/python -m tests.eintup.programs --reps 3

fuzz: $(STAMPS)/test
	$(BIN)/python -m tests.fuzz --cases 10000
	$(BIN)/python -m tests.fuzz --kinds lower --cases 500

# The package itself, with the extra that the stamp is named after.
$(STAMPS)/%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing ricci[$*] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e ".[$*]"
	@mkdir -p $(STAMPS)
	@touch $@

clean:
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
