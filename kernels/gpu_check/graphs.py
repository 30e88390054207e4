"""Candidates as CUDA graphs, and a clock for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sdrop.benchmark.timing import Candidate, Clock

_WARM_UPS = 3
_SLEEP_CYCLES = 200_000
"""About 0.1 ms: longer than it takes to hand a graph to the driver."""


def captured(candidate: Candidate, *, with_prepare: bool = False) -> Candidate:
    """The same work as one graph, which costs a launch.

    Args:
        candidate: whatever it does must be on the current device alone, with no wait for it.
        with_prepare: put `prepare` into the graph; else it runs once in front of the capture.

    Raises:
        RuntimeError: where it cannot be captured.
    """

    def run() -> None:
        if with_prepare:
            candidate.prepare()
        candidate.run()

    stream: Any = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            candidate.prepare()
            run()
        candidate.prepare()
        with torch.cuda.graph(graph, stream=stream):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    return Candidate(graph.replay)


def graph_clock() -> Clock:
    """CUDA events around a graph that is launched while the GPU still waits, so that the time is
    the GPU's alone."""
    return Clock("CUDA events around a CUDA graph", _seconds)


def _seconds(run: Callable[[], object]) -> float:
    start: Any = torch.cuda.Event(enable_timing=True)
    end: Any = torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    torch.cuda._sleep(_SLEEP_CYCLES)
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3
