"""Drawing masks: a pure function of (key, site, t), the same bits on every device.

The word of neuron j at step t of batch column b is lane `j % 4` of
`philox(counter=(j // 4, t, b, site), key)`. A structured pattern reads column 0 for all. A counted
set keeps the k neurons with the smallest words, ties to the lower index; a Bernoulli draw drops
the words below `rate * 2**32`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sdrop.ops.philox import philox, split_key
from sdrop.pattern import DropoutPattern, kept_count

_LANES = 4
_WORDS = 2**32


class Mask(NamedTuple):
    """What one dropout site keeps; at most one of `kept` and `mask` is given, none is "all".

    Attributes:
        kept: (1 or T, k) int64, the kept neurons of each step in ascending order; one row means
            that all steps share it.
        mask: (1 or T, 1 or B, H) in the activation's dtype, 0 where dropped and already scaled
            where kept.
        scale: what kept neurons are multiplied by, where `kept` is given.
    """

    kept: Tensor | None = None
    mask: Tensor | None = None
    scale: float = 1.0

    @property
    def is_all(self) -> bool:
        """Whether nothing is dropped."""
        return self.kept is None and self.mask is None


KEEP_ALL = Mask()


def random_words(key: Tensor, site: int, first_step: int, shape: tuple[int, int, int]) -> Tensor:
    """One word in [0, 2**32) an element: (steps, batch, size) int64; arguments as for `_lanes`."""
    words = torch.stack(_lanes(key, site, first_step, shape), dim=-1)
    return words.flatten(-2)[..., : shape[2]]


def _lanes(
    key: Tensor, site: int, first_step: int, shape: tuple[int, int, int]
) -> tuple[Tensor, ...]:
    """The words of each lane, which `stack(dim=-1)` puts into the order of the neurons.

    Args:
        key: 0-dim int64.
        site: which dropout of the module, in [0, 2**32).
        first_step: t of the first row.
        shape: (steps, batch, size).

    Returns:
        four of (steps, batch, ceil(size / 4)) int64.
    """
    steps, batch, size = shape
    device = key.device
    block = torch.arange((size + _LANES - 1) // _LANES, device=device)
    step = torch.arange(first_step, first_step + steps, device=device)[:, None, None]
    column = torch.arange(batch, device=device)[:, None]
    site_words = torch.full((1,), site, device=device)
    grid = (steps, batch, block.shape[0])
    counter = (block.expand(grid), step.expand(grid), column.expand(grid), site_words.expand(grid))
    return philox(counter, split_key(key))


def kept_indices(
    key: Tensor, site: int, first_step: int, steps: int, size: int, kept: int
) -> Tensor:
    """The `kept` neurons, of `size`, that each of `steps` steps keeps: (steps, kept) int64."""
    words = random_words(key, site, first_step, (steps, 1, size)).squeeze(1)
    # The index in the low bits makes the words distinct, so that ties go to the lower index.
    ranked = words * size + torch.arange(size, device=key.device)
    smallest = ranked.topk(kept, dim=1, largest=False, sorted=False).values
    return (smallest % size).sort(dim=1).values


def _fake_kept_indices(
    key: Tensor, site: int, first_step: int, steps: int, size: int, kept: int
) -> Tensor:
    return key.new_empty((steps, kept))


def keep_mask(
    key: Tensor,
    site: int,
    first_step: int,
    steps: int,
    batch: int,
    size: int,
    rate: float,
    dtype: torch.dtype,
) -> Tensor:
    """A scaled Bernoulli mask: (steps, batch, size), 0 or 1 / (1 - rate)."""
    threshold = round(rate * _WORDS)
    lanes = _lanes(key, site, first_step, (steps, batch, size))
    # Compared before they are put in order: a truth value is an eighth of a word to move.
    kept = torch.stack([words >= threshold for words in lanes], dim=-1).flatten(-2)[..., :size]
    return kept.to(dtype).mul_(1.0 / (1.0 - rate))


def _fake_keep_mask(
    key: Tensor,
    site: int,
    first_step: int,
    steps: int,
    batch: int,
    size: int,
    rate: float,
    dtype: torch.dtype,
) -> Tensor:
    return key.new_empty((steps, batch, size), dtype=dtype)


def define_draws(suffix: str = "") -> None:
    """Defines the operators `sdrop::kept_indices` and `sdrop::keep_mask`, or with longer names.

    They have no autograd formula, which nothing here needs: a formula in Python, even an empty one,
    would take longer than the draw itself.
    """
    torch.library.define(
        f"sdrop::kept_indices{suffix}",
        "(Tensor key, SymInt site, SymInt first_step, SymInt steps, SymInt size, SymInt kept) "
        "-> Tensor",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    torch.library.define(
        f"sdrop::keep_mask{suffix}",
        "(Tensor key, SymInt site, SymInt first_step, SymInt steps, SymInt batch, SymInt size, "
        "float rate, ScalarType dtype) -> Tensor",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    torch.library.register_fake(f"sdrop::kept_indices{suffix}", _fake_kept_indices)
    torch.library.register_fake(f"sdrop::keep_mask{suffix}", _fake_keep_mask)


define_draws()
torch.library.impl("sdrop::kept_indices", "CompositeExplicitAutograd", kept_indices)
torch.library.impl("sdrop::keep_mask", "CompositeExplicitAutograd", keep_mask)


def draw_mask(
    pattern: DropoutPattern,
    rate: float,
    key: Tensor,
    *,
    site: int,
    steps: int,
    batch: int,
    size: int,
    dtype: torch.dtype,
    first_step: int = 0,
) -> Mask:
    """Draws what a dropout site keeps in `steps` steps of a forward call.

    Args:
        pattern: how the draw is shared over batch and time.
        rate: the share of neurons to drop, in [0, 1).
        key: 0-dim int64 on the device where the mask is wanted.
        site: which dropout of the module.
        steps: T.
        batch: B.
        size: H, the number of neurons.
        dtype: of the activation that the mask meets.
        first_step: t of the first step; a constant pattern has t = 0 throughout.
    """
    if rate == 0.0:
        return KEEP_ALL
    if pattern.time == "constant":
        first_step, steps = 0, 1
    if not pattern.counts:
        columns = batch if pattern.space == "random" else 1
        mask: Tensor = torch.ops.sdrop.keep_mask(
            key, site, first_step, steps, columns, size, rate, dtype
        )
        return Mask(mask=mask)
    kept = kept_count(size, rate)
    if kept == size:
        return KEEP_ALL
    indices: Tensor = torch.ops.sdrop.kept_indices(key, site, first_step, steps, size, kept)
    return Mask(kept=indices, scale=size / kept)


def dense_mask(mask: Mask, size: int, dtype: torch.dtype) -> Tensor | None:
    """`mask` as a factor for the whole activation, (1 or T, 1 or B, H); None keeps all."""
    if mask.kept is None:
        return mask.mask
    steps = mask.kept.shape[0]
    factor = torch.zeros(steps, size, dtype=dtype, device=mask.kept.device)
    # Not in place: torch.func.vmap may give each example neurons of its own.
    return factor.scatter(1, mask.kept, mask.scale).unsqueeze(1)
