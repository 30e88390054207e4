"""`torch.ops.sdrop.linear_cross_entropy`: a decoder and its loss over one buffer of logits.

A large vocabulary makes the logits the biggest tensor of a language model: separate layers write
them as scores, as log-probabilities and as their gradient. Here the scores become the gradient in
place, block by block while a block is in cache, so they are written once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sdrop.ops.class_ids import check_class_ids
from sdrop.ops.linear import linear_equation
from sdrop.ops.lstm.packed import accumulation_dtype
from sdrop.ops.masks import Mask

_BLOCK_ELEMENTS = 256 * 1024
"""Logits of a block: 1 MB in float32, which second-level caches hold."""

_FLOAT16_ROWS = 1024
"""Summed over so many rows, gradients of softmax stay far from float16's largest, 65504."""


def linear_cross_entropy_equation(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Mask,
    batch_sizes: Tensor | None = None,
    ignore_index: int = -100,
) -> Tensor:
    """The mean cross-entropy of `drop(X) W^T + b` in plain PyTorch."""
    logits = linear_equation(input, weight, bias, mask, batch_sizes).flatten(0, -2)
    return nn.functional.cross_entropy(logits, target.flatten(), ignore_index=ignore_index)


def _losses(logits: Tensor, target: Tensor, counted: Tensor, grad_scale: Tensor | None) -> Tensor:
    """The loss of each row, 0 where it is not counted. The logits become their softmax, or with
    `grad_scale` the gradient of the losses' sum times it."""
    target = torch.where(counted, target, 0)
    check_class_ids("the target", target, logits.shape[1])
    losses = torch.empty(len(logits), dtype=accumulation_dtype(logits.dtype), device=logits.device)
    scales = None if grad_scale is None else (counted * grad_scale).to(losses.dtype).unsqueeze(1)
    rows = max(1, _BLOCK_ELEMENTS // logits.shape[1])
    for start in range(0, len(logits), rows):
        part = slice(start, start + rows)
        block, wanted = logits[part], target[part].unsqueeze(1)
        probabilities = block.to(losses.dtype)
        losses[part] = _softmax_losses(probabilities, wanted)
        if scales is not None:
            probabilities.scatter_add_(1, wanted, losses.new_full(wanted.shape, -1.0))
            probabilities *= scales[part]
            if probabilities.dtype != block.dtype:
                block.copy_(probabilities)
    return losses * counted


def _softmax_losses(logits: Tensor, wanted: Tensor) -> Tensor:
    """The losses of a block, whose logits become probabilities in place.

    The normalizer comes from the largest logit, whose probability is at least 1 / classes.
    """
    largest, score = logits.amax(dim=1), logits.gather(1, wanted).squeeze(1)
    torch.softmax(logits, dim=1, out=logits)
    return largest - logits.amax(dim=1).log_() - score


def _grad_scales(count: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """1 / count as two factors: of the logits' gradient, and of the GEMMs' results.

    The second is 1 where the dtype's range allows it, so that the results stay as they are.
    """
    count = count.clamp(min=1).to(accumulation_dtype(dtype))  # none: the loss is NaN, its grads 0
    if dtype != torch.float16:
        return 1.0 / count, torch.ones_like(count)
    first = (_FLOAT16_ROWS / count).clamp(max=1.0)
    return first, 1.0 / (count * first)


@torch.library.custom_op("sdrop::linear_cross_entropy", mutates_args=())
def _linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    kept: Tensor | None,
    mask: Tensor | None,
    scale: float,
    batch_sizes: Tensor | None,
    ignore_index: int,
    want_grad: bool,
    compiled: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    constant = mask is None and (kept is None or kept.shape[0] == 1)
    if compiled and constant and bias is not None and weight.dtype == input.dtype:
        logits = _scores_in_one_product(input.flatten(0, -2), weight, bias, kept, scale)
    else:
        linear = torch.ops.sdrop.linear_cpu if compiled else torch.ops.sdrop.linear
        logits = linear(input, weight, bias, kept, mask, scale, batch_sizes).flatten(0, -2)
    target = target.reshape(-1)
    counted = target != ignore_index
    count = counted.sum()
    grad_scale, left_scale = _grad_scales(count, logits.dtype)
    losses = _losses(logits, target, counted, grad_scale if want_grad else None)
    grad_logits = logits if want_grad else logits.new_empty(0)
    return losses.sum() / count, grad_logits, left_scale


def _scores_in_one_product(
    rows: Tensor, weight: Tensor, bias: Tensor, kept: Tensor | None, scale: float
) -> Tensor:
    """The scores where all steps keep the same: one large GEMM is what torch is fastest at, 53
    against 43 GF/s of the compiled kernels for (700, 325) by (325, 10000) on a Zen 3 processor."""
    columns = weight.t()
    if kept is not None:
        rows, columns = rows.index_select(1, kept[0]) * scale, columns.index_select(0, kept[0])
    with torch.autocast(rows.device.type, enabled=False):  # the op's types are settled by now
        return torch.addmm(bias, rows, columns)


@_linear_cross_entropy.register_fake
def _(
    input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    want_grad = others[-2]
    shape = (target.numel(), weight.shape[0]) if want_grad else (0,)
    loss = input.new_empty((), dtype=accumulation_dtype(input.dtype))
    return loss, input.new_empty(shape), torch.empty_like(loss)


@torch.library.custom_op("sdrop::linear_cross_entropy_backward", mutates_args=())
def _linear_cross_entropy_backward(
    grad_loss: Tensor,
    left_scale: Tensor,
    grad_logits: Tensor,
    input: Tensor,
    weight: Tensor,
    kept: Tensor | None,
    mask: Tensor | None,
    scale: float,
    batch_sizes: Tensor | None,
    needs_input_grad: bool,
    compiled: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    grad_output = grad_logits.view(*input.shape[:-1], weight.shape[0])
    operands = (grad_output, input, weight, kept, mask, scale, batch_sizes)
    backward = torch.ops.sdrop.linear_cpu_backward if compiled else torch.ops.sdrop.linear_backward
    rest = (needs_input_grad,) if compiled else ()
    grad_input, grad_weight, grad_bias = backward(*operands, *rest)
    factor = grad_loss * left_scale
    if factor.device.type == "cpu" and factor.item() == 1.0:  # elsewhere the look would wait
        return grad_input, grad_weight, grad_bias
    return _times(grad_input, factor), _times(grad_weight, factor), _times(grad_bias, factor)


def _times(grad: Tensor, factor: Tensor) -> Tensor:
    """In place, but for half precision, in which the factor itself may not be representable."""
    if grad.dtype == factor.dtype:
        return grad.mul_(factor)
    return (grad.to(factor.dtype) * factor).to(grad.dtype)


@_linear_cross_entropy_backward.register_fake
def _(
    grad_loss: Tensor,
    left_scale: Tensor,
    grad_logits: Tensor,
    input: Tensor,
    weight: Tensor,
    *others: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    needs_input_grad, compiled = others[-2:]
    return (
        input.new_empty(input.shape if needs_input_grad or not compiled else (0,)),
        weight.new_empty(weight.shape[1], weight.shape[0]).t(),
        input.new_empty(weight.shape[0]),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    input, weight, bias, target, kept, mask, ctx.scale, batch_sizes, *options = inputs
    ctx.ignore_index, _, ctx.compiled = options
    ctx.has_bias = bias is not None
    ctx.save_for_backward(input, weight, bias, target, kept, mask, batch_sizes, *output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad_loss: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad_loss is None:
        return (None,) * 11
    input, weight, _, _, kept, mask, batch_sizes, grad_logits, left = ctx.saved_tensors
    if torch.is_grad_enabled():
        return (*differentiable_backward(ctx, grad_loss), *[None] * 8)
    grad_input, grad_weight, grad_bias = torch.ops.sdrop.linear_cross_entropy_backward(
        grad_loss,
        left,
        grad_logits,
        input,
        weight,
        kept,
        mask,
        ctx.scale,
        batch_sizes,
        ctx.needs_input_grad[0],
        ctx.compiled,
    )
    return (
        grad_input if ctx.needs_input_grad[0] else None,
        grad_weight,
        grad_bias if ctx.has_bias else None,
        *[None] * 8,
    )


def differentiable_backward(ctx: Any, grad_loss: Tensor) -> list[Tensor | None]:
    """The gradients of input, weight and bias in plain PyTorch, for `create_graph=True`."""
    input, weight, bias, target, kept, mask, batch_sizes = ctx.saved_tensors[:7]
    arguments = (input, weight.to(input.dtype), bias, target, Mask(kept, mask, ctx.scale))
    loss = linear_cross_entropy_equation(*arguments, batch_sizes, ctx.ignore_index)
    needed = ctx.needs_input_grad[:3]
    wanted = [t for t, need in zip((input, weight, bias), needed, strict=True) if need]
    grad = grad_loss.to(loss.dtype)
    found = iter(torch.autograd.grad(loss, wanted, grad, create_graph=True))
    return [next(found) if need else None for need in needed]


_linear_cross_entropy.register_autograd(_differentiate, setup_context=_save)


def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    mask: Mask,
    batch_sizes: Tensor | None = None,
    ignore_index: int = -100,
    *,
    compiled: bool = False,
) -> Tensor:
    """Calls the operator; arguments and result as in `linear_cross_entropy_equation`.

    `compiled` computes the three GEMMs by the compiled CPU kernels, which must be there; beside an
    input in float32 their weight may be of bfloat16.
    """
    needs = [t for t in (input, weight, bias) if t is not None and t.requires_grad]
    loss, _, _ = torch.ops.sdrop.linear_cross_entropy(
        input,
        weight,
        bias,
        target,
        mask.kept,
        mask.mask,
        mask.scale,
        batch_sizes,
        ignore_index,
        torch.is_grad_enabled() and bool(needs),
        compiled,
    )
    out: Tensor = loss
    return out
