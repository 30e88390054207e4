"""What `sdrop.LSTM` accepts, and what it says of anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from sdrop.nn.lstm import LSTM


def check_input(lstm: LSTM, input: Tensor | PackedSequence) -> None:
    """Checks kind, dimensions, length, features, dtype and device of an input."""
    if isinstance(input, PackedSequence):
        _check_tensor(lstm, "the packed data", input.data)
        return
    if not isinstance(input, Tensor):
        raise TypeError(f"LSTM: expected a tensor or a PackedSequence, got {type(input).__name__}")
    if input.dim() not in (2, 3):
        raise ValueError(
            f"LSTM: expected a 2-D (unbatched) or 3-D input, got {input.dim()}-D: "
            f"{tuple(input.shape)}"
        )
    time = 1 if lstm.batch_first and input.dim() == 3 else 0
    if input.shape[time] == 0:
        raise RuntimeError(
            f"LSTM: expected a sequence of at least one step, got shape {tuple(input.shape)} with "
            f"time in dimension {time}"
        )
    _check_tensor(lstm, "the input", input)


def _check_tensor(lstm: LSTM, what: str, data: Tensor) -> None:
    if data.shape[-1] != lstm.input_size:
        raise RuntimeError(
            f"LSTM: expected {lstm.input_size} features (input_size) in the last dimension of "
            f"{what}, got {data.shape[-1]} in shape {tuple(data.shape)}"
        )
    _check_like_weight(lstm, what, data)


def _check_like_weight(lstm: LSTM, what: str, data: Tensor) -> None:
    weight: Tensor = lstm.weight_ih_l0  # maybe no Parameter: parametrised, functional_call
    if data.device != weight.device:
        raise RuntimeError(
            f"LSTM: {what} is on {data.device}, the weights on {weight.device}: move one of them"
        )
    if data.dtype != weight.dtype and not torch.is_autocast_enabled(data.device.type):
        raise ValueError(
            f"LSTM: {what} is {data.dtype}, the weights are {weight.dtype}: convert one of them, "
            "or use torch.autocast"
        )


def check_state(lstm: LSTM, data: Tensor, hx: Any, batch: int, unbatched: bool) -> None:
    """Checks the kind, shapes, dtype and device of (h_0, c_0)."""
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise TypeError(f"LSTM: expected hx to be a tuple (h_0, c_0), got {type(hx).__name__}")
    rows = lstm.num_layers * (2 if lstm.bidirectional else 1)
    sizes = (lstm.proj_size or lstm.hidden_size, lstm.hidden_size)
    for name, state, size in zip(("h_0", "c_0"), hx, sizes, strict=True):
        expected = (rows, size) if unbatched else (rows, batch, size)
        if tuple(state.shape) != expected:
            raise RuntimeError(
                f"LSTM: expected {name} of shape {expected}, got {tuple(state.shape)}"
            )
        _check_like_weight(lstm, name, state)
