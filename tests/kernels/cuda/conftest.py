"""The CUDA kernels for the tests: emulated on the CPU, or on a GPU with SDROP_TEST_DEVICE=cuda.

The emulated library is built once and kept in build/emulation under the hash of its sources.
"""

import ctypes
import importlib.util
import os
from pathlib import Path

import filelock
import pytest
import torch

import sdrop

REPOSITORY = Path(__file__).resolve().parents[3]
CACHE = REPOSITORY / "build" / "emulation"
ON_GPU = os.environ.get("SDROP_TEST_DEVICE") == "cuda"
THREAD_ORDERS = [0] if ON_GPU else [0, 1, 7]
"""Forward, backward, and the seed of a random one; a GPU has its own."""


@pytest.fixture
def needs_kernels():
    """In place of the fixture beside the CPU kernels' tests: these here need none of those."""


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """In these tests alone: others of the same process may ask what is missing here."""
    monkeypatch.setattr("sdrop.ops.native_cuda.emulated", not ON_GPU)


def load_emulation_build():
    path = REPOSITORY / "kernels" / "emulation" / "build.py"
    spec = importlib.util.spec_from_file_location("build_emulation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def emulated_library():
    """The emulated library, loaded; skips where there is no C++ compiler."""
    builder = load_emulation_build()
    if builder.compiler() is None:
        pytest.skip("no C++ compiler: the CUDA kernels cannot be emulated")
    CACHE.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(CACHE / "lock"):
        library = builder.build(CACHE)
    torch.ops.load_library(str(library))
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def device(request):
    """Where tensors for the CUDA kernels lie: on the GPU, or on the CPU for the emulation."""
    if not ON_GPU:
        request.getfixturevalue("emulated_library")
        return torch.device("cpu")
    status = sdrop.backends()["cuda"]
    if not status.startswith("available"):
        pytest.skip(f"the CUDA kernels are {status}")
    return torch.device("cuda")


@pytest.fixture
def set_thread_order(device, request):
    """A function that sets in which order the emulation runs threads; restored after the test."""
    if ON_GPU:
        yield lambda order: None
        return
    library = request.getfixturevalue("emulated_library")
    yield library.sdrop_set_thread_order
    library.sdrop_set_thread_order(0)


@pytest.fixture
def in_each_order(set_thread_order):
    """A function that calls another in each thread order, sees that all results (tensors) have
    the same bits, and returns them."""

    def run(compute):
        set_thread_order(THREAD_ORDERS[0])
        first = compute()
        for order in THREAD_ORDERS[1:]:
            set_thread_order(order)
            for expected, found in zip(first, compute(), strict=True):
                assert torch.equal(expected, found), f"other results in thread order {order}"
        return first

    return run
