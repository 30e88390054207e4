"""What a figure depends on: the processor, its load, and how fast it multiplies at best."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sdrop.backends import backends
from sdrop.benchmark.timing import Clock

_PEAK_SIZES = (256, 512, 1024, 2048)
_PEAK_TRIES = 3
_PEAK_FLOP_A_TRY = 2e9


def describe_machine(device: str, threads: int) -> str:
    """The machine and the software in a line."""
    if device != "cpu":
        where = torch.cuda.get_device_name(device)
    else:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        where = f"{threads} of {cores} cores of {_cpu_model()} ({_vector_instructions()})"
    return (
        f"{where}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"sdrop's kernels: {backends()['cpu' if device == 'cpu' else 'cuda']}"
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _vector_instructions() -> str:
    return torch.backends.cpu.get_cpu_capability()


def load_average() -> float | None:
    """How many processes wanted to run in the last minute; None where nothing tells."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def measure_peak(device: str, dtype: torch.dtype, clock: Clock) -> float:
    """The highest GFLOP/s of dense `torch.mm` on square matrices of several sizes."""
    return max(_gflops(size, device, dtype, clock) for size in _PEAK_SIZES)


@torch.no_grad()
def _gflops(size: int, device: str, dtype: torch.dtype, clock: Clock) -> float:
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    flop = 2.0 * size**3
    calls = max(1, round(_PEAK_FLOP_A_TRY / flop))

    def run() -> None:
        for _ in range(calls):
            torch.mm(left, right, out=out)

    run()
    return flop * calls / min(clock.seconds(run) for _ in range(_PEAK_TRIES)) / 1e9


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Lets torch use so many threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
