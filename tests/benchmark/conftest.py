"""A clock that tells the same time on every machine."""

from collections.abc import Callable

import pytest

from sdrop.benchmark.timing import Clock


@pytest.fixture
def steady() -> Clock:
    """Runs what it is given and says that it took longer each time: 1 s, 2 s, 3 s, …"""
    readings = iter(range(1, 10**6))

    def seconds(run: Callable[[], object]) -> float:
        run()
        return float(next(readings))

    return Clock("a steady clock", seconds)
