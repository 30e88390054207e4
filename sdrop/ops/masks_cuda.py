"""`torch.ops.sdrop.kept_indices_cuda` and `keep_mask_cuda`: masks drawn by the CUDA kernels.

On CUDA tensors `kept_indices` and `keep_mask` of sdrop/ops/masks.py run the same kernels; under
names of their own they can be told from the CPU's where both take CPU tensors, in the emulation.
"""

from __future__ import annotations

from sdrop.ops.masks import define_draws

define_draws("_cuda")
