"""Row-major copies of weights, kept from call to call while nothing is trained."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary


class _Copy(NamedTuple):
    """A copy, and the version and the address of the weight that it was made of."""

    copy: Tensor
    version: int
    address: int

    def is_of(self, weight: Tensor) -> bool:
        """Whether it still holds what the weight does.

        A weight that is written through `.data` keeps its version. One row and one column are
        therefore compared as well: whatever was done to whole rows or columns meets one of them.
        """
        if (self.version, self.address) != (weight._version, weight.data_ptr()):
            return False
        row, column = (size // 2 for size in weight.shape)
        return torch.equal(weight[row], self.copy[row]) and torch.equal(
            weight[:, column], self.copy[:, column]
        )


_copies = WeakTensorKeyDictionary()
"""By weight; gone with it. Outside the modules, so that none is saved or copied along."""


def kept_row_major(weight: Tensor) -> Tensor:
    """A row-major copy of a (N, K) weight, made anew only where the weight has changed; the weight
    itself where it is row-major already."""
    if weight.is_contiguous():
        return weight
    if not isinstance(weight, nn.Parameter) or weight.is_inference():
        return weight.contiguous()  # made for this call, or without a version
    known: _Copy | None = _copies.get(weight)  # type: ignore[no-untyped-call]
    if known is None or not known.is_of(weight):
        copy = weight.detach().clone(memory_format=torch.contiguous_format)
        known = _copies[weight] = _Copy(copy, weight._version, weight.data_ptr())
    return known.copy


def forget_row_major(*weights: Tensor) -> None:
    """Frees the copies of weights, where there are any: training would only let them grow old."""
    if _copies.data:
        for weight in weights:
            _copies.pop(weight, None)  # type: ignore[no-untyped-call]
