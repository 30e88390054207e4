"""The rows of a sequence batch: which rows are step t, and in which order steps are run.

Activations are rows of a matrix, one row a step and sequence, as `PackedSequence.data` has them:
first all sequences at t = 0, then all that reach t = 1, and so on. A padded (T, B, H) tensor,
flattened, is the case in which every sequence reaches the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """Where each step's rows are.

    Attributes:
        sizes: how many sequences reach step t; never growing with t.
        reverse: whether the sequence runs from its last step to its first.
    """

    sizes: list[int]
    reverse: bool

    @staticmethod
    def of(input: Tensor, batch_sizes: Tensor | None, reverse: bool) -> Steps:
        """The steps of a padded (T, B, ...) input, or of packed (N, ...) rows."""
        if batch_sizes is None:
            return Steps([input.shape[1]] * input.shape[0], reverse)
        return Steps(batch_sizes.tolist(), reverse)

    @property
    def is_padded(self) -> bool:
        """Whether all sequences are of one length."""
        return self.sizes[0] == self.sizes[-1]

    def rows(self) -> list[tuple[int, slice]]:
        """(t, its rows) in the order in which the recurrence runs."""
        starts, start = [], 0
        for size in self.sizes:
            starts.append(start)
            start += size
        steps = [(t, slice(starts[t], starts[t] + n)) for t, n in enumerate(self.sizes)]
        return steps[::-1] if self.reverse else steps

    def before(self, states: Tensor, initial: Tensor) -> Tensor:
        """The state that each row's step starts from.

        Args:
            states: (N, H), the state after each row's step.
            initial: (B, H), the state before the sequence.

        Returns:
            (N, H) with, at row (t, b), the state after the step that ran before t.
        """
        if self.is_padded:
            batch = self.sizes[0]
            if self.reverse:
                return torch.cat([states[batch:], initial])
            return torch.cat([initial, states[: states.shape[0] - batch]])
        current, blocks = initial, []
        for _, rows in self.rows():
            size = rows.stop - rows.start
            blocks.append(current[:size])
            current = torch.cat([states[rows], current[size:]])
        return torch.cat(blocks[::-1] if self.reverse else blocks)

    def expand(self, mask: Tensor) -> Tensor:
        """A (1 or T, 1 or B, H) mask as one factor a row, of a shape that broadcasts to (N, H)."""
        if mask.shape[0] == 1 and mask.shape[1] == 1:
            return mask[0]
        length, batch = len(self.sizes), self.sizes[0]
        full = mask.expand(length, batch, mask.shape[2])
        if self.is_padded:
            return full.reshape(length * batch, mask.shape[2])
        return torch.cat([full[t, :size] for t, size in enumerate(self.sizes)])
