"""The bench suites against cuDNN, with a CUDA graph on both sides."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gpu_check.graphs import captured, graph_clock
from sdrop.benchmark.comparison import Comparison, as_they_are
from sdrop.benchmark.gemm import gemm_comparison
from sdrop.benchmark.layer import layer_comparison
from sdrop.benchmark.rows import Row, Setting
from sdrop.benchmark.shapes import Shape, parse_shape
from sdrop.benchmark.step import step_comparison
from sdrop.benchmark.timing import Candidate, Times, clock_for

SUITES = {"step": step_comparison, "layer": layer_comparison, "gemm": gemm_comparison}
SHAPES = ("ptb_medium", "ptb_large", "iwslt", "awd")
VARIANTS = ("none", "structured_nr", "structured", "structured_constant")


@dataclass(frozen=True)
class Precision:
    """What is computed in.

    Attributes:
        name: in tables; `dtype` of a row.
        dtype: of the tensors.
        tf32: whether float32 products may round their factors to TF32.
    """

    name: str
    dtype: str
    tf32: bool


PRECISIONS = (
    Precision("float32", "float32", tf32=False),
    Precision("tf32", "float32", tf32=True),
    Precision("bfloat16", "bfloat16", tf32=True),
)


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Sets what torch's products, cuDNN and sdrop's kernels round to."""
    before = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    torch.set_float32_matmul_precision("high" if precision.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = precision.tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def measure(
    deadline: float, machine: str, say: Callable[[str], None], *, suites: Sequence[str] = ()
) -> list[Row]:
    """All suites in all precisions, the most telling ones first, until the time is over.

    Args:
        deadline: by `time.perf_counter`.
        machine: in words, for the rows.
        say: is told of what is left out, and why.
        suites: their names; default all.
    """
    wanted = [
        (suite, shape, precision)
        for suite in suites or SUITES
        for precision in PRECISIONS
        for shape in SHAPES
    ]
    rows: list[Row] = []
    for done, (suite, name, precision) in enumerate(wanted):
        left = deadline - time.perf_counter()
        if left <= 0:
            say(f"no time for {len(wanted) - done} of {len(wanted)} comparisons, from {suite} on")
            break
        share = left / (len(wanted) - done)
        setting = Setting(device="cuda", dtype=precision.dtype)
        with computing_in(precision):
            try:
                rows += _measure(suite, parse_shape(name), precision, setting, share, machine, say)
            except RuntimeError as error:
                say(f"{suite} {name} {precision.name}: failed ({str(error).splitlines()[0]})")
    return rows


def _measure(
    suite: str,
    shape: Shape,
    precision: Precision,
    setting: Setting,
    seconds: float,
    machine: str,
    say: Callable[[str], None],
) -> list[Row]:
    comparison = SUITES[suite](shape, VARIANTS, setting)
    if comparison is None:
        return []
    clock = graph_clock()
    try:
        comparison = as_graphs(comparison)
    except RuntimeError as error:
        torch.cuda.synchronize()
        clock, said = clock_for("cuda", 1), str(error).splitlines()[0]
        say(f"{suite} {shape.name} {precision.name}: timed WITHOUT graphs ({said})")
        machine += ", without CUDA graphs"
    rows = comparison.measure(setting, clock, seconds=seconds, machine=machine)
    return [dataclasses.replace(row, dtype=precision.name) for row in rows]


def as_graphs(comparison: Comparison) -> Comparison:
    """The same comparison with every candidate as a graph.

    Raises:
        RuntimeError: where one of them cannot be captured.
    """
    if comparison.suite == "gemm":
        return _gemm_as_graphs(comparison)
    candidates = {name: captured(each) for name, each in comparison.candidates.items()}
    return dataclasses.replace(comparison, candidates=candidates)


def _gemm_as_graphs(comparison: Comparison) -> Comparison:
    """A backward pass is captured with the forward pass in front of it, whose time is then taken
    off: what the forward pass saves lives in the graph's memory."""
    candidates: dict[str, Candidate] = {}
    behind: dict[str, str] = {}
    for name, each in comparison.candidates.items():
        variant, phase = name.rsplit(" ", 1)
        has_forward = phase.startswith("backward") and f"{variant} forward" in candidates
        if has_forward and variant in VARIANTS:
            behind[name] = f"{variant} forward"
        candidates[name] = captured(each, with_prepare=name in behind)

    def derived(times: Times) -> Times:
        alone = {
            name: [
                max(both - first, 0.01 * both) for both, first in zip(own, times[of], strict=True)
            ]
            for name, of in behind.items()
            for own in [times[name]]
        }
        return (comparison.derived or as_they_are)(times | alone)

    return dataclasses.replace(comparison, candidates=candidates, derived=derived)


def _less(both: list[float], first: list[float]) -> list[float]:
    """Round by round; noise could make a difference negative."""
    return [max(b - f, 0.01 * b) for b, f in zip(both, first, strict=True)]


def table(rows: Sequence[Row]) -> str:
    """A line a row, for people."""
    head = ("suite", "shape", "phase", "in", "variant", "ms", "over", "ms", "ratio", "from-to")
    head += ("limit", "same tail")
    lines = [head]
    for row in rows:
        lines.append(
            (
                row.suite,
                row.shape,
                row.phase,
                row.dtype,
                row.variant,
                _number(row.milliseconds, 3),
                row.baseline,
                _number(row.baseline_milliseconds, 3),
                f"{row.ratio:.2f}",
                f"{row.ratio_min:.2f}-{row.ratio_max:.2f}",
                _number(row.flop_limit, 2),
                _number(row.ratio_same_tail, 2),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
