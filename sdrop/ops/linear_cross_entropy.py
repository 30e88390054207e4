"""`torch.ops.sdrop.linear_cross_entropy`: a decoder and its loss over one buffer of logits.

A large vocabulary makes the logits the biggest tensor of a language model: separate layers write
them as scores, as log-probabilities and as their gradient. Here the scores become the gradient in
place, block by block while a block is in cache, so they are written once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sdrop.ops.linear import linear_equation
from sdrop.ops.lstm.packed import accumulation_dtype
from sdrop.ops.masks import Mask

_BLOCK_ELEMENTS = 256 * 1024
"""Logits of a block: 1 MB in float32, which second-level caches hold."""


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


def _losses(logits: Tensor, target: Tensor, ignore_index: int, *, want_grad: bool) -> Tensor:
    """The loss of each row, 0 where it is ignored; with `want_grad` the logits become the
    gradient of the losses' sum."""
    counted = target != ignore_index
    target = torch.where(counted, target, 0)
    losses = torch.empty(len(logits), dtype=accumulation_dtype(logits.dtype), device=logits.device)
    rows = max(1, _BLOCK_ELEMENTS // logits.shape[1])
    for start in range(0, len(logits), rows):
        part = slice(start, start + rows)
        block, wanted = logits[part], target[part].unsqueeze(1)
        wide = block.to(losses.dtype)
        normalizer = wide.logsumexp(dim=1, keepdim=True)
        losses[part] = (normalizer - wide.gather(1, wanted)).squeeze(1)
        if want_grad:
            grad = wide.sub_(normalizer).exp_()
            grad.scatter_add_(1, wanted, grad.new_full((len(grad), 1), -1.0))
            grad *= counted[part].unsqueeze(1)
            if grad.dtype != block.dtype:
                block.copy_(grad)
    return losses * counted


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
    linear = torch.ops.sdrop.linear_cpu if compiled else torch.ops.sdrop.linear
    scores = linear(input, weight, bias, kept, mask, scale, batch_sizes)
    logits = scores.view(-1, scores.shape[-1])
    target = target.reshape(-1)
    count = (target != ignore_index).sum()
    losses = _losses(logits, target, ignore_index, want_grad=want_grad)
    shape = (*input.shape[:-1], weight.shape[0])
    grad_logits = logits.view(shape) if want_grad else logits.new_empty(0)
    return losses.sum() / count, grad_logits, count


@_linear_cross_entropy.register_fake
def _(
    input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    want_grad = others[-2]
    logits = input.new_empty(*input.shape[:-1], weight.shape[0]) if want_grad else None
    loss = input.new_empty((), dtype=accumulation_dtype(input.dtype))
    return loss, input.new_empty(0) if logits is None else logits, target.new_empty(())


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    input, weight, bias, target, kept, mask, ctx.scale, batch_sizes, *options = inputs
    ctx.ignore_index, _, ctx.compiled = options
    ctx.has_bias = bias is not None
    ctx.save_for_backward(input, weight, bias, target, kept, mask, batch_sizes, *output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad_loss: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad_loss is None:
        return (None,) * 11
    input, weight, bias, target, kept, mask, batch_sizes, grad_logits, count = ctx.saved_tensors
    if torch.is_grad_enabled():
        with torch.enable_grad():
            loss = linear_cross_entropy_equation(
                input,
                weight,
                bias,
                target,
                Mask(kept, mask, ctx.scale),
                batch_sizes,
                ctx.ignore_index,
            )
        wanted = [t for t, n in zip((input, weight, bias), ctx.needs_input_grad, strict=False) if n]
        found = iter(torch.autograd.grad(loss, wanted, grad_loss, create_graph=True))
        return (*(next(found) if n else None for n in ctx.needs_input_grad[:3]), *[None] * 8)
    operands = (grad_logits, input, weight, kept, mask, ctx.scale, batch_sizes)
    if ctx.compiled:
        grads = torch.ops.sdrop.linear_cpu_backward(*operands, ctx.needs_input_grad[0])
    else:
        grads = torch.ops.sdrop.linear_backward(*operands)
    # The factor goes on three small results rather than on the logits.
    factor = grad_loss / count.clamp(min=1)  # none counted: the loss is NaN, its gradients are 0
    grad_input, grad_weight, grad_bias = (
        (g.t() * factor).t() if g.dim() == 2 else g * factor for g in grads
    )
    return (
        grad_input.to(input.dtype) if ctx.needs_input_grad[0] else None,
        grad_weight.to(weight.dtype),
        grad_bias.to(weight.dtype) if ctx.has_bias else None,
        *[None] * 8,
    )


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

    `compiled` computes the three GEMMs by the compiled CPU kernels, which must be there.
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
