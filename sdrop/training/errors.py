"""What can go wrong in a run, in words of a screen at most."""

from __future__ import annotations

from collections.abc import Sequence

_LISTED = 6


class CheckpointError(ValueError):
    """A checkpoint cannot be used here: missing, damaged, or of another model, task or data."""


class NonFiniteError(FloatingPointError):
    """A loss or gradient norm is not a finite number. Raised before the update.

    Attributes:
        what: `"loss"` or `"gradient norm"`.
        value: what it was.
        step: the step that was not taken, counting from 1.
        epoch: the epoch it belongs to, counting from 1.
    """

    def __init__(self, what: str, value: float, *, step: int, epoch: int) -> None:
        super().__init__(
            f"the {what} is {value} in step {step} (epoch {epoch}). Training stopped before the "
            "update, so the parameters are those of the step before, and the last checkpoint is "
            "good. Try a lower learning rate or a smaller max_grad_norm, or look for bad data."
        )
        self.what, self.value, self.step, self.epoch = what, value, step, epoch


def shortened(items: Sequence[str]) -> str:
    """The items, a line each, the first six of them."""
    lines = [f"  {item}" for item in items[:_LISTED]]
    if len(items) > _LISTED:
        lines.append(f"  and {len(items) - _LISTED} more")
    return "\n".join(lines)
