"""What `torch.autocast` means for an op that autograd and autocast do not look into."""

from __future__ import annotations

import torch
from torch import Tensor

MIXABLE = (torch.float32, torch.bfloat16, torch.float16)
"""The dtypes that autocast converts; float64 and integers stay as they are."""


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype that autocast asks for on `device`, None where it is off or unknown there."""
    kind = device.type
    if kind != "cpu" and not torch.amp.is_autocast_available(kind):
        return None
    if not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def autocast_to(input: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    """The tensors in autocast's dtype where it is on for the input's device, else as they are."""
    dtype = autocast_dtype(input.device)
    if dtype is None or input.dtype not in MIXABLE:
        return (input, *others)  # type: ignore[arg-type]
    return tuple(
        tensor if tensor is None else tensor.to(dtype)  # type: ignore[misc]
        for tensor in (input, *others)
    )
