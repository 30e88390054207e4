"""What the GPU itself gives: launches, grid barriers, second-level cache, memory.

The arithmetic behind the choice of kernels assumes these rates; here they are measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

from gpu_check.graphs import captured, graph_clock
from sdrop.benchmark.timing import Candidate

LAUNCHES = 200
ROUNDS = 200
_TRIES = 5
_BARRIER_THREADS = 256

torch.library.define(
    "sdrop::grid_barrier_rounds",
    "(Tensor(a!) arrived, int blocks, int threads, int rounds) -> ()",
)


def measure_rates() -> dict[str, float]:
    """By name, with its unit: microseconds or terabytes a second."""
    properties = torch.cuda.get_device_properties("cuda")
    small = properties.L2_cache_size // 8
    large = min(2**30, properties.total_memory // 16)
    return {
        "launch in a graph, us": _launch(),
        "launch from a stream, us": _stream_launch(),
        "grid barrier, us": _barrier(properties.multi_processor_count),
        "copy within the second-level cache, TB/s": _copy(small),
        "copy in memory, TB/s": _copy(large),
    }


def _seconds(run: Callable[[], object]) -> float:
    clock, candidate = graph_clock(), captured(Candidate(run))
    return statistics.median(clock.seconds(candidate.run) for _ in range(_TRIES))


def _launch() -> float:
    one = torch.zeros(1, device="cuda")

    def run() -> None:
        for _ in range(LAUNCHES):
            one.add_(1.0)

    return 1e6 * _seconds(run) / LAUNCHES


def _stream_launch() -> float:
    """Without a graph, from Python: what a kernel costs where nothing is captured."""
    one = torch.zeros(1, device="cuda")
    seconds = []
    for _ in range(_TRIES):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(LAUNCHES):
            one.add_(1.0)
        end.record()
        torch.cuda.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    return 1e6 * statistics.median(seconds) / LAUNCHES


def _barrier(blocks: int) -> float:
    """One of so many blocks: the time of many rounds less that of few."""
    arrived = torch.zeros(1, dtype=torch.int32, device="cuda")

    def rounds(count: int) -> Callable[[], None]:
        def run() -> None:
            arrived.zero_()
            torch.ops.sdrop.grid_barrier_rounds(arrived, blocks, _BARRIER_THREADS, count)

        return run

    return 1e6 * (_seconds(rounds(2 * ROUNDS)) - _seconds(rounds(ROUNDS))) / ROUNDS


def _copy(size: int) -> float:
    """Bytes read and written, of two buffers of `size` bytes."""
    source, target = torch.zeros(2, size // 4, device="cuda")

    def run() -> None:
        for _ in range(10):
            target.copy_(source)

    return 10 * 2 * size / _seconds(run) / 1e12
