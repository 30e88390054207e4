"""The hidden state that a stateful model hands from one window to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

HiddenState = Any
"""None, a tensor, or tuples, lists and dicts of hidden states."""


def map_state(state: HiddenState, function: Callable[[Tensor], Tensor]) -> HiddenState:
    """The same structure with `function` applied to each tensor.

    Raises:
        TypeError: for anything that a checkpoint could not hold.
    """
    if state is None:
        return None
    if isinstance(state, Tensor):
        return function(state)
    if type(state) in (tuple, list):
        return type(state)(map_state(part, function) for part in state)
    if type(state) is dict:
        return {name: map_state(part, function) for name, part in state.items()}
    raise TypeError(
        f"a model returned {type(state).__name__} in its hidden state: expected None, a tensor, "
        "or tuples, lists and dicts of them, which a checkpoint can hold"
    )
