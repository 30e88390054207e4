"""`torch.ops.sdrop.linear_cuda`: the packed linear layer by the CUDA kernels.

For float32 and bfloat16. How each product is computed says the table in kernels/cuda/choice.h;
sums are in float32, and float32 products in tf32 only where torch's own may be.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sdrop.ops.linear_compiled import define_linear
from sdrop.ops.masks import Mask

_call = define_linear("linear_cuda", ("bool tf32",))


def allows_tf32(tensor: Tensor) -> bool:
    """Whether torch may round float32 products on the tensor's device to tf32."""
    if not tensor.is_cuda or tensor.dtype != torch.float32:
        return False
    matmul = torch.backends.cuda.matmul
    if torch.compiler.is_compiling():
        # The older name is the one that torch.compile can trace, and guards.
        return bool(matmul.allow_tf32)
    return bool(matmul.fp32_precision == "tf32")


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Mask,
    batch_sizes: Tensor | None = None,
    *,
    tf32: bool | None = None,
) -> Tensor:
    """Calls the operator; arguments and result as in `linear_equation`.

    `tf32` allows rounding float32 products to tf32; by default as torch does for its own.
    """
    output: Tensor = _call(
        input,
        weight,
        bias,
        mask.kept,
        mask.mask,
        mask.scale,
        batch_sizes,
        allows_tf32(input) if tf32 is None else tf32,
    )
    return output
