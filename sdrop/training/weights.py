"""A module's weights in a safetensors file: contiguous, each stored once.

Loading copies into the parameters that are there, so they keep their strides (sdrop's are
K-major), their ties, and their place in an optimizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sdrop.training.errors import CheckpointError, shortened


def save_weights(module: nn.Module, path: Path) -> None:
    """Writes all parameters and buffers of `module`; tied ones once, with a note of the ties."""
    state = module.state_dict()
    ties = find_ties(state)
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in state.items()
        if name not in ties
    }
    save_file(tensors, path, metadata={"ties": json.dumps(ties)})


def read_weights(module: nn.Module, path: Path) -> None:
    """Copies the weights of a file into `module`; nothing is touched unless all fit.

    Raises:
        CheckpointError: for a missing or damaged file, other names, other shapes, other ties.
    """
    try:
        with safe_open(path, framework="pt") as file:
            ties = json.loads((file.metadata() or {}).get("ties", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} is missing: give a checkpoint folder that is whole"
        ) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged ({error}): go back to another checkpoint"
        ) from None
    tensors |= {name: tensors[first] for name, first in ties.items()}
    _check(module.state_dict(), tensors, ties, path)
    module.load_state_dict(tensors)


def find_ties(state: dict[str, Tensor]) -> dict[str, str]:
    """Names whose tensor was met before, each with the name it was first met under."""
    first: dict[object, str] = {}
    ties: dict[str, str] = {}
    for name, tensor in state.items():
        if tensor.numel() == 0:  # all empty tensors share one address
            continue
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if first.setdefault(place, name) != name:
            ties[name] = first[place]
    return ties


def _check(
    state: dict[str, Tensor], tensors: dict[str, Tensor], ties: dict[str, str], path: Path
) -> None:
    """The file's tensors must be the module's, in name, shape and ties."""
    differences = [
        *(f"{name}: not in the checkpoint" for name in state.keys() - tensors.keys()),
        *(f"{name}: not in this model" for name in tensors.keys() - state.keys()),
        *_shape_differences(state, tensors),
        *_tie_differences(find_ties(state), ties),
    ]
    if differences:
        raise CheckpointError(
            f"the weights in {path} are of another model:\n{shortened(sorted(differences))}\n"
            "Build the model with the options that the checkpoint was written with."
        )


def _shape_differences(state: dict[str, Tensor], tensors: dict[str, Tensor]) -> Iterable[str]:
    for name in state.keys() & tensors.keys():
        given, expected = tuple(tensors[name].shape), tuple(state[name].shape)
        if given != expected:
            yield f"{name}: {given} in the checkpoint, {expected} in this model"


def _tie_differences(here: dict[str, str], there: dict[str, str]) -> Iterable[str]:
    for name in here.keys() - there.keys():
        yield f"{name}: tied to {here[name]} in this model, not in the checkpoint"
    for name in there.keys() - here.keys():
        yield f"{name}: tied to {there[name]} in the checkpoint, not in this model"
