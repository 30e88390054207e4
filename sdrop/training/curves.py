"""curves.png: the training loss and the validation metric over the steps."""

from __future__ import annotations

import io
from pathlib import Path

from sdrop.training.atomic import write_atomically
from sdrop.training.metric import Metric
from sdrop.training.metrics import Report, read_metrics


def draw_curves(metrics: Path, picture: Path, metric: Metric) -> None:
    """Draws what is in a `metrics.jsonl`, two panels side by side.

    Args:
        metrics: the file to read.
        picture: the PNG to write, whole or not at all.
        metric: what the right panel shows.
    """
    # Figure and not pyplot: no window, no global state, the user's backend stays as it is.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    reports = read_metrics(metrics)
    figure = Figure(figsize=(10, 4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for axes, split, name in ((left, "train", "loss"), (right, "valid", metric.name)):
        steps, values = _series(reports, split, name)
        axes.plot(steps, values, marker="o" if len(steps) < 100 else "", markersize=3)
        axes.set(xlabel="step", ylabel=name, title=_title(split, name, values, metric))
        axes.grid(alpha=0.3)
    content = io.BytesIO()
    figure.savefig(content, format="png")
    write_atomically(picture, content.getvalue())


def _series(reports: list[Report], split: str, name: str) -> tuple[list[int], list[float]]:
    points = [
        (report["step"], report[name])
        for report in reports
        if report["split"] == split and report.get(name) is not None
    ]
    return [step for step, _ in points], [value for _, value in points]


def _title(split: str, name: str, values: list[float], metric: Metric) -> str:
    if split == "train":
        return "training loss (nats a token)"
    best = metric.best(values)
    return f"validation {name}" + ("" if best is None else f", best {values[best]:.2f}")
