"""Where the key of a forward call comes from: the default generator, or `sdrop.mask_key`.

No module holds mask state. In training each forward call draws one key, a 0-dim int64 tensor, so
`torch.manual_seed`, `torch.random.fork_rng` and activation recomputation act on sdrop as on
`torch.nn.Dropout`. Inside `sdrop.mask_key` the key is a function of what the caller gave and of
the module's qualified name instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from sdrop.ops.philox import philox, split_key
from sdrop.pattern import DropoutPattern

Model = TypeVar("Model", bound=nn.Module)

_WRAPPER_NAMES = ("module", "_orig_mod", "_forward_module", "_original_module")


class SiteModule(nn.Module):
    """Base of the modules that drop: they know the name that `name_sites` gave them."""

    _site_name: str | None = None
    _site_salt: int = 0


class _Active:
    """The contexts in force. One a process and not one a thread: autograd runs the recomputation
    of a checkpointed block in a thread of its own, which must see the same key."""

    key: Tensor | None = None
    sequence: _Sequence | None = None


_active = _Active()


class _Sequence:
    """Calls of each stepwise module since `sequence()` was entered, and its constant key."""

    def __init__(self) -> None:
        self.calls: dict[int, int] = {}
        self.keys: dict[int, Tensor] = {}


def _signed(word: int) -> int:
    """A 64-bit word as the int64 with the same bits."""
    return word - 2**64 if word >= 2**63 else word


@contextmanager
def mask_key(seed: int, step: int, *, rank: int = 0) -> Iterator[None]:
    """Makes every mask drawn inside a function of (seed, step, rank, module name, site, t).

    The same arguments give the same masks: eager or compiled, on any device, in any order of
    calls, before or after a resume. `sdrop.name_sites(model)` must have named the modules. Keep
    the backward pass inside too where activations are recomputed in it.

    It holds for the whole process, not for one thread, and does not nest: the inner one counts.

    Args:
        seed: any integer of 64 bits, the run's.
        step: the training step, in [0, 2**64); the micro-step where gradients are accumulated.
        rank: the data-parallel rank; leave it at 0 to draw the same masks on all of them.

    Raises:
        TypeError: where an argument is not an integer.
        ValueError: where `step` or `rank` is negative.
    """
    for name, value in (("seed", seed), ("step", step), ("rank", rank)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"mask_key({name}={value!r}): expected an integer")
        if value < 0 and name != "seed":
            raise ValueError(f"mask_key({name}={value}): expected an integer >= 0")
    low, high, *_ = philox((*split_key(step), rank, 0), split_key(seed))
    outer, _active.key = _active.key, torch.tensor(_signed(high << 32 | low))
    try:
        yield
    finally:
        _active.key = outer


@contextmanager
def sequence() -> Iterator[None]:
    """Tells modules that are called step by step which calls belong to one sequence.

    Inside, `sdrop.LSTMCell` and a stepwise `sdrop.Linear` or `sdrop.Dropout` (2-D input) count
    their calls: the n-th is step t = n - 1. A pattern with `time="constant"` keeps its mask until
    the context ends. To recompute activations, enter it inside the recomputed function.
    """
    outer, _active.sequence = _active.sequence, _Sequence()
    try:
        yield
    finally:
        _active.sequence = outer


def name_sites(model: Model) -> Model:
    """Gives each sdrop module in `model` its qualified name, which `mask_key` folds into the key.

    Call it once, before the model is wrapped or compiled; it may be called again after modules
    were added. A name that wrappers put in front (`module.`, `_orig_mod.`) is left out.

    Returns:
        `model` itself.

    Raises:
        ValueError: where two modules would get the same name.
    """
    named: dict[str, str] = {}
    for name, module in model.named_modules():
        if isinstance(module, SiteModule):
            plain = ".".join(part for part in name.split(".") if part not in _WRAPPER_NAMES)
            if plain in named:
                raise ValueError(
                    f"name_sites: {named[plain]} and {name} would both be named {plain!r}, and so "
                    "draw the same masks: rename one of them"
                )
            named[plain] = name
            digest = hashlib.blake2b(plain.encode(), digest_size=8).digest()
            module._site_name = plain
            module._site_salt = _signed(int.from_bytes(digest, "little"))
    return model


def call_key(module: SiteModule, device: torch.device) -> Tensor:
    """The key of one forward call of `module`: a 0-dim int64 tensor on `device`.

    Raises:
        RuntimeError: inside `mask_key`, where the module has no name.
    """
    if _active.key is None:
        return torch.randint(-(2**63), 2**63 - 1, (), dtype=torch.int64, device=device)
    if module._site_name is None:
        raise RuntimeError(
            f"{type(module).__name__} has no name to fold into sdrop.mask_key, so its masks could "
            "equal another module's: call sdrop.name_sites(model) once after building the model"
        )
    return _active.key.to(device) ^ module._site_salt


def step_key(
    module: SiteModule, pattern: DropoutPattern, device: torch.device
) -> tuple[Tensor, int]:
    """The key and the position t of one call of a module that is called step by step.

    Raises:
        RuntimeError: for a constant pattern outside `sequence()`, which alone knows how long
            the mask is to stay.
    """
    current = _active.sequence
    if current is None:
        if pattern.time == "constant":
            raise RuntimeError(
                f'{type(module).__name__} with time="constant" is called step by step, outside a '
                "sequence: wrap the loop over time in `with sdrop.sequence():`, so that the mask "
                "stays for that sequence"
            )
        return call_key(module, device), 0
    step = current.calls.get(id(module), 0)
    current.calls[id(module)] = step + 1
    if pattern.time == "varying":
        return call_key(module, device), step
    if id(module) not in current.keys:
        current.keys[id(module)] = call_key(module, device)
    return current.keys[id(module)], 0
