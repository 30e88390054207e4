"""What a run shows while it goes: a bar on a terminal, a line a validation elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sdrop.training.metric import Metric
from sdrop.training.metrics import Report


class Display(AbstractContextManager["Display"], Protocol):
    """What the trainer tells of."""

    def trained(self, step: int, epoch: int, report: Report | None) -> None:
        """One more step; with the training figures where a report is due."""

    def validated(self, report: Report) -> None:
        """A validation."""

    def note(self, text: str) -> None:
        """Something worth a line."""


class Silent:
    """Shows nothing: for all ranks but the first."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def trained(self, step: int, epoch: int, report: Report | None) -> None:
        return None

    def validated(self, report: Report) -> None:
        return None

    def note(self, text: str) -> None:
        return None


class Lines(Silent):
    """A line a validation, for logs and pipes."""

    def __init__(self, console: Console, metric: Metric, epochs: int) -> None:
        self._console, self._metric, self._epochs = console, metric, epochs
        self._training: Report = {}

    def trained(self, step: int, epoch: int, report: Report | None) -> None:
        self._training = report or self._training

    def validated(self, report: Report) -> None:
        parts = [f"epoch {report['epoch']}/{self._epochs}", f"step {report['step']}"]
        if self._training:
            parts.append(f"loss {self._training['loss']:.4f}")
        parts.append(_figure(self._metric, report))
        if self._training:
            parts.append(f"{self._training['tokens_per_second']:,.0f} tokens/s")
        self.note("  ".join(parts))

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Bar(Lines):
    """A live bar over the whole run with the newest figures and the remaining time."""

    def __init__(self, console: Console, metric: Metric, epochs: int, steps: int) -> None:
        super().__init__(console, metric, epochs)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._progress.add_task("", total=steps, figures="")
        self._figures = {"loss": "", "valid": "", "speed": ""}
        self._step: int | None = None

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def trained(self, step: int, epoch: int, report: Report | None) -> None:
        super().trained(step, epoch, report)
        if report is not None:
            self._figures["loss"] = f"loss {report['loss']:.3f}"
            self._figures["speed"] = f"{report['tokens_per_second']:,.0f} tokens/s"
        if self._step is None:  # steps of an earlier process took no time of this one
            self._progress.reset(self._task, completed=step - 1)
        self._step = step
        self._progress.update(
            self._task,
            completed=step,
            description=f"epoch {epoch}/{self._epochs}",
            figures="  ".join(filter(None, self._figures.values())),
        )

    def validated(self, report: Report) -> None:
        self._figures["valid"] = _figure(self._metric, report)
        super().validated(report)


def open_display(
    metric: Metric, epochs: int, steps: int, *, shown: bool, console: Console | None = None
) -> Display:
    """The display that suits where the output goes.

    Args:
        metric: the run's metric.
        epochs: epochs of the whole run.
        steps: steps of the whole run, as far as is known.
        shown: False for all ranks but the first.
        console: where to print; the standard output by default.
    """
    if not shown:
        return Silent()
    console = console or Console()
    return (
        Bar(console, metric, epochs, steps)
        if console.is_terminal
        else Lines(console, metric, epochs)
    )


def _figure(metric: Metric, report: Report) -> str:
    return f"valid {metric.name} {report[metric.name]:.2f}"
