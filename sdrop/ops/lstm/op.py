"""`torch.ops.sdrop.lstm`: the packed LSTM as an operator that autograd and `torch.compile` know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sdrop.ops.lstm import packed
from sdrop.ops.lstm.equations import lstm_equations
from sdrop.ops.lstm.steps import Steps
from sdrop.ops.masks import Mask


@torch.library.custom_op("sdrop::lstm", mutates_args=())
def _lstm(
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    weight_hr: Tensor | None,
    input_kept: Tensor | None,
    input_mask: Tensor | None,
    input_scale: float,
    hidden_kept: Tensor | None,
    hidden_mask: Tensor | None,
    hidden_scale: float,
    batch_sizes: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    output, h_n, c_n, saved = packed.forward(
        input.reshape(-1, input.shape[-1]),
        h_0,
        c_0,
        weight_ih,
        weight_hh,
        bias,
        weight_hr,
        Mask(input_kept, input_mask, input_scale),
        Mask(hidden_kept, hidden_mask, hidden_scale),
        Steps.of(input, batch_sizes, reverse),
    )
    # Not view: autograd forbids writing in place, as relu_ does, to a view from an operator.
    output = torch.ops.aten._unsafe_view(output, [*input.shape[:-1], output.shape[1]])
    return output, h_n, c_n, saved.gates, saved.cells


@_lstm.register_fake
def _(
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    weight_hr: Tensor | None,
    *masks: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows = input.numel() // input.shape[-1]
    hidden_size, wide = c_0.shape[1], packed.accumulation_dtype(input.dtype)
    return (
        input.new_empty(*input.shape[:-1], h_0.shape[1]),
        torch.empty_like(h_0, memory_format=torch.contiguous_format),
        torch.empty_like(c_0, memory_format=torch.contiguous_format),
        input.new_empty(rows, 4 * hidden_size, dtype=wide),
        input.new_empty(rows, hidden_size, dtype=wide),
    )


@torch.library.custom_op("sdrop::lstm_backward", mutates_args=())
def _lstm_backward(
    grad_output: Tensor,
    grad_h_n: Tensor,
    grad_c_n: Tensor,
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    weight_hr: Tensor | None,
    input_kept: Tensor | None,
    input_mask: Tensor | None,
    input_scale: float,
    hidden_kept: Tensor | None,
    hidden_mask: Tensor | None,
    hidden_scale: float,
    batch_sizes: Tensor | None,
    reverse: bool,
    output: Tensor,
    gates: Tensor,
    cells: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    grads = packed.backward(
        grad_output.reshape(-1, grad_output.shape[-1]),
        grad_h_n,
        grad_c_n,
        input.reshape(-1, input.shape[-1]),
        h_0,
        c_0,
        weight_ih,
        weight_hh,
        weight_hr,
        Mask(input_kept, input_mask, input_scale),
        Mask(hidden_kept, hidden_mask, hidden_scale),
        Steps.of(input, batch_sizes, reverse),
        output.reshape(-1, output.shape[-1]),
        packed.Saved(gates, cells),
    )
    # An operator returns tensors only: an empty one stands for "no projection".
    weight_hr_grad = gates.new_empty(0) if grads.weight_hr is None else grads.weight_hr
    return grads.x.view(input.shape), *grads[1:6], weight_hr_grad


def k_major_empty(weight: Tensor) -> Tensor:
    """An empty gradient laid out as the parameters are: the transpose of a contiguous tensor."""
    return weight.new_empty(weight.shape[1], weight.shape[0]).t()


@_lstm_backward.register_fake
def _(
    grad_output: Tensor,
    grad_h_n: Tensor,
    grad_c_n: Tensor,
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    weight_hr: Tensor | None,
    *others: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        input.new_empty(input.shape),
        h_0.new_empty(h_0.shape),
        c_0.new_empty(c_0.shape),
        k_major_empty(weight_ih),
        k_major_empty(weight_hh),
        weight_ih.new_empty(weight_ih.shape[0]),
        input.new_empty(0) if weight_hr is None else k_major_empty(weight_hr),
    )


def save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keeps arguments that end as the operator's do, and output, gates and cells."""
    *tensors, ctx.reverse = inputs
    ctx.hidden_scale, ctx.input_scale = tensors.pop(-2), tensors.pop(-4)
    ctx.save_for_backward(*tensors, output[0], output[3], output[4])
    ctx.set_materialize_grads(False)


def or_zeros(grads: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of the first outputs, zeros where nobody used one."""
    pairs = zip(grads, outputs, strict=False)
    return tuple(torch.zeros_like(like) if grad is None else grad for grad, like in pairs)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    input, h_0, c_0, weight_ih, weight_hh, bias, weight_hr, *rest = ctx.saved_tensors
    input_kept, input_mask, hidden_kept, hidden_mask, batch_sizes, output, gates, cells = rest
    given = or_zeros(grads, (output, h_0, c_0))
    arguments = (input, h_0, c_0, weight_ih, weight_hh, bias, weight_hr)
    if torch.is_grad_enabled():
        found = differentiable_backward(ctx, given, arguments, rest)
    else:
        *found, weight_hr_grad = torch.ops.sdrop.lstm_backward(
            *given,
            *arguments[:5],
            weight_hr,
            input_kept,
            input_mask,
            ctx.input_scale,
            hidden_kept,
            hidden_mask,
            ctx.hidden_scale,
            batch_sizes,
            ctx.reverse,
            output,
            gates,
            cells,
        )
        found.append(None if weight_hr is None else weight_hr_grad)
    found[5] = None if bias is None else found[5]
    return (*found, *[None] * 8)


def differentiable_backward(
    ctx: Any,
    grads: tuple[Tensor, ...],
    arguments: tuple[Tensor | None, ...],
    rest: list[Tensor | None],
) -> list[Tensor | None]:
    """The backward pass through the equations, for `create_graph=True`: slower, and exact."""
    input_kept, input_mask, hidden_kept, hidden_mask, batch_sizes = rest[:5]
    input = arguments[0]
    assert input is not None
    of_one_type = [a if a is None else a.to(input.dtype) for a in arguments]
    outputs = lstm_equations(
        *of_one_type,  # type: ignore[arg-type]
        input_mask=Mask(input_kept, input_mask, ctx.input_scale),
        hidden_mask=Mask(hidden_kept, hidden_mask, ctx.hidden_scale),
        batch_sizes=batch_sizes,
        reverse=ctx.reverse,
    )
    wanted = [
        a
        for a, needed in zip(arguments, ctx.needs_input_grad, strict=False)
        if a is not None and needed
    ]
    found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if n else None for n in ctx.needs_input_grad[: len(arguments)]]


_lstm.register_autograd(_differentiate, setup_context=save_for_backward)


def lstm(
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    weight_hr: Tensor | None = None,
    *,
    input_mask: Mask,
    hidden_mask: Mask,
    batch_sizes: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Calls the operator; arguments and results as in `lstm_equations`."""
    output, h_n, c_n, _, _ = torch.ops.sdrop.lstm(
        input,
        h_0,
        c_0,
        weight_ih,
        weight_hh,
        bias,
        weight_hr,
        input_mask.kept,
        input_mask.mask,
        input_mask.scale,
        hidden_mask.kept,
        hidden_mask.mask,
        hidden_mask.scale,
        batch_sizes,
        reverse,
    )
    return output, h_n, c_n
