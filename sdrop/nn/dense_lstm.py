"""A layer by torch's own LSTM kernel, where the recurrence has nothing to skip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdrop.nn.k_major import row_major
from sdrop.ops.lstm.steps import Steps
from sdrop.ops.masks import Mask, dense_mask

if TYPE_CHECKING:
    from sdrop.nn.lstm import DirectionWeights, LayerMasks


def dense_layer(
    data: Tensor,
    h_0: Sequence[Tensor],
    c_0: Sequence[Tensor],
    weights: list[DirectionWeights],
    masks: LayerMasks,
    batch_sizes: Tensor | None,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """One layer, all its directions; the input mask is applied in front of the kernel."""
    data, columns = _drop_input(data, masks.input, batch_sizes)
    flat: list[Tensor] = []
    for w in weights:
        ih = w.ih if columns is None else _kept_columns(w.ih, columns) * masks.input.scale
        flat += [row_major(ih), row_major(w.hh)]
        flat += [bias for bias in (w.bias_ih, w.bias_hh) if bias is not None]
    has_bias, bidirectional = weights[0].bias_ih is not None, len(weights) == 2
    training = torch.is_grad_enabled()
    options = (has_bias, 1, 0.0, training, bidirectional)
    states = (stacked(h_0), stacked(c_0))
    if batch_sizes is None:
        output, h_n, c_n = torch._VF.lstm(data, states, flat, *options, False)
    else:
        output, h_n, c_n = torch._VF.lstm(data, batch_sizes, states, flat, *options)
    return output, list(h_n.unbind()), list(c_n.unbind())


def stacked(states: Sequence[Tensor]) -> Tensor:
    """(n, B, ...), the states of so many layers and directions; one alone is not copied."""
    return states[0].unsqueeze(0) if len(states) == 1 else torch.stack(list(states))


def _kept_columns(weight: Tensor, columns: Tensor) -> Tensor:
    """Selected as rows of the transpose, so that the gradient is K-major like the weight."""
    return weight.t().index_select(0, columns).t()


def _drop_input(
    data: Tensor, mask: Mask, batch_sizes: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The dropped input, and where a constant mask packs it the columns that are left."""
    if mask.kept is not None and mask.kept.shape[0] == 1:
        return data.index_select(-1, mask.kept[0]), mask.kept[0]
    factor = dense_mask(mask, data.shape[-1], data.dtype)
    if factor is None:
        return data, None
    steps = Steps.of(data, batch_sizes, reverse=False)
    rows = data.reshape(-1, data.shape[-1]) * steps.expand(factor)
    return rows.view(data.shape), None
