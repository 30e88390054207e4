"""`torch.ops.sdrop.linear_cuda`: the packed linear layer by the CUDA kernels.

For float32 and bfloat16. How each product is computed says the table in kernels/cuda/choice.h;
sums are in float32, and float32 products in tf32 only where torch's own may be.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sdrop.ops.linear import differentiable_backward
from sdrop.ops.masks import Mask

_MASK = "Tensor? kept, Tensor? mask, float scale, Tensor? batch_sizes"

torch.library.define(
    "sdrop::linear_cuda",
    f"(Tensor input, Tensor weight, Tensor? bias, {_MASK}, bool tf32) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
torch.library.define(
    "sdrop::linear_cuda_backward",
    f"(Tensor grad_output, Tensor input, Tensor weight, {_MASK}, bool needs_input_grad, bool tf32) "
    "-> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def allows_tf32(tensor: Tensor) -> bool:
    """Whether torch may round float32 products on the tensor's device to tf32."""
    if not tensor.is_cuda or tensor.dtype != torch.float32:
        return False
    matmul = torch.backends.cuda.matmul
    if torch.compiler.is_compiling():
        # The older name is the one that torch.compile can trace, and guards.
        return bool(matmul.allow_tf32)
    return bool(matmul.fp32_precision == "tf32")


def _fake(input: Tensor, weight: Tensor, *others: Any) -> Tensor:
    return input.new_empty(*input.shape[:-1], weight.shape[0])


def _fake_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    needs_input_grad = others[-2]
    return (
        input.new_empty(input.shape if needs_input_grad else (0,)),
        weight.new_empty(weight.shape[1], weight.shape[0]).t(),
        weight.new_empty(weight.shape[0]),
    )


torch.library.register_fake("sdrop::linear_cuda", _fake)
torch.library.register_fake("sdrop::linear_cuda_backward", _fake_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, bias, kept, mask, ctx.scale, batch_sizes, ctx.tf32 = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(input, weight, kept, mask, batch_sizes)


def _differentiate(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    input, weight, kept, mask, batch_sizes = ctx.saved_tensors
    if torch.is_grad_enabled():
        return (*differentiable_backward(ctx, grad_output), None)
    needs_input_grad = ctx.needs_input_grad[0]
    grad_input, grad_weight, grad_bias = torch.ops.sdrop.linear_cuda_backward(
        grad_output, input, weight, kept, mask, ctx.scale, batch_sizes, needs_input_grad, ctx.tf32
    )
    return (
        grad_input if needs_input_grad else None,
        grad_weight,
        grad_bias if ctx.has_bias else None,
        *[None] * 5,
    )


torch.library.register_autograd("sdrop::linear_cuda", _differentiate, setup_context=_save)


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
    output: Tensor = torch.ops.sdrop.linear_cuda(
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
