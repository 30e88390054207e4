"""Which path a call takes: one table, read from the top; the first row that fits is taken.

| path | what runs |
|---|---|
| `reference` | PyTorch ops on the kept neurons alone |
| `cpu` | the compiled CPU kernels |
| `cuda` | the compiled CUDA kernels |
| `torch` | torch's own LSTM or linear layer; the input is dropped in front of it |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch

from sdrop.ops.masks import Mask

Path = Literal["reference", "cpu", "cuda", "torch"]
Op = Literal["layer", "lstm", "linear"]
Dropped = Literal["nothing", "neurons", "elements"]
"""Of a site: neurons of the whole batch, which can be skipped, or each sequence's own."""

WIDE_BATCH = 64
MANY_ROWS = 4000
"""From so many sequences, and rows in all, torch's kernel is faster than the compiled one.

Ratios over `torch.nn.LSTM`, forward and backward at p = 0, one thread of a Zen 3 processor (AVX2),
compiled kernel and torch's behind a row-major copy of the weights, which costs less the more rows
share it (T, B, H): 15, 10, 100: 1.05, 0.76; 15, 32, 200: 1.02, 0.87; 35, 20, 650: 1.09, 0.83;
35, 20, 1500: 1.22, 0.93; 25, 64, 500: 0.98, 0.85; 70, 80, 1150: 0.90, 1.06. `python -m
recipes.bench suite=layer variant=[none]` measures what this choice gives; `backend=cpu` is always
the compiled kernel.

In bfloat16 where the processor has it, on a Zen 4 processor (AVX-512), compiled kernel: 35, 20,
650: 1.8; 35, 20, 1500: 2.1; 25, 64, 500: 1.2; 25, 128, 500: 1.1; 20, 64, 1500: 1.5; 70, 64, 1150:
0.85; 70, 80, 1150: 0.78.
"""

FEW_ROWS = 32
"""Below so many rows the copy costs more than the layer itself, by whatever kernel."""


MIDDLE_SIZES = range(256, 640)
MIDDLE_ROWS = 128
"""Hidden sizes at which torch's kernel, behind a kept copy, is the faster one in evaluation for
more than three sequences, and from how many rows on.

Without gradients the compiled kernel still packs the recurrent weights in each call, torch's has a
row-major copy that is made once, but whether it still holds is looked at in each call. Ratios over
`torch.nn.LSTM` in evaluation, one thread of a Zen 3 processor (AVX2), compiled kernel and torch's
behind a kept copy (T, B, H): 32, 4, 512: 0.81, 0.91; 32, 8, 400: 0.89, 0.94; 32, 16, 300: 0.90,
0.96; 32, 64, 500: 0.98, 1.00; 20, 4, 300: 0.84, 0.84; 32, 4, 650: 0.90, 0.84; 32, 20, 650: 1.09,
0.97; 32, 1, 650: 1.02, 0.87. One to three sequences are 0.95 to 1.2 by the compiled kernel.
"""


class Call(NamedTuple):
    """What the choice depends on.

    Attributes:
        op: a whole LSTM layer, one direction of it, or a linear layer.
        backend: as the user set it.
        device: "cpu" or "cuda".
        dtype: of the input.
        sizes: the features of x, and of h for an LSTM or of the output.
        rows: T * B, or the rows of a packed sequence.
        batch: B.
        input, hidden: what is dropped of x and of h_{t-1}.
        multiplied: whether the processor multiplies numbers of `dtype` without becoming slow.
        gradients: whether they may be wanted.
        packed: whether sequences end at different steps.
        projection: whether h is projected (`proj_size`).
        compiling: whether `torch.compile` looks on.
        transformed: whether `torch.func.grad`, `vmap` or the like does.
        not_cpu, not_cuda: why the compiled kernels cannot take the tensors, None where they can.
    """

    op: Op
    backend: str
    device: str
    dtype: torch.dtype
    sizes: tuple[int, int]
    rows: int
    batch: int
    input: Dropped
    hidden: Dropped
    multiplied: bool
    gradients: bool
    packed: bool
    projection: bool
    compiling: bool
    transformed: bool
    not_cpu: str | None
    not_cuda: str | None


class Row(NamedTuple):
    """A path, when it is taken, and why."""

    path: Path
    when: Callable[[Call], bool]
    why: str


def takes_k_major(dtype: torch.dtype, packed: bool, projection: bool) -> bool:
    """Whether torch computes an LSTM of these by its own GEMMs, which take weights of any layout,
    and not by oneDNN's LSTM, which wants a row-major copy."""
    return dtype == torch.float64 or packed or projection


def multiplies_bfloat16(types: Sequence[torch.dtype], size: int, rows: int) -> bool:
    """Whether the compiled CPU kernels multiply bfloat16 numbers as they are, where the processor
    has that: in pairs, and of few rows they read float32 weights where they are.

    Args:
        types: of input and weights.
        size, rows: as the second of `Call.sizes` and in `Call`.
    """
    return all(t == torch.bfloat16 for t in types) and size % 2 == 0 and rows >= FEW_ROWS


def _may_be_torch(call: Call) -> bool:
    """torch's LSTM has no dropout in the recurrence; `torch.compile`, `torch.func.vmap` and `jvp`
    cannot look into it, and cuDNN wants weights of a layout of its own."""
    return (
        call.op == "layer"
        and call.device == "cpu"
        and call.hidden == "nothing"
        and not call.compiling
        and not call.transformed
        and (call.rows >= FEW_ROWS or takes_k_major(call.dtype, call.packed, call.projection))
    )


def _is_dense(call: Call) -> bool:
    """Half precision is emulated by oneDNN where the processor has it not, twenty times as slow."""
    return (
        _may_be_torch(call)
        and call.input != "neurons"
        and call.dtype != torch.float64
        and call.multiplied
        and not call.packed
        and not call.projection
    )


def _is_wide(call: Call) -> bool:
    return call.batch >= WIDE_BATCH and call.rows >= MANY_ROWS


def _is_middle_sized(call: Call) -> bool:
    middle = call.sizes[1] in MIDDLE_SIZES and call.rows >= MIDDLE_ROWS
    return call.dtype == torch.float32 and not call.gradients and call.batch > 3 and middle


def _has_no_kernel(call: Call) -> bool:
    """Of a projected layer's gradients the reference is the faster one where B is small."""
    return call.not_cpu is not None and not (call.projection and call.gradients)


TABLE = (
    Row("reference", lambda c: c.backend == "reference", 'backend="reference" was asked for'),
    Row("torch", lambda c: c.backend == "torch", 'backend="torch" was asked for'),
    Row("cpu", lambda c: c.backend == "cpu", 'backend="cpu" was asked for'),
    Row("cuda", lambda c: c.backend == "cuda", 'backend="cuda" was asked for'),
    Row("cuda", lambda c: c.not_cuda is None and c.device == "cuda", "the tensors are on a GPU"),
    Row(
        "torch",
        lambda c: _may_be_torch(c) and _has_no_kernel(c),
        "nothing is dropped in the recurrence, and the alternative is a loop of PyTorch ops: ",
    ),
    Row(
        "torch",
        lambda c: _is_dense(c) and _is_wide(c),
        f"nothing can be skipped, and from B = {WIDE_BATCH} and {MANY_ROWS} rows on torch is "
        "faster",
    ),
    Row(
        "torch",
        lambda c: _is_dense(c) and _is_middle_sized(c),
        "nothing can be skipped, and without gradients torch is faster at this batch and size",
    ),
    Row("cpu", lambda c: c.not_cpu is None, "the compiled CPU kernels take it"),
    Row("reference", lambda _: True, ""),
)

_MOST_KNOWN = 4096
_known: dict[Call, Row] = {}


def choose(call: Call) -> Row:
    """The first row of the table that fits, its reason completed by what was missing.

    Raises:
        RuntimeError: where a backend was asked for that cannot take the call.
    """
    if call.compiling:  # sizes may be symbols there
        return _first_that_fits(call)
    row = _known.get(call)
    if row is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        row = _known[call] = _first_that_fits(call)
    return row


def _first_that_fits(call: Call) -> Row:
    row = next(row for row in TABLE if row.when(call))
    if row.path == call.backend and (against := _against(row.path, call)) is not None:
        raise RuntimeError(f'backend="{row.path}": {against}; use backend="auto"')
    if row.path == "cpu" and call.dtype != torch.float32:
        pairs = call.multiplied and multiplies_bfloat16([call.dtype], call.sizes[1], call.rows)
        how = "in pairs of bfloat16 numbers" if pairs else "in float32"
        return row._replace(why=f"{row.why}; they multiply {how}")
    if row.why == "" or row.why.endswith(": "):
        missing = call.not_cuda if call.device == "cuda" else call.not_cpu
        return row._replace(why=f"{row.why}{missing}")
    return row


def _against(path: str, call: Call) -> str | None:
    return {"cpu": call.not_cpu, "cuda": call.not_cuda, "torch": _not_torch(call)}.get(path)


def _not_torch(call: Call) -> str | None:
    if call.op != "layer":
        return None
    if call.hidden != "nothing":
        return "torch's LSTM has no dropout in the recurrence (recurrent_dropout)"
    if call.device != "cpu":
        return "cuDNN wants an LSTM's weights in one piece, which torch.nn.LSTM alone has"
    return "torch.compile cannot look into torch's LSTM" if call.compiling else None


def dropped_of(mask: Mask) -> Dropped:
    """What kind of dropout a mask is, with regard to what can be skipped."""
    if mask.kept is not None:
        return "neurons"
    if mask.mask is None:
        return "nothing"
    return "neurons" if mask.mask.shape[1] == 1 else "elements"
