"""`torch.ops.sdrop.linear`: dropout in front of a linear layer, packed where the mask is constant.

`linear_equation` is the reference: `drop(X) W^T + b` in plain PyTorch. The operator keeps to the
kept neurons S in all three GEMMs: forward `X[:, S] W[:, S]^T`, backward data `dX[:, S] = dY
W[:, S]`, weight gradient `dW[:, S] = dY^T X[:, S]` (Sarma et al. 2021, section 3.2).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sdrop.ops.lstm.packed import SiteProduct
from sdrop.ops.lstm.steps import Steps
from sdrop.ops.masks import Mask, dense_mask


def linear_equation(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Mask,
    batch_sizes: Tensor | None = None,
) -> Tensor:
    """drop(X) W^T + b in plain PyTorch, differentiable any number of times."""
    rows = input.reshape(-1, input.shape[-1])
    factor = dense_mask(mask, rows.shape[1], rows.dtype)
    if factor is not None:
        rows = rows * Steps.of(input, batch_sizes, reverse=False).expand(factor)
    output = nn.functional.linear(rows, weight, bias)
    return output.view(*input.shape[:-1], weight.shape[0])


@torch.library.custom_op("sdrop::linear", mutates_args=())
def _linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    kept: Tensor | None,
    mask: Tensor | None,
    scale: float,
    batch_sizes: Tensor | None,
) -> Tensor:
    steps = Steps.of(input, batch_sizes, reverse=False)
    product = SiteProduct(Mask(kept, mask, scale), weight.t(), steps)
    output = product.all_steps(input.reshape(-1, input.shape[-1]))
    if bias is not None:
        output += bias
    # Not view: autograd forbids writing in place, as relu_ does, to a view from an operator.
    whole: Tensor = torch.ops.aten._unsafe_view(output, [*input.shape[:-1], weight.shape[0]])
    return whole


@_linear.register_fake
def fake_linear(input: Tensor, weight: Tensor, *others: Any) -> Tensor:
    """An output without content."""
    return input.new_empty(*input.shape[:-1], weight.shape[0])


@torch.library.custom_op("sdrop::linear_backward", mutates_args=())
def _linear_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    kept: Tensor | None,
    mask: Tensor | None,
    scale: float,
    batch_sizes: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    steps = Steps.of(input, batch_sizes, reverse=False)
    product = SiteProduct(Mask(kept, mask, scale), weight.t(), steps)
    grad = grad_output.reshape(-1, grad_output.shape[-1])
    rows = input.reshape(-1, input.shape[-1])
    return (
        product.all_data_grad(grad).view(input.shape),
        product.weight_grad(rows, grad).t(),
        grad.sum(0),
    )


@_linear_backward.register_fake
def _(
    grad_output: Tensor, input: Tensor, weight: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        input.new_empty(input.shape),
        weight.new_empty(weight.shape[1], weight.shape[0]).t(),
        weight.new_empty(weight.shape[0]),
    )


def save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keeps the operator's arguments."""
    input, weight, bias, kept, mask, ctx.scale, batch_sizes = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(input, weight, kept, mask, batch_sizes)


def _differentiate(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    input, weight, kept, mask, batch_sizes = ctx.saved_tensors
    if torch.is_grad_enabled():
        return differentiable_backward(ctx, grad_output)
    grad_input, grad_weight, grad_bias = torch.ops.sdrop.linear_backward(
        grad_output, input, weight, kept, mask, ctx.scale, batch_sizes
    )
    return (grad_input, grad_weight, grad_bias if ctx.has_bias else None, *[None] * 4)


def differentiable_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """The backward pass in plain PyTorch, for `create_graph=True`."""
    input, weight, kept, mask, batch_sizes = ctx.saved_tensors
    rows, grad = input.reshape(-1, input.shape[-1]), grad_output.reshape(-1, weight.shape[0])
    factor = dense_mask(Mask(kept, mask, ctx.scale), rows.shape[1], rows.dtype)
    factors: Tensor | float = 1.0
    if factor is not None:
        factors = Steps.of(input, batch_sizes, reverse=False).expand(factor)
    grad_input = ((grad @ weight.to(grad.dtype)) * factors).view(input.shape)
    grad_weight = ((rows * factors).t() @ grad).to(weight.dtype)
    return (grad_input, grad_weight.t(), grad.sum(0) if ctx.has_bias else None, *[None] * 4)


_linear.register_autograd(_differentiate, setup_context=save_for_backward)


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Mask,
    batch_sizes: Tensor | None = None,
) -> Tensor:
    """Calls the operator; arguments and result as in `linear_equation`."""
    output: Tensor = torch.ops.sdrop.linear(
        input, weight, bias, mask.kept, mask.mask, mask.scale, batch_sizes
    )
    return output
