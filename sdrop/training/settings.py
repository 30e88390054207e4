"""The settings of a training run that have nothing to do with the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

LossNormalization = Literal["token", "sequence"]


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """How long, how far, how often.

    Args:
        max_epochs: passes over the training batches.
        max_steps: optimizer steps after which to stop, wherever that is; None for no limit.
        max_grad_norm: the global norm that gradients are clipped to; None clips nothing.
        gradient_accumulation_steps: batches (micro-steps) of one optimizer step.
        loss_normalization: `"token"`: the loss of a step is the mean over its tokens.
            `"sequence"`: summed over time and averaged over the batch's columns, as Zaremba et
            al. 2014 do; its gradient is longer by the window's length, so the same learning rate
            means something else.
        log_every_steps: steps of one line of training metrics; an epoch's rest makes a line too.
        validate_every_epochs: epochs from one validation to the next.
        validate_every_steps: validate after so many steps as well; None for epochs alone.
        checkpoint_every_steps: write a checkpoint after so many steps as well. There always is
            one after a validation, after an epoch, and where the run stops.
        keep_checkpoints: how many of the newest to keep, at least 1. The best one stays besides.
        early_stopping_patience: stop at the end of an epoch when so many validations brought no
            new best; None never does.
        same_across_ranks: draw the same dropout masks on all data-parallel ranks.

    Raises:
        TypeError: for a value of the wrong kind.
        ValueError: for a value out of range.
    """

    max_epochs: int = 10
    max_steps: int | None = None
    max_grad_norm: float | None = 5.0
    gradient_accumulation_steps: int = 1
    loss_normalization: LossNormalization = "token"
    log_every_steps: int = 50
    validate_every_epochs: int = 1
    validate_every_steps: int | None = None
    checkpoint_every_steps: int | None = None
    keep_checkpoints: int = 1
    early_stopping_patience: int | None = None
    same_across_ranks: bool = False

    def __post_init__(self) -> None:
        for name in _COUNTS:
            _check_count(name, getattr(self, name), optional=name in _OPTIONAL_COUNTS)
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ValueError(
                f"max_grad_norm={self.max_grad_norm!r}: expected a number above 0, "
                "or None to clip nothing"
            )
        if self.loss_normalization not in get_args(LossNormalization):
            raise ValueError(
                f"loss_normalization={self.loss_normalization!r}: expected 'token' or 'sequence'"
            )


_OPTIONAL_COUNTS = (
    "max_steps",
    "validate_every_steps",
    "checkpoint_every_steps",
    "early_stopping_patience",
)
_COUNTS = (
    "max_epochs",
    "gradient_accumulation_steps",
    "log_every_steps",
    "validate_every_epochs",
    "keep_checkpoints",
    *_OPTIONAL_COUNTS,
)


def _check_count(name: str, value: object, *, optional: bool) -> None:
    """A whole number of 1 or more, or None where that is allowed."""
    if value is None and optional:
        return
    expected = "a whole number of 1 or more" + (" or None" if optional else "")
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r}: expected {expected}")
    if value < 1:
        raise ValueError(f"{name}={value}: expected {expected}")
