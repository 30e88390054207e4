"""`torch.ops.sdrop.lstm_cpu`: the compiled LSTM as an operator that autograd and compile know.

Like `sdrop::lstm` without a projection and for float32 alone, but that both weights may be of
bfloat16 where H is even: products are then those of bfloat16 numbers, and all else stays float32.
What it saves for the backward pass, gates and cells, is padded to `padded(H)` units.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sdrop.ops.eager import eager
from sdrop.ops.lstm.op import differentiable_backward, k_major_empty, or_zeros, save_for_backward
from sdrop.ops.masks import Mask

_MASKS = (
    "Tensor? input_kept, Tensor? input_mask, float input_scale, "
    "Tensor? hidden_kept, Tensor? hidden_mask, float hidden_scale, Tensor? batch_sizes, "
    "bool reverse"
)

torch.library.define(
    "sdrop::lstm_cpu",
    "(Tensor input, Tensor h_0, Tensor c_0, Tensor weight_ih, Tensor weight_hh, Tensor? bias, "
    f"{_MASKS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
torch.library.define(
    "sdrop::lstm_cpu_backward",
    "(Tensor grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor input, Tensor h_0, "
    f"Tensor c_0, Tensor weight_ih, Tensor weight_hh, {_MASKS}, Tensor output, Tensor gates, "
    "Tensor cells, bool needs_input_grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def padded(hidden_size: int) -> int:
    """`padded_hidden_size` of kernels/cpu/interface.h: a multiple of the widest vector."""
    return (hidden_size + 15) // 16 * 16


def _fake(input: Tensor, h_0: Tensor, c_0: Tensor, *others: Any) -> tuple[Tensor, ...]:
    rows, hidden_size = input.numel() // input.shape[-1], h_0.shape[1]
    return (
        input.new_empty(*input.shape[:-1], hidden_size),
        h_0.new_empty(h_0.shape),
        c_0.new_empty(c_0.shape),
        input.new_empty(rows, 4 * padded(hidden_size)),
        input.new_empty(rows, padded(hidden_size)),
    )


def _fake_backward(
    grad_output: Tensor,
    grad_h_n: Tensor | None,
    grad_c_n: Tensor | None,
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    *others: Any,
) -> tuple[Tensor, ...]:
    needs_input_grad = others[-1]
    return (
        input.new_empty(input.shape if needs_input_grad else (0,)),
        h_0.new_empty(h_0.shape),
        c_0.new_empty(c_0.shape),
        k_major_empty(weight_ih),
        k_major_empty(weight_hh),
        input.new_empty(weight_ih.shape[0]),
    )


torch.library.register_fake("sdrop::lstm_cpu", _fake)
torch.library.register_fake("sdrop::lstm_cpu_backward", _fake_backward)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    input, h_0, c_0, weight_ih, weight_hh, bias, *rest = ctx.saved_tensors
    input_kept, input_mask, hidden_kept, hidden_mask, batch_sizes, output, gates, cells = rest
    found: list[Tensor | None]
    arguments = (input, h_0, c_0, weight_ih, weight_hh, bias)
    if torch.is_grad_enabled():
        whole, given = (*arguments, None), or_zeros(grads, (output, h_0, c_0))
        found = differentiable_backward(ctx, given, whole, rest)[:6]
        return (*found, *[None] * 8)
    grad_output, grad_h_n, grad_c_n = grads[:3]
    if grad_output is None:
        grad_output = torch.zeros_like(output)
    needs_input_grad = ctx.needs_input_grad[0]
    found = list(
        torch.ops.sdrop.lstm_cpu_backward(
            grad_output,
            grad_h_n,
            grad_c_n,
            *arguments[:5],
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
            needs_input_grad,
        )
    )
    if not needs_input_grad:
        found[0] = None
    if bias is None:
        found[5] = None
    return (*found, *[None] * 8)


torch.library.register_autograd("sdrop::lstm_cpu", _differentiate, setup_context=save_for_backward)


def _save(ctx: Any, arguments: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    save_for_backward(ctx, arguments, output)
    ctx.mark_non_differentiable(*output[3:])


_call = eager(torch.ops.sdrop.lstm_cpu, _save, _differentiate)


def lstm(
    input: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    *,
    input_mask: Mask,
    hidden_mask: Mask,
    batch_sizes: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Calls the operator; arguments and results as in `lstm_equations`."""
    output, h_n, c_n, _, _ = _call(
        input,
        h_0,
        c_0,
        weight_ih,
        weight_hh,
        bias,
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
