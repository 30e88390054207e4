"""What `torch.autocast` means for an op that autograd and autocast do not look into."""

from __future__ import annotations

import torch
from torch import Tensor


def autocast_to(input: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    """The tensors in autocast's dtype where it is on for the input's device, else as they are.

    float64 stays float64, as under torch's own autocast rules.
    """
    device = input.device.type
    if not torch.is_autocast_enabled(device) or input.dtype == torch.float64:
        return (input, *others)  # type: ignore[arg-type]
    dtype = torch.get_autocast_dtype(device)
    return tuple(
        tensor if tensor is None else tensor.to(dtype)  # type: ignore[misc]
        for tensor in (input, *others)
    )
