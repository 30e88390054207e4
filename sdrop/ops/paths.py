"""Which path a call takes: one table, read from the top; the first row that fits is taken.

| path | what runs |
|---|---|
| `reference` | PyTorch ops on the kept neurons alone |
| `cpu` | the compiled CPU kernels, in float32 inside |
| `cuda` | the compiled CUDA kernels |
| `torch` | torch's own LSTM or linear layer; the input is dropped in front of it |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch

from sdrop.ops.masks import Mask

Path = Literal["reference", "cpu", "cuda", "torch"]
Op = Literal["layer", "lstm", "linear"]

WIDE_BATCH = 64
MANY_ROWS = 4000
"""From so many sequences, and rows in all, torch's kernel is faster than the compiled one.

Ratios over `torch.nn.LSTM`, forward and backward at p = 0, one thread of a Zen 3 processor (AVX2),
compiled kernel and torch's behind a row-major copy of the weights, which costs less the more rows
share it (T, B, H): 15, 10, 100: 1.05, 0.76; 15, 32, 200: 1.02, 0.87; 35, 20, 650: 1.09, 0.83;
35, 20, 1500: 1.22, 0.93; 25, 64, 500: 0.98, 0.85; 70, 80, 1150: 0.90, 1.06. `python -m
recipes.bench suite=layer variant=[none]` measures what this choice gives; `backend=cpu` is always
the compiled kernel.
"""

FEW_ROWS = 32
"""Below so many rows the copy costs more than the layer itself, by whatever kernel."""


class Call(NamedTuple):
    """What the choice depends on.

    Attributes:
        op: a whole LSTM layer, one direction of it, or a linear layer.
        backend: as the user set it.
        device: "cpu" or "cuda".
        dtype: of the input.
        sizes: the features of x, and of h for an LSTM.
        rows: T * B, or the rows of a packed sequence.
        batch: B.
        input, hidden: what is dropped of x and of h_{t-1}.
        packed: whether sequences end at different steps.
        projection: whether h is projected (`proj_size`).
        compiling: whether `torch.compile` looks on.
        not_cpu, not_cuda: why the compiled kernels cannot take the tensors, None where they can.
    """

    op: Op
    backend: str
    device: str
    dtype: torch.dtype
    sizes: tuple[int, int]
    rows: int
    batch: int
    input: Mask
    hidden: Mask
    packed: bool
    projection: bool
    compiling: bool
    not_cpu: str | None
    not_cuda: str | None


class Row(NamedTuple):
    """A path, when it is taken, and why."""

    path: Path
    when: Callable[[Call], bool]
    why: str


def _may_be_torch(call: Call) -> bool:
    """oneDNN's LSTM has no dropout in the recurrence and no projection; `torch.compile` cannot look
    into it, and cuDNN wants weights of a layout of its own."""
    return (
        call.op == "layer"
        and call.device == "cpu"
        and call.hidden.is_all
        and call.rows >= FEW_ROWS
        and not call.projection
        and not call.compiling
    )


def _is_wide(call: Call) -> bool:
    """Half precision may be emulated there, twenty times as slow."""
    return call.batch >= WIDE_BATCH and call.rows >= MANY_ROWS and call.dtype == torch.float32


TABLE = (
    Row("reference", lambda c: c.backend == "reference", 'backend="reference" was asked for'),
    Row("cpu", lambda c: c.backend == "cpu", 'backend="cpu" was asked for'),
    Row("cuda", lambda c: c.backend == "cuda", 'backend="cuda" was asked for'),
    Row("cuda", lambda c: c.not_cuda is None and c.device == "cuda", "the tensors are on a GPU"),
    Row(
        "torch",
        lambda c: _may_be_torch(c) and c.not_cpu is not None,
        "nothing is dropped in the recurrence, and the alternative is a loop of PyTorch ops: ",
    ),
    Row(
        "torch",
        lambda c: _may_be_torch(c) and _is_wide(c) and not c.packed and not skips(c.input),
        f"nothing can be skipped, and from B = {WIDE_BATCH} and {MANY_ROWS} rows on torch is "
        "faster",
    ),
    Row("cpu", lambda c: c.not_cpu is None, "the compiled CPU kernels take it"),
    Row("reference", lambda _: True, ""),
)


def choose(call: Call) -> Row:
    """The first row of the table that fits, its reason completed by what was missing.

    Raises:
        RuntimeError: where a backend was asked for that cannot take the call.
    """
    row = next(row for row in TABLE if row.when(call))
    if row.path == call.backend and (against := _against(row.path, call)) is not None:
        raise RuntimeError(f'backend="{row.path}": {against}; use backend="auto"')
    if row.why == "" or row.why.endswith(": "):
        missing = call.not_cuda if call.device == "cuda" else call.not_cpu
        return row._replace(why=f"{row.why}{missing}")
    return row


def _against(path: str, call: Call) -> str | None:
    return {"cpu": call.not_cpu, "cuda": call.not_cuda}.get(path)


def skips(mask: Mask) -> bool:
    """Whether the whole batch drops the same neurons, which the compiled kernels leave out."""
    return mask.kept is not None or (mask.mask is not None and mask.mask.shape[1] == 1)
