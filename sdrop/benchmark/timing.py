"""Timing that people can trust: candidates in turn within one process, round by round.

Whatever slows the machine for a while then slows all of them, and the ratio of two times of one
round says more than the ratio of two averages.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Times = dict[str, list[float]]
"""Milliseconds of one call in each round, by candidate."""

MIN_ROUNDS, MAX_ROUNDS = 3, 50
_SECONDS_A_ROUND = 0.02  # shorter candidates are called several times in a round
_MAX_CALLS = 200


def nothing() -> None:
    """What a candidate needs in front of a call, where it needs nothing."""


@dataclass(frozen=True)
class Candidate:
    """One thing to time.

    Attributes:
        run: what is timed.
        prepare: what must be done in front of each call and is not timed.
    """

    run: Callable[[], object]
    prepare: Callable[[], object] = nothing


class Stopped(Exception):
    """The user asked to stop before there was anything to keep of this comparison."""


@dataclass(frozen=True)
class Clock:
    """A way to time one call.

    Attributes:
        name: in words, for tables.
        seconds: calls its argument and returns how long that took.
    """

    name: str
    seconds: Callable[[Callable[[], object]], float]


def _process_time(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _wall_time(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _cuda_time(run: Callable[[], object]) -> float:
    start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def clock_for(device: str, threads: int) -> Clock:
    """CUDA events on a GPU; on a CPU process time for one thread, else wall time.

    Process time leaves out what other processes take from a thread, but it adds the threads up.
    """
    if device != "cpu":
        return Clock("CUDA events", _cuda_time)
    if threads == 1:
        return Clock("process CPU time", _process_time)
    return Clock("wall time", _wall_time)


def time_in_turn(
    candidates: Mapping[str, Candidate],
    clock: Clock,
    *,
    rounds: int | None = None,
    seconds: float = 10.0,
    stop: Callable[[], bool] = lambda: False,
) -> Times:
    """Times every candidate once a round, after a call each that is not counted.

    Args:
        candidates: by name. Short ones are called several times in a round.
        clock: how.
        rounds: how many; None for as many as fit in `seconds`, from 3 to 50.
        seconds: the time to spend, warming up included.
        stop: asked in front of each candidate; whole rounds from before are kept.

    Raises:
        Stopped: where `stop` said so before one round was whole.
    """
    gc.collect()
    began = time.perf_counter()
    once = {name: _one(each, clock, 1, stop) for name, each in candidates.items()}
    warm_up = time.perf_counter() - began
    calls = {
        name: min(_MAX_CALLS, math.ceil(_SECONDS_A_ROUND / max(first, 1e-9)))
        for name, first in once.items()
    }
    left = seconds - warm_up
    times: Times = {name: [] for name in candidates}
    number, started = 0, time.perf_counter()
    while number < (rounds or MAX_ROUNDS):
        spent = time.perf_counter() - started
        fits = number < MIN_ROUNDS or spent * (number + 1) / number <= left
        if rounds is None and not fits:
            break
        try:
            found = {
                name: _one(each, clock, calls[name], stop) for name, each in candidates.items()
            }
        except Stopped:
            if number == 0:
                raise
            break
        for name, second in found.items():
            times[name].append(1e3 * second)
        number += 1
    return times


def _one(candidate: Candidate, clock: Clock, calls: int, stop: Callable[[], bool]) -> float:
    """Mean seconds of a call."""
    if stop():
        raise Stopped
    total = 0.0
    for _ in range(calls):
        candidate.prepare()
        total += clock.seconds(candidate.run)
    return total / calls


def spread(milliseconds: list[float]) -> float:
    """The distance between the quartiles as a share of the median; 0 for a single time."""
    if len(milliseconds) < 2:
        return 0.0
    low, median, high = statistics.quantiles(milliseconds, n=4, method="inclusive")
    return (high - low) / median
