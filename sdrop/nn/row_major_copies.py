"""Row-major copies of weights, kept from call to call while nothing is trained."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from sdrop.nn.k_major import is_k_major


class _Copy(NamedTuple):
    """A row-major copy, and what tells whether its weight has changed since.

    Attributes:
        copy: (N, K), row-major.
        version, address: the weight's own when the copy was made.
        bits: the weight's memory, read as integers.
        sum: theirs.
        samples: of one row and one column, the view into the weight's memory and what it held.
    """

    copy: Tensor
    version: int
    address: int
    bits: Tensor
    sum: Tensor
    samples: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, weight: Tensor) -> _Copy:
        values = weight.detach()
        copy = values.clone(memory_format=torch.contiguous_format)
        row, column = (size // 2 for size in weight.shape)
        samples = tuple((view, view.clone()) for view in (values[row], values[:, column]))
        flat = values.t().view(-1)
        bits = flat.view(torch.int64 if flat.nbytes % 8 == 0 else torch.int8)
        return cls(copy, weight._version, weight.data_ptr(), bits, bits.sum(), samples)

    def is_of(self, weight: Tensor) -> bool:
        """Whether it still holds what the weight does.

        A weight that is written through `.data`, or from NumPy, keeps its version. The sum of all
        bits tells that anything else was written, at a few percent of what a sequence costs, and
        one row and one column that what is there changed places.
        """
        if (self.version, self.address) != (weight._version, weight.data_ptr()):
            return False
        return torch.equal(self.bits.sum(), self.sum) and all(
            torch.equal(view, held) for view, held in self.samples
        )


_copies = WeakTensorKeyDictionary()
"""By weight; gone with it. Outside the modules, so that none is saved or copied along."""


def kept_row_major(weight: Tensor) -> Tensor:
    """A row-major copy of a (N, K) weight, made anew only where the weight has changed; the weight
    itself where it is row-major already."""
    if weight.is_contiguous():
        return weight
    lasts = isinstance(weight, nn.Parameter) and not weight.is_inference()
    if not lasts or not is_k_major(weight) or weight.numel() == 0:
        return weight.contiguous()  # made for this call, without a version, or of a rare layout
    known: _Copy | None = _copies.get(weight)  # type: ignore[no-untyped-call]
    if known is None or not known.is_of(weight):
        known = _copies[weight] = _Copy.of(weight)
    return known.copy


def forget_row_major(*weights: Tensor) -> None:
    """Frees the copies of weights, where there are any: training would only let them grow old."""
    if _copies.data:
        for weight in weights:
            _copies.pop(weight, None)  # type: ignore[no-untyped-call]
