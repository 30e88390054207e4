"""Where a run stands: all that a checkpoint must hold beside weights and optimizer state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from sdrop.training.hidden_state import HiddenState, map_state


@dataclass(frozen=True)
class Validation:
    """The metric of one validation, after `step`, in `epoch` (from 1)."""

    step: int
    epoch: int
    value: float


@dataclass
class Window:
    """What was trained on since the last line of training metrics."""

    loss: float = 0.0
    """Summed negative log-likelihood, in nats, over all ranks."""
    tokens: int = 0
    seconds: float = 0.0
    """Training seconds at which the window began."""
    gradient_norm: float = 0.0
    """Of the last step, before clipping."""


@dataclass
class TrainerState:
    """The position of a run and its history.

    Args:
        mask_seed: what dropout masks are drawn from, together with `micro_step`.
        epoch: epochs finished.
        batch: batches of the running epoch that were trained on.
        step: optimizer steps taken.
        micro_step: batches trained on in all.
        tokens: tokens trained on in all, on all ranks.
        lines: lines of metrics written.
        seconds_train: time spent training.
        seconds_total: that, and evaluation, checkpoints and starting up.
        hidden: this rank's hidden state after the last batch.
        window: what the next line of training metrics is about.
        history: all validations.
    """

    mask_seed: int
    epoch: int = 0
    batch: int = 0
    step: int = 0
    micro_step: int = 0
    tokens: int = 0
    lines: int = 0
    seconds_train: float = 0.0
    seconds_total: float = 0.0
    hidden: HiddenState = None
    window: Window = field(default_factory=Window)
    history: list[Validation] = field(default_factory=list)

    @property
    def position(self) -> tuple[int, int, int]:
        """What tells two checkpoints apart."""
        return self.step, self.epoch, self.batch

    def values(self, before_epoch: int | None = None) -> list[float]:
        """The metric at each validation; with `before_epoch`, of the epochs before that one."""
        return [
            validation.value
            for validation in self.history
            if before_epoch is None or validation.epoch < before_epoch
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the hidden state, in plain types that `weights_only` loading allows."""
        own = {name: value for name, value in vars(self).items() if name != "hidden"}
        history = [dict(vars(validation)) for validation in self.history]
        return {**own, "window": dict(vars(self.window)), "history": history}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TrainerState:
        """The inverse of `to_dict`."""
        history = [Validation(**validation) for validation in content["history"]]
        return cls(**{**content, "window": Window(**content["window"]), "history": history})


def detached(hidden: HiddenState) -> HiddenState:
    """Cuts the graph between two windows (truncated backpropagation)."""
    return map_state(hidden, Tensor.detach)
