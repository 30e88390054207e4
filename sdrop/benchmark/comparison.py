"""Candidates that belong together, and the rows that come of timing them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sdrop.benchmark.rows import Pair, Row, Setting, make_row
from sdrop.benchmark.timing import Candidate, Clock, Times, time_in_turn

MAX_GRAD_NORM = 5.0
LEARNING_RATE = 0.1


def as_they_are(times: Times) -> Times:
    """Every candidate's times stand for themselves."""
    return times


@dataclass(frozen=True)
class Comparison:
    """What is timed in turn, and which of it makes a row.

    Attributes:
        suite, shape: as in the rows.
        about: the sizes, in words.
        candidates: by name.
        pairs: a row each.
        derived: gives the times that follow from others.
    """

    suite: str
    shape: str
    about: str
    candidates: dict[str, Candidate]
    pairs: list[Pair]
    derived: Callable[[Times], Times] = field(default=as_they_are)

    def measure(
        self,
        setting: Setting,
        clock: Clock,
        *,
        rounds: int | None = None,
        seconds: float = 10.0,
        peak: float | None = None,
        machine: str = "",
        stop: Callable[[], bool] = lambda: False,
    ) -> list[Row]:
        """Times the candidates; a row for each pair.

        Raises:
            Stopped: where `stop` said so before one round was whole.
        """
        times = self.derived(
            time_in_turn(self.candidates, clock, rounds=rounds, seconds=seconds, stop=stop)
        )
        return [
            make_row(self.suite, self.shape, pair, times, setting, peak=peak, machine=machine)
            for pair in self.pairs
        ]


def dtype_of(setting: Setting) -> torch.dtype:
    """The torch type of a setting's name."""
    found: torch.dtype = getattr(torch, setting.dtype)
    return found


def forgets_gradients(module: nn.Module, *inputs: Tensor) -> Callable[[], None]:
    """A `prepare` that leaves no gradient behind, so that none is added up."""

    def prepare() -> None:
        module.zero_grad(set_to_none=True)
        for each in inputs:
            each.grad = None

    return prepare
