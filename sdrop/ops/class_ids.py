"""Class ids are looked at before they are taken for places in memory."""

from __future__ import annotations

import torch
from torch import Tensor


def check_class_ids(what: str, ids: Tensor, classes: int) -> None:
    """Raises IndexError, as `torch.nn.functional.cross_entropy` does, where an id is no class.

    On a GPU, which would have to be waited for, and under `torch.compile` nothing is looked at.

    Args:
        what: whose ids they are, for the message.
        ids: int64, any shape.
        classes: how many there are.
    """
    if torch.compiler.is_compiling() or not ids.is_cpu or ids.numel() == 0:
        return
    lowest, highest = (int(each) for each in ids.aminmax())
    if lowest < 0 or highest >= classes:
        wrong = lowest if lowest < 0 else highest
        raise IndexError(f"{what}: expected class ids from 0 to {classes - 1}, got {wrong}")
