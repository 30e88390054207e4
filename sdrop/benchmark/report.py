"""Rows for people: tables on the screen, a picture, the README's table."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from sdrop.benchmark.rows import NOISY, Row
from sdrop.benchmark.scaling import picoseconds_a_multiply_add
from sdrop.training.atomic import write_atomically

_NOTHING = "-"


def table(rows: Sequence[Row], about: str = "", clock: str = "") -> Table:
    """The rows of one comparison; each baseline stands above the variants that it is for."""
    first = rows[0]
    threads = f"{first.threads} thread{'s' if first.threads > 1 else ''}"
    on = (first.device, threads, first.dtype, clock)
    title = f"{first.suite} {about}\n{', '.join(filter(None, on))}"
    if first.suite == "memory":
        return _memory_table(rows, title)
    if first.suite == "scaling":
        return _scaling_table(rows, title)
    return _ratio_table(rows, title)


def _ratio_table(rows: Sequence[Row], title: str) -> Table:
    tails = any(row.ratio_same_tail is not None for row in rows)
    names = ["", "ms", "ratio", "from-to", "limit", "of\nlimit", "of\npeak"]
    names += ["same\ntail"] if tails else []
    made = _empty(title, names)
    for (phase, baseline), group in _grouped(rows):
        phase_name = "" if phase == "total" else f" {phase}"
        made.add_row(f"{baseline}{phase_name}", _figure(group[0].baseline_milliseconds, 4))
        for row in group:
            cells = [
                f"  {row.variant}",
                _figure(row.milliseconds, 4),
                f"{row.ratio:.2f}",
                f"{row.ratio_min:.2f}-{row.ratio_max:.2f}",
                _fixed(row.flop_limit),
                _percent(row.fraction_of_limit),
                _percent(row.fraction_of_peak),
            ]
            made.add_row(*cells, *([_fixed(row.ratio_same_tail)] if tails else []))
        made.add_section()
    return made


def _scaling_table(rows: Sequence[Row], title: str) -> Table:
    made = _empty(title, ["", "ms", "ps a live\nmultiply-add", "ms if\nlinear", "of\nlinear"])
    for row in rows:
        assert row.baseline_milliseconds is not None
        assert row.flop_limit is not None
        linear = row.baseline_milliseconds / row.flop_limit
        cells = (row.milliseconds, picoseconds_a_multiply_add(row), linear)
        share = _percent(row.fraction_of_limit)
        made.add_row(row.shape, *(_figure(each, 4) for each in cells), share)
    return made


def _memory_table(rows: Sequence[Row], title: str) -> Table:
    made = _empty(title, ["", "peak MB", "ratio"])
    for (_, baseline), group in _grouped(rows):
        made.add_row(baseline, _figure(group[0].baseline_megabytes, 4))
        for row in group:
            made.add_row(f"  {row.variant}", _figure(row.megabytes, 4), f"{row.ratio:.2f}")
        made.add_section()
    return made


def _empty(title: str, names: Sequence[str]) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.show_edge = made.pad_edge = False
    made.add_column(names[0], overflow="fold")
    for name in names[1:]:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def _grouped(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    def key(row: Row) -> tuple[str, str]:
        return row.phase, row.baseline

    order = {each: place for place, each in enumerate(dict.fromkeys(map(key, rows)))}
    ordered = sorted(rows, key=lambda row: order[key(row)])
    for name, group in itertools.groupby(ordered, key):
        yield name, list(group)


def noise(rows: Sequence[Row]) -> str | None:
    """What is to be said of a run whose baseline was not steady; None of a steady one."""
    worst = max(rows, key=lambda row: row.baseline_spread, default=None)
    if worst is None or not worst.noisy:
        return None
    return (
        f"noisy: half of the times of {worst.baseline} ({worst.shape}) spread over "
        f"{worst.baseline_spread:.0%} of their median, more than {NOISY:.0%}. Close other "
        "programs, or give it more rounds."
    )


def draw_rows(rows: Sequence[Row], picture: Path) -> None:
    """bench.png: a bar for each ratio with its least and greatest, and a mark at its FLOP limit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [
        " ".join(part for part in (row.suite, row.shape, _phase(row), row.variant) if part)
        + (f", {row.threads} threads" if row.threads > 1 else "")
        + (f", {row.dtype}" if row.dtype != "float32" else "")
        + (" over float32" if row.baseline.endswith("float32") else "")
        for row in rows
    ]
    figure = Figure(figsize=(9, 1.5 + 0.25 * len(rows)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    places = range(len(rows))
    ratios = [row.ratio for row in rows]
    errors = (
        [row.ratio - row.ratio_min for row in rows],
        [row.ratio_max - row.ratio for row in rows],
    )
    axes.barh(places, ratios, xerr=errors, color="#4c78a8", ecolor="#888888")
    limits = [(row.flop_limit, place) for place, row in enumerate(rows) if row.flop_limit]
    axes.plot(*zip(*limits, strict=True), "k|", markersize=12, label="FLOP limit") if limits else ()
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(places, names, fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="baseline / variant", title=rows[0].machine)
    axes.title.set_fontsize(7)
    if limits:
        axes.legend()
    content = io.BytesIO()
    figure.savefig(content, format="png")
    write_atomically(picture, content.getvalue())


def _phase(row: Row) -> str:
    return "" if row.phase == "total" else row.phase


def _figure(value: float | None, digits: int) -> str:
    """A number with so many digits, and no more decimals than that takes."""
    if value is None:
        return _NOTHING
    decimals = max(0, digits - len(str(int(value))))
    return f"{value:.{min(decimals, 3)}f}"


def _fixed(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.0%}"
