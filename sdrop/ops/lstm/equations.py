"""The LSTM with dropout, as the equations have it. The oracle of every other path.

Hochreiter & Schmidhuber 1997 with forget gates (Gers et al. 2000), in `torch.nn.LSTM`'s gate
order; projection after Sak et al. 2014; the mask on h_{t-1} after Semeniuta et al. 2016 (hidden
state into the gates dropped, cell state whole).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sdrop.ops.lstm.steps import Steps
from sdrop.ops.masks import Mask, dense_mask


def lstm_equations(
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
    """One layer and direction in plain PyTorch; arguments as `sdrop.functional.lstm` has them.

    Returns:
        output, shaped as the input with P features; h_n (B, P); c_n (B, H).
    """
    steps = Steps.of(input, batch_sizes, reverse)
    x = input.reshape(-1, input.shape[-1])
    dropped_input = dense_mask(input_mask, x.shape[1], x.dtype)
    if dropped_input is not None:
        x = x * steps.expand(dropped_input)
    dropped_hidden = dense_mask(hidden_mask, h_0.shape[1], x.dtype)

    h, c = h_0, c_0
    outputs: dict[int, Tensor] = {}
    for t, rows in steps.rows():
        size = rows.stop - rows.start
        h_in = h[:size]
        if dropped_hidden is not None:
            h_in = h_in * dropped_hidden[min(t, dropped_hidden.shape[0] - 1), :size]
        gates = x[rows] @ weight_ih.t() + h_in @ weight_hh.t()
        if bias is not None:
            gates = gates + bias
        i, f, g, o = gates.chunk(4, dim=1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c_t = f * c[:size] + i * g
        h_t = o * c_t.tanh()
        if weight_hr is not None:
            h_t = h_t @ weight_hr.t()
        outputs[t] = h_t
        h, c = torch.cat([h_t, h[size:]]), torch.cat([c_t, c[size:]])
    output = torch.cat([outputs[t] for t in range(len(outputs))])
    return output.reshape(*input.shape[:-1], output.shape[1]), h, c
