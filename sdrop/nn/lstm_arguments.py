"""What `sdrop.LSTM` accepts, and what it says of anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from sdrop.nn.arguments import check_like_weight, check_packed, check_state_kind

if TYPE_CHECKING:
    from sdrop.nn.lstm import LSTM


def check_input(lstm: LSTM, input: Tensor | PackedSequence) -> None:
    """Checks kind, dimensions, length, features, dtype and device of an input."""
    if isinstance(input, PackedSequence):
        check_packed("LSTM", input)
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
    check_like_weight("LSTM", what, data, _first_weight(lstm))


def _first_weight(lstm: LSTM) -> Tensor:
    """Not by get_parameter: parametrisations and functional_call put a plain tensor there."""
    return lstm.weight_ih_l0  # type: ignore[return-value]


def check_state(lstm: LSTM, hx: Any, batch: int, unbatched: bool) -> None:
    """Checks the kind, shapes, dtype and device of (h_0, c_0)."""
    names = ("h_0", "c_0")
    check_state_kind("LSTM", hx, names)
    rows = lstm.num_layers * (2 if lstm.bidirectional else 1)
    sizes = (lstm.proj_size or lstm.hidden_size, lstm.hidden_size)
    for name, state, size in zip(names, hx, sizes, strict=True):
        expected = (rows, size) if unbatched else (rows, batch, size)
        if tuple(state.shape) != expected:
            raise RuntimeError(
                f"LSTM: expected {name} of shape {expected}, got {tuple(state.shape)}"
            )
        check_like_weight("LSTM", name, state, _first_weight(lstm))
