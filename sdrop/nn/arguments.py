"""What the modules accept, and what they say of anything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from sdrop.nn.autocast import MIXABLE, autocast_dtype
from sdrop.pattern import DropoutPattern


def check_pattern(module: str, pattern: object) -> DropoutPattern:
    """Returns `pattern`, the default one for None.

    Raises:
        TypeError: for anything but a `DropoutPattern`.
    """
    if pattern is None:
        return DropoutPattern()
    if not isinstance(pattern, DropoutPattern):
        raise TypeError(
            f"{module}: expected pattern to be a sdrop.DropoutPattern, got {pattern!r}; "
            'write DropoutPattern(space="structured", time="varying"), say'
        )
    return pattern


def check_size(module: str, name: str, size: object, at_least: int = 0) -> None:
    """Raises TypeError where `size` is no integer, and ValueError where it is too small."""
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{module}: expected {name} to be an integer, got {size!r}")
    if size < at_least:
        raise ValueError(f"{module}: expected {name} to be at least {at_least}, got {size}")


@contextmanager
def telling_what_was_given(module: str, **given: object) -> Iterator[None]:
    """Puts the arguments in front of an error of torch's own, which does not repeat them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        call = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise type(error)(f"{module}({call}): {error}") from None


def check_like_weight(module: str, what: str, data: Tensor, weight: Tensor) -> None:
    """Raises where `data` is on another device (RuntimeError) or of a dtype (ValueError) that
    does not go with `weight`; under autocast float32, bfloat16 and float16 go together."""
    if data.device != weight.device:
        raise RuntimeError(
            f"{module}: {what} is on {data.device}, the weights on {weight.device}: move one of "
            "them"
        )
    mixed = data.dtype in MIXABLE and weight.dtype in MIXABLE
    if data.dtype != weight.dtype and not (mixed and autocast_dtype(data.device) is not None):
        raise ValueError(
            f"{module}: {what} is {data.dtype}, the weights are {weight.dtype}: convert one of "
            "them" + (", or use torch.autocast" if mixed else "")
        )


def check_state_kind(module: str, hx: object, names: tuple[str, str]) -> None:
    """Raises TypeError where `hx` is not a pair of tensors."""
    pair = ", ".join(names)
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        length = f" of {len(hx)}" if isinstance(hx, (tuple, list)) else ""
        raise TypeError(
            f"{module}: expected hx to be a tuple ({pair}), got {type(hx).__name__}{length}"
        )
    for name, state in zip(names, hx, strict=True):
        if not isinstance(state, Tensor):
            raise TypeError(
                f"{module}: expected {name} of hx=({pair}) to be a tensor, got "
                f"{type(state).__name__}"
            )


def check_packed(module: str, packed: PackedSequence) -> None:
    """Checks that the rows are those that `batch_sizes` tells of, which only a `PackedSequence`
    made by hand gets wrong.

    Raises:
        RuntimeError: where they are not, or where there is no step.
    """
    shape = tuple(packed.data.shape)
    if len(shape) != 2:
        raise RuntimeError(
            f"{module}: expected packed data of 2 dimensions (rows, features), got {shape}"
        )
    if packed.batch_sizes.numel() == 0:
        raise RuntimeError(f"{module}: expected at least one step, got empty batch_sizes")
    if torch.compiler.is_compiling():
        return  # the values are not known there
    sizes: list[int] = packed.batch_sizes.tolist()
    shrinking = all(earlier >= later for earlier, later in pairwise(sizes))
    if sum(sizes) != shape[0] or not shrinking:
        raise RuntimeError(
            f"{module}: expected batch_sizes that do not grow and add up to the {shape[0]} rows of "
            f"the packed data, got {sizes}; build it by torch.nn.utils.rnn.pack_padded_sequence"
        )


def check_target(what: str, target: object, shape: torch.Size, device: torch.device) -> None:
    """Raises where `target` is not an int64 tensor of `shape` on `device`."""
    if not isinstance(target, Tensor):
        raise TypeError(f"{what}: expected a tensor of class ids, got {type(target).__name__}")
    if target.dtype != torch.int64:
        raise ValueError(
            f"{what}: expected class ids of torch.int64, got {target.dtype}: use target.long()"
        )
    if target.shape != shape:
        raise RuntimeError(
            f"{what}: expected a target of shape {tuple(shape)}, one class an output, got "
            f"{tuple(target.shape)}"
        )
    if target.device != device:
        raise RuntimeError(
            f"{what}: the target is on {target.device}, the input on {device}: move one of them"
        )
