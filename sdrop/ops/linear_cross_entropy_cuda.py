"""`torch.ops.sdrop.linear_cross_entropy_cuda`: a decoder and its loss by the CUDA kernels.

The logits become their own gradient in place, as in sdrop/ops/linear_cross_entropy.py; the loss is
float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sdrop.ops.linear_cross_entropy import differentiable_backward
from sdrop.ops.linear_cuda import allows_tf32
from sdrop.ops.masks import Mask

torch.library.define(
    "sdrop::linear_cross_entropy_cuda",
    "(Tensor input, Tensor weight, Tensor? bias, Tensor target, Tensor? kept, Tensor? mask, "
    "float scale, Tensor? batch_sizes, int ignore_index, bool want_grad, bool tf32) "
    "-> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _fake(
    input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *others: Any
) -> tuple[Tensor, Tensor]:
    want_grad = others[-2]
    shape = (target.numel(), weight.shape[0]) if want_grad else (0,)
    return input.new_empty((), dtype=torch.float32), input.new_empty(shape)


torch.library.register_fake("sdrop::linear_cross_entropy_cuda", _fake)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    input, weight, bias, target, kept, mask, ctx.scale, batch_sizes, *options = inputs
    ctx.ignore_index, _, ctx.tf32 = options
    ctx.save_for_backward(input, weight, bias, target, kept, mask, batch_sizes, output[1])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad_loss: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad_loss is None:
        return (None,) * 11
    if torch.is_grad_enabled():
        return (*differentiable_backward(ctx, grad_loss), *[None] * 8)
    input, weight, bias, _, kept, mask, batch_sizes, grad_logits = ctx.saved_tensors
    grads = torch.ops.sdrop.linear_cuda_backward(
        grad_logits.view(*input.shape[:-1], weight.shape[0]),
        input,
        weight,
        kept,
        mask,
        ctx.scale,
        batch_sizes,
        ctx.needs_input_grad[0],
        ctx.tf32,
    )
    grad_input, grad_weight, grad_bias = (grad.mul_(grad_loss) for grad in grads)
    return (
        grad_input if ctx.needs_input_grad[0] else None,
        grad_weight,
        None if bias is None else grad_bias,
        *[None] * 8,
    )


torch.library.register_autograd(
    "sdrop::linear_cross_entropy_cuda", _differentiate, setup_context=_save
)


def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Mask,
    batch_sizes: Tensor | None = None,
    ignore_index: int = -100,
    *,
    tf32: bool | None = None,
) -> Tensor:
    """Calls the operator; arguments and result as in `linear_cross_entropy_equation`.

    `tf32` allows rounding float32 products to tf32; by default as torch does for its own.
    """
    tensors = [t for t in (input, weight, bias) if t is not None]
    loss, _ = torch.ops.sdrop.linear_cross_entropy_cuda(
        input,
        weight,
        bias,
        target,
        mask.kept,
        mask.mask,
        mask.scale,
        batch_sizes,
        ignore_index,
        torch.is_grad_enabled() and any(t.requires_grad for t in tensors),
        allows_tf32(input) if tf32 is None else tf32,
    )
    out: Tensor = loss
    return out
