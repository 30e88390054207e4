"""The forms in which a sequence comes: padded, batch first, packed, or one step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sdrop.keys import SiteModule, call_key, step_key
from sdrop.nn.arguments import check_packed
from sdrop.ops.masks import Mask, draw_mask
from sdrop.pattern import DropoutPattern


@dataclass(frozen=True)
class SequenceRows:
    """A sequence as the ops take it, and the way back to the form it came in.

    Attributes:
        data: (T, B, H), or the (N, H) rows of a packed sequence.
        packed: the `PackedSequence` it came as.
        form: "padded", "batch_first", "packed" or "step".
    """

    data: Tensor
    form: str
    packed: PackedSequence | None = None

    @staticmethod
    def of(
        module: nn.Module, input: Tensor | PackedSequence, batch_first: bool = False
    ) -> SequenceRows:
        """Reads `input`.

        Raises:
            TypeError: where it is neither a tensor nor a `PackedSequence`.
            RuntimeError: where it has not 2 or 3 dimensions, or no step.
        """
        name = type(module).__name__
        if isinstance(input, PackedSequence):
            check_packed(name, input)
            return SequenceRows(input.data, "packed", input)
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{name}: expected a tensor or a PackedSequence, got {type(input).__name__}"
            )
        if input.dim() == 2:
            return SequenceRows(input.unsqueeze(0), "step")
        if input.dim() != 3:
            raise RuntimeError(
                f"{name}: expected a (time, batch, features) sequence or a (batch, features) "
                f"step, got {input.dim()} dimensions: {tuple(input.shape)}"
            )
        data = input.transpose(0, 1) if batch_first else input
        if data.shape[0] == 0:
            raise RuntimeError(f"{name}: expected at least one step, got {tuple(input.shape)}")
        return SequenceRows(data, "batch_first" if batch_first else "padded")

    @property
    def size(self) -> int:
        """The number of features."""
        return self.data.shape[-1]

    @property
    def batch_sizes(self) -> Tensor | None:
        """How many sequences reach each step; None where all are of one length."""
        return None if self.packed is None else self.packed.batch_sizes

    @property
    def steps(self) -> int:
        """T."""
        return self.data.shape[0] if self.packed is None else self.packed.batch_sizes.shape[0]

    @property
    def batch(self) -> int:
        """B."""
        return self.data.shape[1] if self.packed is None else int(self.packed.batch_sizes[0])

    def restore(self, data: Tensor) -> Tensor | PackedSequence:
        """`data`, whose leading dimensions are those of `self.data`, in the form of the input."""
        if self.packed is not None:
            _, sizes, order, back = self.packed
            return PackedSequence(data, sizes, order, back)
        if self.form == "step":
            return data.squeeze(0)
        return data.transpose(0, 1) if self.form == "batch_first" else data


def in_packed_order(mask: Mask, packed: PackedSequence | None) -> Mask:
    """The mask of each sequence where a packed batch puts it: masks go by the batch column that
    the user gave, so that packed and padded input draw the same."""
    if mask.mask is None or packed is None or packed.sorted_indices is None:
        return mask
    if mask.mask.shape[1] == 1:
        return mask
    return mask._replace(mask=mask.mask.index_select(1, packed.sorted_indices))


def site_mask(module: SiteModule, rate: float, pattern: DropoutPattern, rows: SequenceRows) -> Mask:
    """What a module with one dropout site keeps in this call."""
    device: torch.device = rows.data.device
    if rows.form == "step":
        key, first_step = step_key(module, pattern, device)
    else:
        key, first_step = call_key(module, device), 0
    mask = draw_mask(
        pattern,
        rate,
        key,
        site=0,
        steps=rows.steps,
        batch=rows.batch,
        size=rows.size,
        dtype=rows.data.dtype,
        first_step=first_step,
    )
    return in_packed_order(mask, rows.packed)
