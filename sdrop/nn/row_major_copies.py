"""Row-major copies of weights, kept from call to call while nothing is trained."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary


class _Copy(NamedTuple):
    """A row-major copy, and what tells whether its weight has changed since.

    Attributes:
        copy: (N, K), row-major.
        version, address: the weight's own when the copy was made.
        samples: of one row and one column, the view into the weight's memory and what it held.
    """

    copy: Tensor
    version: int
    address: int
    samples: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, weight: Tensor) -> _Copy:
        values = weight.detach()
        row, column = (size // 2 for size in weight.shape)
        copy = values.clone(memory_format=torch.contiguous_format)
        views = (values[row], values[:, column])
        samples = tuple((view, view.clone()) for view in views)
        return cls(copy, weight._version, weight.data_ptr(), samples)

    def is_of(self, weight: Tensor) -> bool:
        """Whether it still holds what the weight does.

        A weight that is written through `.data` keeps its version. One row and one column are
        therefore compared as well: whatever was done to whole rows or columns meets one of them.
        """
        if (self.version, self.address) != (weight._version, weight.data_ptr()):
            return False
        return all(torch.equal(view, held) for view, held in self.samples)


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
        known = _copies[weight] = _Copy.of(weight)
    return known.copy


def forget_row_major(*weights: Tensor) -> None:
    """Frees the copies of weights, where there are any: training would only let them grow old."""
    if _copies.data:
        for weight in weights:
            _copies.pop(weight, None)  # type: ignore[no-untyped-call]
