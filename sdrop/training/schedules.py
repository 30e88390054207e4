"""Learning-rate schedules: pure functions of the epoch and of the earlier validation metrics.

A schedule returns the factor on the learning rate that the optimizer was made with. It keeps no
state, so a resumed run, which has the same epoch and history, has the same rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch.optim import Optimizer

from sdrop.training.metric import Metric


class Schedule(Protocol):
    """`schedule(epoch, history)`: epoch counts from 1, history is of the epochs before it."""

    def __call__(self, epoch: int, history: Sequence[float], /) -> float: ...


def constant() -> Schedule:
    """The same rate in every epoch."""
    return lambda epoch, history: 1.0


def decay_after(epoch: int, factor: float) -> Schedule:
    """The full rate up to and with `epoch`, then times `factor` once more in each epoch.

    `decay_after(4, 0.5)` is a rate of 1 in epochs 1 to 4, 1/2 in 5, 1/4 in 6. The script of Zaremba
    et al. 2014 lowers the rate at the end of an epoch, from the first past its limit (4, 6, 14) on:
    its models are `decay_after(5, 0.5)`, `decay_after(7, 1 / 1.2)`, `decay_after(15, 1 / 1.15)`.

    Raises:
        ValueError: for a negative epoch or a factor outside (0, 1].
    """
    if epoch < 0:
        raise ValueError(f"decay_after(epoch={epoch}): expected 0 or more")
    _check_factor("decay_after", factor)
    return lambda current, history: float(factor ** max(0, current - epoch))


def decay_inverse_time(decay: float) -> Schedule:
    """The full rate over 1 + decay · (epochs before this one), as Ma & Hovy 2016, section 3.2.

    Raises:
        ValueError: for a negative decay.
    """
    if not decay >= 0.0:
        raise ValueError(f"decay_inverse_time(decay={decay!r}): expected 0 or more")
    return lambda epoch, history: 1.0 / (1.0 + decay * (epoch - 1))


def decay_on_plateau(metric: Metric, factor: float = 0.5, patience: int = 0) -> Schedule:
    """Times `factor` each time that more than `patience` validations in a row brought no new best.

    Raises:
        ValueError: for a factor outside (0, 1] or a negative patience.
    """
    _check_factor("decay_on_plateau", factor)
    if patience < 0:
        raise ValueError(f"decay_on_plateau(patience={patience}): expected 0 or more")
    return lambda epoch, history: float(factor ** _plateaus(metric, history, patience))


def set_learning_rate(optimizer: Optimizer, factor: float) -> None:
    """Sets each group's rate to `factor` times the one that it was made with."""
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor


def _plateaus(metric: Metric, history: Sequence[float], patience: int) -> int:
    """How often the history ran out of patience."""
    best: float | None = None
    stale = plateaus = 0
    for value in history:
        if metric.improves(value, best):
            best, stale = value, 0
        else:
            stale += 1
        if stale > patience:
            plateaus, stale = plateaus + 1, 0
    return plateaus


def _check_factor(name: str, factor: float) -> None:
    if not 0.0 < factor <= 1.0:
        raise ValueError(f"{name}(factor={factor!r}): expected a factor in (0, 1], such as 1 / 1.2")
