"""Suite `scaling`: does a training step's time grow with its live work, and with nothing else?

One step is timed at a shape and with its T, B, H and keep fraction changed one at a time. The
baseline is the same step at the shape itself, and the FLOP limit is the ratio of their live work:
`fraction_of_limit` is 1 where time is linear in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from sdrop.benchmark.comparison import Comparison
from sdrop.benchmark.rows import Pair, Row, Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.step import sdrop_step
from sdrop.benchmark.variants import VARIANTS
from sdrop.benchmark.work import Work, step_work

_FACTORS = (0.25, 0.5, 2.0)
_RATES = (0.25, 0.75)
_PICOSECONDS_A_MULTIPLY_ADD = 2000.0  # at 1 GFLOP/s, two FLOP each


def scaling_comparison(
    shape: Shape, variants: Sequence[str], setting: Setting
) -> Comparison | None:
    """The first variant asked for that drops in the recurrence; None where none does."""
    chosen = [VARIANTS[name] for name in variants if name in VARIANTS and VARIANTS[name].recurrent]
    if not shape.training or not chosen:
        return None
    variant = chosen[0]
    base, base_work = _written(shape), step_work(shape, variant.rates(shape)).live
    candidates = {base: sdrop_step(shape, variant, setting)}
    pairs = [Pair(base, base, Work(base_work, base_work), name=variant.name, shape=base)]
    for other in _grown(shape):
        name, live = _written(other), step_work(other, variant.rates(other)).live
        candidates[name] = sdrop_step(other, variant, setting)
        pairs.append(Pair(name, base, Work(base_work, live), name=variant.name, shape=name))
    about = f"{shape.described}, one change at a time"
    return Comparison("scaling", shape.name, about, candidates, pairs)


def picoseconds_a_multiply_add(row: Row) -> float | None:
    """How long one live multiply-add takes."""
    return None if row.gflops is None else _PICOSECONDS_A_MULTIPLY_ADD / row.gflops


def _grown(shape: Shape) -> Iterator[Shape]:
    for factor in _FACTORS:
        yield dataclasses.replace(shape, steps=_times(shape.steps, factor))
    for factor in _FACTORS:
        yield dataclasses.replace(shape, batch=_times(shape.batch, factor))
    for factor in _FACTORS:
        inputs, hidden = (_times(n, factor) for n in (shape.input_size, shape.hidden_size))
        yield dataclasses.replace(shape, input_size=inputs, hidden_size=hidden)
    for rate in _RATES:
        if rate != shape.rate:
            yield dataclasses.replace(shape, rate=rate)


def _times(size: int, factor: float) -> int:
    return max(1, int(size * factor + 0.5))


def _written(shape: Shape) -> str:
    return f"T{shape.steps}-B{shape.batch}-H{shape.hidden_size}-p{shape.rate:g}"
