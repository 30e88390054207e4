# Two commands: `make demo` runs the main job, `make test` passes the tests. Each sets up .venv by itself.
# Everything runs as `.venv/bin/python -m …` on relative paths: scripts in .venv/bin carry an absolute path in
# their first line, which breaks where the folder's name holds a space.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
RUN := $(VENV)/bin/python -m
STAMP := $(VENV)/installed
CHECK_PYTHON := import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 14) else \
  "Python 3.11 to 3.13 is needed, got %d.%d: name another one with PYTHON=python3.11" % v)
# One torch thread a worker: faster for small tensors on few cores, and sums are added in one order.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: setup demo test test-long sanitize lint wheel kernels-report clean
.DELETE_ON_ERROR:

setup: $(STAMP)

# The stamp comes last, so an interrupted set-up is taken up again. Torch comes first and by its exact version: left
# to choose, pip may take a build of several gigabytes.
$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard kernels/build*.py kernels/cpu/* kernels/cuda/*.*h kernels/cuda/*.cu*)
	@rm -f $@
	@$(RUN) pip --version >/dev/null 2>&1 || { \
	  $(PYTHON) -c '$(CHECK_PYTHON)' && $(PYTHON) -m venv --clear $(VENV); }
	$(RUN) pip install --quiet --constraint constraints.txt setuptools setuptools-scm wheel
	$(RUN) pip install --constraint constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(RUN) pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: setup
	$(RUN) recipes.demo

lint: setup
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy --strict sdrop

test: lint
	$(TEST_ENV) $(RUN) pytest -n $(WORKERS) -q

# Not in parallel: these use the whole machine.
test-long: setup
	$(RUN) pytest -m long

# The CPU kernels under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, and the emulated CUDA
# kernels under the first two; a quarter of an hour.
sanitize: setup
	$(TEST_ENV) $(RUN) pytest -m "long or not long" tests/kernels/test_sanitizers.py tests/kernels/cuda/test_sanitizers_cuda.py

# A left-over build/lib would put modules that are gone into the wheel. The CUDA kernels belong in it: the last line
# tells whether they are.
wheel: setup
	rm -rf build/lib* build/bdist.*
	$(RUN) pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@$(VENV)/bin/python kernels/build_cuda.py dist/*.whl

# Registers, shared memory and spills of every CUDA kernel for every architecture.
kernels-report: setup
	@$(VENV)/bin/python kernels/cuda_resources.py

# Keeps .venv and the run folders: remove those by hand.
clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +
