"""A layer by the compiled CUDA kernels, both directions in the same launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sdrop.ops.lstm import cuda

if TYPE_CHECKING:
    from sdrop.nn.lstm import DirectionWeights, LayerMasks


def cuda_layer(
    data: Tensor,
    h_0: Sequence[Tensor],
    c_0: Sequence[Tensor],
    weights: list[DirectionWeights],
    masks: LayerMasks,
    batch_sizes: Tensor | None,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """One layer, all its directions."""
    biases = [
        w.bias_ih + w.bias_hh for w in weights if w.bias_ih is not None and w.bias_hh is not None
    ]
    lists = (h_0, c_0, [w.ih for w in weights], [w.hh for w in weights])
    if len(weights) == 1:
        output, h_n, c_n = cuda.lstm(
            data,
            *(each[0] for each in lists),
            *biases,
            input_mask=masks.input,
            hidden_mask=masks.hidden[0],
            batch_sizes=batch_sizes,
        )
        return output, [h_n], [c_n]
    found = cuda.lstm_directions(
        data,
        *lists,
        biases,
        input_mask=masks.input,
        hidden_masks=masks.hidden,
        batch_sizes=batch_sizes,
    )
    outputs, last_h, last_c = (list(each) for each in zip(*found, strict=True))
    return torch.cat(outputs, dim=-1), last_h, last_c
