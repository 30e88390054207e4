"""bench.json: one row a variant, with every figure that follows from its times."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sdrop.benchmark.timing import Times, spread
from sdrop.benchmark.work import Work
from sdrop.training.atomic import write_atomically

NOISY = 0.05
"""A run is called noisy where the quartiles of the baseline's own times lie further apart than
this share of their median."""


@dataclass(frozen=True)
class Setting:
    """What the candidates run on."""

    threads: int = 1
    device: str = "cpu"
    dtype: str = "float32"
    backend: str = "auto"


@dataclass(frozen=True)
class Row:
    """One variant against one baseline; the fields are the keys of bench.json.

    Attributes:
        suite, shape, phase, variant, baseline: what was compared.
        threads, device, dtype, backend: on what.
        milliseconds, baseline_milliseconds: medians over the rounds.
        ratio, ratio_min, ratio_max: median, least and greatest over the rounds of baseline time /
            variant time.
        ratio_same_tail: the same over the stock layers with sdrop's loss, clipping and optimizer.
        flop_limit: the ratio that arithmetic allows; None where the work is not known.
        fraction_of_limit: ratio / flop_limit. It passes 1 where the variant runs nearer the
            processor's peak than the baseline does.
        gflops, baseline_gflops: GFLOP/s of live work, and of the baseline's dense work.
        fraction_of_peak: gflops over the fastest dense `torch.mm` found in this run.
        rounds: how many.
        baseline_spread: the distance between the quartiles of the baseline's times / their median.
        noisy: whether that is above `NOISY`.
        milliseconds_by_round, baseline_milliseconds_by_round: the times themselves.
        megabytes, baseline_megabytes: peak memory, in the memory suite alone.
        machine: what it was measured on, in words.
    """

    suite: str
    shape: str
    phase: str
    variant: str
    baseline: str
    threads: int
    device: str
    dtype: str
    backend: str
    ratio: float
    ratio_min: float
    ratio_max: float
    rounds: int
    milliseconds: float | None = None
    baseline_milliseconds: float | None = None
    ratio_same_tail: float | None = None
    flop_limit: float | None = None
    fraction_of_limit: float | None = None
    gflops: float | None = None
    baseline_gflops: float | None = None
    fraction_of_peak: float | None = None
    baseline_spread: float = 0.0
    noisy: bool = False
    milliseconds_by_round: list[float] = dataclasses.field(default_factory=list)
    baseline_milliseconds_by_round: list[float] = dataclasses.field(default_factory=list)
    megabytes: float | None = None
    baseline_megabytes: float | None = None
    machine: str = ""


@dataclass(frozen=True)
class Pair:
    """Which two candidates make a row.

    Attributes:
        variant, baseline: their names in the times and in the row.
        work: of one call, where it is known.
        phase: what part of training they are.
        same_tail: a second baseline, for `ratio_same_tail`.
        name: of the variant in the row, where it is not `variant`.
        baseline_name: likewise.
        shape: in the row, where it is not the comparison's.
    """

    variant: str
    baseline: str
    work: Work | None = None
    phase: str = "total"
    same_tail: str | None = None
    name: str | None = None
    baseline_name: str | None = None
    shape: str | None = None


def make_row(
    suite: str,
    shape: str,
    pair: Pair,
    times: Times,
    setting: Setting,
    *,
    peak: float | None = None,
    machine: str = "",
) -> Row:
    """The row of `pair`.

    Args:
        times: of all candidates.
        peak: GFLOP/s of the machine.
    """
    own, other = times[pair.variant], times[pair.baseline]
    ratios = _ratios(other, own)
    tail = None if pair.same_tail is None else _ratios(times[pair.same_tail], own)
    ratio, milliseconds = statistics.median(ratios), statistics.median(own)
    row = Row(
        suite=suite,
        shape=pair.shape or shape,
        phase=pair.phase,
        variant=pair.name or pair.variant,
        baseline=pair.baseline_name or pair.baseline,
        **dataclasses.asdict(setting),
        ratio=ratio,
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        rounds=len(ratios),
        milliseconds=milliseconds,
        baseline_milliseconds=statistics.median(other),
        ratio_same_tail=None if tail is None else statistics.median(tail),
        baseline_spread=spread(other),
        noisy=spread(other) > NOISY,
        milliseconds_by_round=own,
        baseline_milliseconds_by_round=other,
        machine=machine,
    )
    return row if pair.work is None else _with_work(row, pair.work, peak)


def _with_work(row: Row, work: Work, peak: float | None) -> Row:
    assert row.milliseconds is not None
    assert row.baseline_milliseconds is not None
    gflops = work.live / row.milliseconds / 1e6
    return dataclasses.replace(
        row,
        flop_limit=work.limit,
        fraction_of_limit=row.ratio / work.limit,
        gflops=gflops,
        baseline_gflops=work.dense / row.baseline_milliseconds / 1e6,
        fraction_of_peak=None if peak is None else gflops / peak,
    )


def _ratios(other: list[float], own: list[float]) -> list[float]:
    return [a / b for a, b in zip(other, own, strict=True)]


def write_rows(rows: Sequence[Row], file: Path) -> None:
    """Writes bench.json, whole or not at all."""
    listed = [dataclasses.asdict(row) for row in rows]
    write_atomically(file, json.dumps(listed, indent=1) + "\n")


def read_rows(file: Path) -> list[Row]:
    """Reads a bench.json.

    Raises:
        ValueError: where the file cannot be read as one, with what is wrong.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return [Row(**each) for each in found]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError) as error:
        raise ValueError(f"{file}: cannot be read as a bench.json ({error})") from error
