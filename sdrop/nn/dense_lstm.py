"""A layer by torch's own LSTM kernel, where the recurrence has nothing to skip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdrop.nn.k_major import row_major
from sdrop.ops.choice import why_not_cpu
from sdrop.ops.lstm.steps import Steps
from sdrop.ops.masks import Mask, dense_mask

if TYPE_CHECKING:
    from sdrop.nn.lstm import DirectionWeights, LayerMasks

_WIDE_BATCH = 64
_MANY_ROWS = 4000
"""From so many sequences, and rows in all, torch's kernel is faster than the compiled one.

Ratios over `torch.nn.LSTM`, forward and backward at p = 0, one thread of a Zen 3 processor (AVX2),
compiled kernel and torch's behind a row-major copy of the weights, which costs less the more rows
share it (T, B, H): 15, 10, 100: 1.05, 0.76; 15, 32, 200: 1.02, 0.87; 35, 20, 650: 1.09, 0.83;
35, 20, 1500: 1.22, 0.93; 25, 64, 500: 0.98, 0.85; 70, 80, 1150: 0.90, 1.06. `python -m
recipes.bench suite=layer variant=[none]` measures what this choice gives; `backend=cpu` is always
the compiled kernel.
"""

_FEW_ROWS = 32
"""Below so many rows the copy costs more than the layer itself, by whatever kernel."""


def runs_dense(
    backend: str,
    data: Tensor,
    batch_sizes: Tensor | None,
    weights: list[DirectionWeights],
    masks: LayerMasks,
) -> bool:
    """Whether `backend="auto"` hands a layer to torch's own kernel.

    On a CPU that is oneDNN's LSTM, which has no projections (torch warns and falls back) and no
    packed sequences. cuDNN wants weights of its own layout, and `torch.compile` cannot look into
    either, so both get sdrop's op.
    """
    rows = data.numel() // max(1, data.shape[-1])
    if (
        backend != "auto"
        or data.device.type != "cpu"
        or torch.compiler.is_compiling()
        or weights[0].hr is not None
        or rows < _FEW_ROWS
        or not all(mask.is_all for mask in masks.hidden)
    ):
        return False
    if why_not_cpu(data, weights[0].ih, weights[0].hh) is not None:
        return True  # the alternative is a loop of PyTorch ops
    if batch_sizes is not None or data.dtype != torch.float32:
        return False  # half precision may be emulated there, twenty times as slow
    wide = data.shape[1] >= _WIDE_BATCH and rows >= _MANY_ROWS
    return wide and not _skips(masks.input)


def _skips(mask: Mask) -> bool:
    """Whether the whole batch drops the same neurons, which the compiled kernels leave out."""
    return mask.kept is not None or (mask.mask is not None and mask.mask.shape[1] == 1)


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
