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
_PEAK_SECONDS_A_TRY, _PEAK_SECONDS_A_CALL = 0.05, 0.5
_PEAK_MOST_CALLS = 100


def describe_machine(device: str, threads: int) -> str:
    """The machine and the software in a line."""
    if device != "cpu":
        where = torch.cuda.get_device_name(device)
    else:
        where = f"{threads} of {cores()} cores of {_cpu_model()} ({_vector_instructions()})"
    return (
        f"{where}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"sdrop's kernels: {backends()['cpu' if device == 'cpu' else 'cuda']}"
    )


def cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(threads: int, device: str) -> None:
    """Refuses more threads than cores: they would wait for each other, and time that.

    Raises:
        ValueError: with how many there are.
    """
    if device == "cpu" and threads > cores():
        raise ValueError(f"threads={threads}: this process may use {cores()} cores; ask for fewer.")


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
    """The highest GFLOP/s of dense `torch.mm` on square matrices of several sizes.

    Sizes that would take long are left out: bfloat16 without instructions for it is that slow.
    """
    best = 0.0
    for size in _PEAK_SIZES:
        flop = 2.0 * size**3
        if best and flop / best / 1e9 > _PEAK_SECONDS_A_CALL:
            break
        best = max(best, _gflops(size, device, dtype, clock))
    return best


@torch.no_grad()
def _gflops(size: int, device: str, dtype: torch.dtype, clock: Clock) -> float:
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)

    def run() -> None:
        torch.mm(left, right, out=out)

    first = clock.seconds(run)
    calls = max(1, min(_PEAK_MOST_CALLS, round(_PEAK_SECONDS_A_TRY / max(first, 1e-9))))

    def run_often() -> None:
        for _ in range(calls):
            run()

    seconds = min(clock.seconds(run_often) for _ in range(_PEAK_TRIES))
    return 2.0 * size**3 * calls / seconds / 1e9


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Lets torch use so many threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
