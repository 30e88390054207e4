"""A linear layer with the dropout in front of it."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sdrop import functional
from sdrop.backends import check_backend
from sdrop.keys import SiteModule
from sdrop.nn.arguments import check_like_weight, check_pattern, check_size, check_target
from sdrop.nn.autocast import autocast_to
from sdrop.nn.k_major import fill_as_row_major, laid_out, warn_if_not_k_major
from sdrop.nn.sequences import SequenceRows, site_mask
from sdrop.ops.masks import Mask
from sdrop.ops.recording import entered
from sdrop.pattern import DropoutPattern, check_rate


class Linear(SiteModule, nn.Linear):
    """`torch.nn.Linear` with dropout on its input: y = drop(x) W^T + b.

    Args:
        in_features, out_features, bias, device, dtype: as in `torch.nn.Linear`.
        dropout: the share of input neurons to drop in training, in [0, 1); default 0.
        pattern: how the draw is shared over batch and time; default case III.
        batch_first: a 3-D input is (B, T, features) instead of (T, B, features).
        backend: "auto", "reference", "torch", "cpu" or "cuda"; see `sdrop.backends()`.

    Shape: (T, B, in_features), a `PackedSequence`, or one step (B, in_features), and without
        dropout any number of leading dimensions; the output likewise with `out_features`.

    The weight has torch's shape, (out_features, in_features), and K-major memory, with
    `backend="torch"` row-major.

    Raises:
        ValueError, TypeError: for a rate outside [0, 1), a negative size, or a wrong kind of
            argument, dtype, pattern or backend.
        RuntimeError: for sizes or devices that do not fit; with dropout, for a constant pattern
            and 2-D input outside `sdrop.sequence()`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        dropout: float = 0.0,
        pattern: DropoutPattern | None = None,
        batch_first: bool = False,
        backend: str = "auto",
    ) -> None:
        check_size("Linear", "in_features", in_features)
        check_size("Linear", "out_features", out_features)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.dropout = check_rate("dropout", dropout)
        self.pattern = check_pattern("Linear", pattern)
        self.batch_first = batch_first
        self.backend = check_backend(backend)
        self.weight = laid_out(self.weight, backend)

    def reset_parameters(self) -> None:
        """As `torch.nn.Linear`: U(-1/sqrt(in_features), 1/sqrt(in_features)) for both."""
        fill_as_row_major(self.weight, partial(nn.init.kaiming_uniform_, a=math.sqrt(5)))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(  # type: ignore[override]
        self, input: Tensor | PackedSequence
    ) -> Tensor | PackedSequence:
        if isinstance(input, Tensor) and not (self.training and self.dropout > 0.0):
            self._check_input(input)
            entered(self, plain="without dropout it is torch.nn.Linear")
            return nn.functional.linear(input, self.weight, self.bias)
        rows = SequenceRows.of(self, input, self.batch_first)
        data, weight, bias, mask = self._operands(rows)
        output = functional.linear(
            data, weight, bias, mask, batch_sizes=rows.batch_sizes, backend=self.backend
        )
        return rows.restore(output)

    def cross_entropy(
        self, input: Tensor | PackedSequence, target: Tensor, *, ignore_index: int = -100
    ) -> Tensor:
        """The mean cross-entropy of the output, as `F.cross_entropy(self(input), target)`.

        The scores are written once instead of three times, which counts for large vocabularies.

        Args:
            input: as for `forward`.
            target: class ids, int64, of the input's shape without the features: (T, B), (B, T)
                with `batch_first`, (N,) for the rows of a `PackedSequence`, (B,) for a step.
            ignore_index: a target that is not counted.

        Returns:
            0-dim, in float32 where the input is of half precision; NaN if no target is counted.

        Raises:
            RuntimeError: where the target's shape or device is not the input's.
            IndexError: for a target that is no class, on a CPU.
            TypeError, ValueError: for a target that is no tensor or of another dtype.
        """
        rows = SequenceRows.of(self, input, self.batch_first)
        shape = input.data.shape[:-1] if isinstance(input, PackedSequence) else input.shape[:-1]
        check_target("Linear.cross_entropy", target, shape, rows.data.device)
        if rows.form == "batch_first":
            target = target.transpose(0, 1)
        target = target.reshape(rows.data.shape[:-1])
        data, weight, bias, mask = self._operands(rows)
        return functional.linear_cross_entropy(
            data,
            weight,
            bias,
            target,
            mask,
            batch_sizes=rows.batch_sizes,
            ignore_index=ignore_index,
            backend=self.backend,
        )

    def _operands(self, rows: SequenceRows) -> tuple[Tensor, Tensor, Tensor | None, Mask]:
        """Input, weight and bias in the dtype to compute in, and what is kept in this call."""
        self._check_input(rows.data)
        entered(self)
        if not torch.compiler.is_compiling():
            warn_if_not_k_major(self, [self.weight])
        mask = functional.KEEP_ALL
        if self.training and self.dropout > 0.0:
            mask = site_mask(self, self.dropout, self.pattern, rows)
        data, weight, bias = autocast_to(rows.data, self.weight, self.bias)
        if mask.mask is not None:
            mask = mask._replace(mask=mask.mask.to(data.dtype))
        return data, weight, bias, mask

    def _check_input(self, input: Tensor) -> None:
        if input.dim() == 0 or input.shape[-1] != self.in_features:
            raise RuntimeError(
                f"Linear: expected {self.in_features} features (in_features) in the last dimension "
                f"of the input, got shape {tuple(input.shape)}"
            )
        check_like_weight("Linear", "the input", input, self.weight)
        if self.bias is not None:
            check_like_weight("Linear", "the bias", self.bias, self.weight)

    def extra_repr(self) -> str:
        batch_first = ", batch_first=True" if self.batch_first else ""
        own = f"dropout={self.dropout}, pattern={self.pattern}{batch_first}"
        return f"{super().extra_repr()}, {own}"
