"""The mean of the weights of several checkpoints of a run, often better than the last of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from sdrop.training.checkpoint import load_weights
from sdrop.training.errors import CheckpointError


def newest(checkpoints: Path, count: int) -> list[Path]:
    """The newest `count` checkpoints of a folder of them, oldest first.

    Raises:
        CheckpointError: where there are fewer.
    """
    found = sorted(checkpoints.glob("step-*"), key=lambda folder: (len(folder.name), folder.name))
    if len(found) < count:
        raise CheckpointError(
            f"{checkpoints} has {len(found)} checkpoints, fewer than the {count} to average: train "
            f"with trainer.keep_checkpoints={count}"
        )
    return found[len(found) - count :]


@torch.no_grad()
def load_average(
    model: nn.Module, checkpoints: Sequence[Path], signatures: Mapping[str, str] | None = None
) -> None:
    """Gives `model` the mean of the checkpoints' weights, summed in float64.

    Args:
        model: the plain module; its parameters keep strides and ties.
        checkpoints: one or more folders.
        signatures: what must be equal to what they were written with.

    Raises:
        CheckpointError: for one that is missing, damaged or of another model; for none.
    """
    if not checkpoints:
        raise CheckpointError("expected a checkpoint or more to average, got none")
    sums: dict[str, Tensor] = {}
    for checkpoint in checkpoints:
        load_weights(model, checkpoint, signatures)
        for name, tensor in model.state_dict().items():
            sums[name] = sums.get(name, torch.zeros((), dtype=torch.float64)) + tensor.double()
    for name, tensor in model.state_dict().items():
        tensor.copy_(sums[name] / len(checkpoints))
