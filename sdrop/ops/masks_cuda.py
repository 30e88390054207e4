"""`torch.ops.sdrop.kept_indices_cuda` and `keep_mask_cuda`: masks drawn by the CUDA kernels.

On CUDA tensors `kept_indices` and `keep_mask` of sdrop/ops/masks.py run the same kernels; under
names of their own they can be told from the CPU's where both take CPU tensors, in the emulation.
"""

from __future__ import annotations

import torch
from torch import Tensor

torch.library.define(
    "sdrop::kept_indices_cuda",
    "(Tensor key, SymInt site, SymInt first_step, SymInt steps, SymInt size, SymInt kept) "
    "-> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
torch.library.define(
    "sdrop::keep_mask_cuda",
    "(Tensor key, SymInt site, SymInt first_step, SymInt steps, SymInt batch, SymInt size, "
    "float rate, ScalarType dtype) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _fake_kept_indices(
    key: Tensor, site: int, first_step: int, steps: int, size: int, kept: int
) -> Tensor:
    return key.new_empty((steps, kept))


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


torch.library.register_fake("sdrop::kept_indices_cuda", _fake_kept_indices)
torch.library.register_fake("sdrop::keep_mask_cuda", _fake_keep_mask)
