"""Dropout for places with no GEMM behind them."""

from __future__ import annotations

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from sdrop.keys import SiteModule
from sdrop.nn.arguments import check_pattern
from sdrop.nn.sequences import SequenceRows, site_mask
from sdrop.ops.lstm.steps import Steps
from sdrop.ops.masks import dense_mask
from sdrop.pattern import DropoutPattern, check_rate


class Dropout(SiteModule):
    """Zeroes neurons of a sequence and scales the others, in training.

    In front of a GEMM use `sdrop.Linear` or `sdrop.LSTM` with its own `dropout` instead: whoever
    owns the GEMM can skip what is dropped.

    Args:
        p: the share of neurons to drop, in [0, 1); default 0.5 as in `torch.nn.Dropout`.
        pattern: how the draw is shared over batch and time; default case III.
        batch_first: the input is (B, T, H) instead of (T, B, H).

    Shape: (T, B, H), a `PackedSequence`, or one step (B, H); the output has the input's.

    Raises:
        ValueError, TypeError: for a rate outside [0, 1), a wrong kind of pattern or input.
        RuntimeError: for an empty sequence or another number of dimensions; for a constant
            pattern and 2-D input outside `sdrop.sequence()`.
    """

    def __init__(
        self,
        p: float = 0.5,
        pattern: DropoutPattern | None = None,
        *,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.p = check_rate("p", p)
        self.pattern = check_pattern("Dropout", pattern)
        self.batch_first = batch_first

    def forward(self, input: Tensor | PackedSequence) -> Tensor | PackedSequence:
        rows = SequenceRows.of(self, input, self.batch_first)
        if not rows.data.is_floating_point():
            raise ValueError(
                f"Dropout: expected floating-point numbers, which can be scaled, got "
                f"{rows.data.dtype}"
            )
        if not self.training or self.p == 0.0:
            return input
        mask = site_mask(self, self.p, self.pattern, rows)
        factor = dense_mask(mask, rows.size, rows.data.dtype)
        if factor is None:
            return input
        steps = Steps.of(rows.data, rows.batch_sizes, reverse=False)
        flat = rows.data.reshape(-1, rows.size)
        return rows.restore((flat * steps.expand(factor)).view(rows.data.shape))

    def extra_repr(self) -> str:
        return f"p={self.p}, pattern={self.pattern}"
