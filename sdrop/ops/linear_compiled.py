"""What the operators of the compiled linear layers share: schema, fakes and autograd.

They are `sdrop::linear` (sdrop/ops/linear.py) by kernels of their own, whose backward pass may
leave out the input's gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sdrop.ops.eager import eager
from sdrop.ops.linear import differentiable_backward, fake_linear, save_for_backward

_MASK = "Tensor? kept, Tensor? mask, float scale, Tensor? batch_sizes"


def define_linear(name: str, options: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Defines the operators `sdrop::NAME` and `sdrop::NAME_backward`, for kernels to implement.

    Args:
        name: such as `linear_cpu`.
        options: declarations of the last arguments, which both have beside those of the reference.

    Returns:
        what calls the first.
    """
    more = "".join(f", {option}" for option in options)
    torch.library.define(
        f"sdrop::{name}",
        f"(Tensor input, Tensor weight, Tensor? bias, {_MASK}{more}) -> Tensor",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    torch.library.define(
        f"sdrop::{name}_backward",
        f"(Tensor grad_output, Tensor input, Tensor weight, {_MASK}, bool needs_input_grad{more}) "
        "-> (Tensor, Tensor, Tensor)",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    torch.library.register_fake(f"sdrop::{name}", fake_linear)
    torch.library.register_fake(f"sdrop::{name}_backward", _fake_backward)
    backward = getattr(torch.ops.sdrop, f"{name}_backward")

    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        save_for_backward(ctx, inputs[:7], output)
        ctx.options = inputs[7:]

    def differentiate(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, kept, mask, batch_sizes = ctx.saved_tensors
        no_gradients = [None] * len(ctx.options)
        if torch.is_grad_enabled():
            return (*differentiable_backward(ctx, grad_output), *no_gradients)
        needs_input_grad = ctx.needs_input_grad[0]
        arguments = (grad_output, input, weight, kept, mask, ctx.scale, batch_sizes)
        grad_input, grad_weight, grad_bias = backward(*arguments, needs_input_grad, *ctx.options)
        return (
            grad_input if needs_input_grad else None,
            grad_weight,
            grad_bias if ctx.has_bias else None,
            *[None] * 4,
            *no_gradients,
        )

    torch.library.register_autograd(f"sdrop::{name}", differentiate, setup_context=save)
    return eager(getattr(torch.ops.sdrop, name), save, differentiate)


def _fake_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    needs_input_grad = others[4]
    return (
        input.new_empty(input.shape if needs_input_grad else (0,)),
        weight.new_empty(weight.shape[1], weight.shape[0]).t(),
        input.new_empty(weight.shape[0]),
    )
