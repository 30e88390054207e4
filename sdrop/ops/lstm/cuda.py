"""`torch.ops.sdrop.lstm_cuda`: the CUDA recurrence as an operator that autograd and compile know.

One layer without a projection, in float32 or bfloat16 (sums, gates and cells are float32 then,
too). Lists hold a tensor a direction: one, or a forward and a reverse one, which run in the same
launches. How: see docs/cuda.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sdrop.ops.linear_cuda import allows_tf32
from sdrop.ops.lstm.equations import lstm_equations
from sdrop.ops.lstm.op import k_major_empty, or_zeros
from sdrop.ops.masks import Mask

_LAYER = (
    "Tensor input, Tensor[] h_0, Tensor[] c_0, Tensor[] weight_ih, Tensor[] weight_hh, "
    "{bias}Tensor? input_kept, Tensor? input_mask, float input_scale, Tensor[] hidden_kept, "
    "Tensor[] hidden_mask, float hidden_scale, Tensor? batch_sizes, bool reverse, bool tf32"
)

# Returns output, h_n, c_n, gates (rows, 4H) and cells (rows, H), each of all directions.
torch.library.define(
    "sdrop::lstm_cuda",
    f"({_LAYER.format(bias='Tensor[] bias, ')}) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)
# `grads`: of output, h_n and c_n; `saved`: output, gates and cells. Returns the gradients of the
# input, then of h_0, c_0, weight_ih, weight_hh and bias, each of all directions.
torch.library.define(
    "sdrop::lstm_cuda_backward",
    f"(Tensor[] grads, {_LAYER.format(bias='')}, Tensor[] saved, bool needs_input_grad) "
    "-> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _fake(input: Tensor, h_0: list[Tensor], c_0: list[Tensor], *others: Any) -> list[Tensor]:
    rows = input.numel() // input.shape[-1]
    return [
        *(input.new_empty(*input.shape[:-1], h.shape[1]) for h in h_0),
        *(h.new_empty(h.shape) for h in h_0),
        *(c.new_empty(c.shape) for c in c_0),
        *(input.new_empty(rows, 4 * h.shape[1], dtype=torch.float32) for h in h_0),
        *(input.new_empty(rows, h.shape[1], dtype=torch.float32) for h in h_0),
    ]


def _fake_backward(
    grads: list[Tensor],
    input: Tensor,
    h_0: list[Tensor],
    c_0: list[Tensor],
    weight_ih: list[Tensor],
    weight_hh: list[Tensor],
    *others: Any,
) -> list[Tensor]:
    needs_input_grad = others[-1]
    return [
        input.new_empty(input.shape if needs_input_grad else (0,)),
        *(state.new_empty(state.shape) for state in (*h_0, *c_0)),
        *(k_major_empty(weight) for weight in (*weight_ih, *weight_hh)),
        *(weight.new_empty(weight.shape[0]) for weight in weight_ih),
    ]


torch.library.register_fake("sdrop::lstm_cuda", _fake)
torch.library.register_fake("sdrop::lstm_cuda_backward", _fake_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    input, *lists = inputs[:6]
    input_kept, input_mask, ctx.input_scale, hidden_kept, hidden_mask, ctx.hidden_scale = inputs[
        6:12
    ]
    batch_sizes, ctx.reverse, ctx.tf32 = inputs[12:]
    directions = len(lists[0])
    saved = [*output[:directions], *output[3 * directions :]]
    ctx.lengths = [len(each) for each in (*lists, hidden_kept, hidden_mask, saved)]
    flat = [tensor for each in (*lists, hidden_kept, hidden_mask, saved) for tensor in each]
    ctx.save_for_backward(input, input_kept, input_mask, batch_sizes, *flat)
    ctx.set_materialize_grads(False)


def _saved_lists(ctx: Any) -> tuple[tuple[Any, ...], list[list[Tensor]]]:
    """What `_save` kept: the tensors that directions share, and the lists."""
    shared, flat = ctx.saved_tensors[:4], list(ctx.saved_tensors[4:])
    lists = []
    for length in ctx.lengths:
        lists.append(flat[:length])
        flat = flat[length:]
    return shared, lists


def _differentiate(ctx: Any, grads: Sequence[Tensor | None]) -> tuple[Any, ...]:
    (input, input_kept, input_mask, batch_sizes), lists = _saved_lists(ctx)
    h_0, c_0, weight_ih, weight_hh, bias, hidden_kept, hidden_mask, saved = lists
    directions = len(h_0)
    given = or_zeros(grads, [*saved[:directions], *h_0, *c_0])
    nothing: tuple[Any, ...] = (None, None, None, [None] * len(hidden_kept))
    nothing += ([None] * len(hidden_mask), None, None, None, None)
    if torch.is_grad_enabled():
        return (*_differentiable_backward(ctx, given), *nothing)
    input_grad, *found = torch.ops.sdrop.lstm_cuda_backward(
        given,
        input,
        h_0,
        c_0,
        weight_ih,
        weight_hh,
        input_kept,
        input_mask,
        ctx.input_scale,
        hidden_kept,
        hidden_mask,
        ctx.hidden_scale,
        batch_sizes,
        ctx.reverse,
        ctx.tf32,
        saved,
        ctx.needs_input_grad[0],
    )
    by_argument = [found[i * directions : (i + 1) * directions] for i in range(5)]
    if not bias:
        by_argument[4] = []
    return (input_grad if ctx.needs_input_grad[0] else None, *by_argument, *nothing)


def _differentiable_backward(ctx: Any, grads: tuple[Tensor, ...]) -> list[Any]:
    """The backward pass through the equations, for `create_graph=True`: slower, and exact."""
    (input, input_kept, input_mask, batch_sizes), lists = _saved_lists(ctx)
    h_0, c_0, weight_ih, weight_hh, bias, hidden_kept, hidden_mask, _ = lists
    outputs: list[list[Tensor]] = [[], [], []]
    for i in range(len(h_0)):
        results = lstm_equations(
            input,
            h_0[i],
            c_0[i],
            weight_ih[i],
            weight_hh[i],
            bias[i] if bias else None,
            input_mask=Mask(input_kept, input_mask, ctx.input_scale),
            hidden_mask=Mask(
                hidden_kept[i] if hidden_kept else None,
                hidden_mask[i] if hidden_mask else None,
                ctx.hidden_scale,
            ),
            batch_sizes=batch_sizes,
            reverse=ctx.reverse or i == 1,
        )
        for each, result in zip(outputs, results, strict=True):
            each.append(result)
    arguments = [[input], h_0, c_0, weight_ih, weight_hh, bias]
    needed = [[ctx.needs_input_grad[0]], *ctx.needs_input_grad[1:6]]
    pairs = [
        pair
        for tensors, wanted in zip(arguments, needed, strict=True)
        for pair in zip(tensors, wanted, strict=True)
    ]
    found = iter(
        torch.autograd.grad(
            [result for each in outputs for result in each],
            [tensor for tensor, wanted in pairs if wanted],
            grads,
            create_graph=True,
            allow_unused=True,
        )
    )
    by_argument = [[next(found) if each else None for each in wanted] for wanted in needed]
    return [by_argument[0][0], *by_argument[1:]]


torch.library.register_autograd("sdrop::lstm_cuda", _differentiate, setup_context=_save)


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
    tf32: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One direction; arguments and results as in `lstm_equations`.

    `tf32` allows rounding the float32 products over all steps to tf32, by default as torch does
    for its own; the recurrence never is.
    """
    return _call(
        input,
        ([h_0], [c_0], [weight_ih], [weight_hh], [] if bias is None else [bias]),
        input_mask,
        [hidden_mask],
        batch_sizes,
        reverse,
        tf32,
    )[0]


def lstm_directions(
    input: Tensor,
    h_0: Sequence[Tensor],
    c_0: Sequence[Tensor],
    weight_ih: Sequence[Tensor],
    weight_hh: Sequence[Tensor],
    bias: Sequence[Tensor],
    *,
    input_mask: Mask,
    hidden_masks: Sequence[Mask],
    batch_sizes: Tensor | None = None,
    tf32: bool | None = None,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The forward and the reverse direction of a layer, in the same launches.

    Args:
        h_0, c_0, weight_ih, weight_hh: a tensor a direction, of the same shapes.
        bias: likewise, or empty.
        hidden_masks: a mask a direction, of one kind and scale.
        the others: as in `lstm`.

    Returns:
        output, h_n and c_n of each direction.
    """
    lists = (list(h_0), list(c_0), list(weight_ih), list(weight_hh), list(bias))
    return _call(input, lists, input_mask, hidden_masks, batch_sizes, False, tf32)


def _call(
    input: Tensor,
    lists: tuple[list[Tensor], ...],
    input_mask: Mask,
    hidden_masks: Sequence[Mask],
    batch_sizes: Tensor | None,
    reverse: bool,
    tf32: bool | None,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    results = torch.ops.sdrop.lstm_cuda(
        input,
        *lists,
        input_mask.kept,
        input_mask.mask,
        input_mask.scale,
        [mask.kept for mask in hidden_masks if mask.kept is not None],
        [mask.mask for mask in hidden_masks if mask.mask is not None],
        hidden_masks[0].scale,
        batch_sizes,
        reverse,
        allows_tf32(input) if tf32 is None else tf32,
    )
    directions = len(lists[0])
    return [
        (results[i], results[directions + i], results[2 * directions + i])
        for i in range(directions)
    ]
