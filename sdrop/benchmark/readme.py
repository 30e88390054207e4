"""The speed tables of the README and of docs/benchmark.md, written from a stored bench.json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sdrop.benchmark.rows import NOISY, Row
from sdrop.benchmark.variants import VARIANTS
from sdrop.training.atomic import write_atomically

BEGIN, END = "<!-- bench: begin", "<!-- bench: end -->"
_MARKED = re.compile(rf"^{BEGIN}([^\n>]*) -->\n(.*?)^{END}$", re.MULTILINE | re.DOTALL)
_CHOICES = ("suite", "shape", "threads", "dtype")
_SUITES = ("layer", "step")
Key = tuple[str, str, int, str, str]


def update_readme(readme: Path, rows: Sequence[Row]) -> None:
    """Replaces what stands between the two markers.

    The first one may say which rows its file wants, by suite, shape, threads and dtype:
    `<!-- bench: begin threads=1,2 dtype=float32 -->`.

    Raises:
        ValueError: where the markers are not there once each, in this order, the first one says
            something else, or no row of the suites `layer` and `step` is wanted.
    """
    text = readme.read_text(encoding="utf-8")
    marked = _MARKED.search(text)
    markers = re.findall(rf"^(?:{BEGIN}.*|{END})$", text, re.MULTILINE)
    if marked is None or len(markers) != 2:
        raise ValueError(f"{readme}: expected {BEGIN} --> and then {END}, each on a line and once")
    wanted = _read_choice(marked[1].strip(), readme)
    chosen = [row for row in rows if all(str(getattr(row, k)) in v for k, v in wanted.items())]
    content = "\n".join(speed_table(chosen)) + "\n"
    write_atomically(readme, f"{text[: marked.start(2)]}{content}{text[marked.end(2) :]}")


def _read_choice(choice: str, readme: Path) -> dict[str, list[str]]:
    """`threads=1,2 dtype=float32` as what a row may have of each."""
    parts = [part.partition("=") for part in choice.split()]
    if any(name not in _CHOICES or not values for name, _, values in parts):
        raise ValueError(
            f"{readme}: expected name=value,value with names of {', '.join(_CHOICES)} "
            f"in {BEGIN} ... -->, got {choice!r}"
        )
    return {name: values.split(",") for name, _, values in parts}


def speed_table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines: for each machine where it was measured, and a table with a line a shape.

    Raises:
        ValueError: where there is no row of the suites `layer` and `step`.
    """
    shown = [row for row in rows if row.suite in _SUITES and row.variant in VARIANTS]
    if not shown:
        raise ValueError(
            "a bench.json without a row of the suites layer and step that is asked for has no table"
        )
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
