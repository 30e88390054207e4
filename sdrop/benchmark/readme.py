"""The README's speed table, written from a stored bench.json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sdrop.benchmark.rows import NOISY, Row
from sdrop.benchmark.variants import VARIANTS
from sdrop.training.atomic import write_atomically

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
_SUITES = ("layer", "step")
Key = tuple[str, str, int, str, str]


def update_readme(readme: Path, rows: Sequence[Row]) -> None:
    """Replaces what stands between the two markers.

    Raises:
        ValueError: where the markers are not there once each, in this order, or there is no row
            of the suites `layer` and `step`.
    """
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ValueError(f"{readme}: expected {BEGIN} and then {END}, each on a line and once")
    content = "\n".join(speed_table(rows))
    write_atomically(readme, f"{before}{BEGIN}\n{content}\n{END}{after}")


def speed_table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines: for each machine where it was measured, and a table with a line a shape.

    Raises:
        ValueError: where there is no row of the suites `layer` and `step`.
    """
    shown = [row for row in rows if row.suite in _SUITES and row.variant in VARIANTS]
    if not shown:
        raise ValueError("a bench.json without a row of the suites layer and step has no table")
    variants = [name for name in VARIANTS if any(row.variant == name for row in shown)]
    for machine in dict.fromkeys(_machine(row) for row in shown):
        here = [row for row in shown if _machine(row) == machine]
        yield f"On {machine}:"
        yield ""
        yield f"| what | threads | dtype | stock, ms | {' | '.join(variants)} |"
        yield f"|{'---|' * (4 + len(variants))}"
        for key in dict.fromkeys(_key(row) for row in here):
            yield _line([row for row in here if _key(row) == key], variants)
        yield ""
    yield (
        "A cell is how many times as fast as stock modules a variant is (median of the ratios of "
        "single rounds), and in brackets what the arithmetic left would allow."
    )
    noisiest = max((row.baseline_spread for row in shown if row.noisy), default=None)
    if noisiest is not None:
        yield (
            r"\* noisy: the quartiles of the stock modules' own times lie further apart than "
            f"{NOISY:.0%} of their median, here up to {noisiest:.0%}."
        )


def _machine(row: Row) -> str:
    """Without how many of its cores were used, which is a column."""
    return re.sub(r"^\d+ of (?=\d+ cores)", "", row.machine)


def _key(row: Row) -> Key:
    over = " over float32" if row.baseline.endswith("float32") else ""
    return row.suite, row.shape, row.threads, row.dtype + over, row.device


def _line(rows: Sequence[Row], variants: Sequence[str]) -> str:
    suite, shape, threads, dtype, _ = _key(rows[0])
    cells = {row.variant: f"{row.ratio:.2f} ({row.flop_limit:.2f})" for row in rows}
    milliseconds = rows[-1].baseline_milliseconds
    figures = " | ".join(cells.get(name, "") for name in variants)
    noisy = r"\*" if any(row.noisy for row in rows) else ""
    return f"| {suite} {shape} | {threads} | {dtype} | {milliseconds:.4g}{noisy} | {figures} |"
