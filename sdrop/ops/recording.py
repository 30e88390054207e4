"""Hears which path each call takes, for `sdrop.explain`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import nn

from sdrop.ops.masks import Mask
from sdrop.ops.paths import Call, Row


class Recorder(Protocol):
    """Is told of every module that is called, and of every choice inside it."""

    def enter(self, module: nn.Module) -> None: ...

    def add(self, call: Call, row: Row, input: Mask, hidden: tuple[Mask, ...]) -> None: ...

    def add_plain(self, why: str) -> None: ...


active: Recorder | None = None
"""Who hears; None nearly always."""


def entered(module: nn.Module, plain: str | None = None) -> None:
    """A module is called.

    Args:
        module: which.
        plain: why it takes torch's own op without asking for a path, where it does.
    """
    if active is not None and not torch.compiler.is_compiling():
        active.enter(module)
        if plain is not None:
            active.add_plain(plain)


@contextmanager
def recorded_by(recorder: Recorder) -> Iterator[None]:
    """Tells `recorder` of the choices inside."""
    global active
    outer, active = active, recorder
    try:
        yield
    finally:
        active = outer
