"""Turning what happened into reports, and handing these to loggers and display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdrop.evaluation import Evaluation
from sdrop.training.metric import Metric
from sdrop.training.metrics import MetricLogger, Report
from sdrop.training.progress import Display
from sdrop.training.state import TrainerState, Window


@dataclass(frozen=True)
class Reporter:
    """Writes a line of metrics where one is due.

    Args:
        metric: the run's metric.
        loggers: where the lines go; none on ranks other than the first.
        display: what is shown meanwhile.
    """

    metric: Metric
    loggers: Sequence[MetricLogger]
    display: Display

    def trained(
        self, state: TrainerState, learning_rate: float, seconds: float, *, due: bool
    ) -> None:
        """After a step: where due, writes the line of the window and begins the next window.

        Args:
            state: `window` holds what was trained on since the last line.
            learning_rate: of the steps in the window.
            seconds: training time so far.
            due: whether to write the line now.
        """
        report = None
        if due and state.window.tokens:
            report = self._training_report(state, learning_rate, seconds)
            self._write(report, state)
            state.window = Window(seconds=seconds)
        self.display.trained(state.step, state.epoch + 1, report)

    def interrupted(self, state: TrainerState, learning_rate: float, seconds: float) -> None:
        """Writes the line of an unfinished window, to look at.

        It is written after the last checkpoint and not counted in it, so a resumed run removes
        it, and writes the line of the whole window when that is due.
        """
        if state.window.tokens:
            self._log(self._training_report(state, learning_rate, seconds))

    def validated(
        self, state: TrainerState, learning_rate: float, evaluation: Evaluation, seconds: float
    ) -> None:
        """Writes the line of a validation that took so many seconds."""
        report = {
            **_common(state, "valid", evaluation.loss, learning_rate),
            **evaluation.metrics,
            "tokens_per_second": evaluation.tokens / seconds,
        }
        self._write(report, state)
        self.display.validated(report)

    def flush(self) -> None:
        """Makes all lines durable; a checkpoint that counts them comes next."""
        for logger in self.loggers:
            logger.flush()

    def _training_report(self, state: TrainerState, learning_rate: float, seconds: float) -> Report:
        window = state.window
        loss = window.loss / window.tokens
        return {
            **_common(state, "train", loss, learning_rate),
            **self.metric.of_loss(loss),
            "gradient_norm": window.gradient_norm,
            "tokens_per_second": window.tokens / max(seconds - window.seconds, 1e-9),
        }

    def _write(self, report: Report, state: TrainerState) -> None:
        self._log(report)
        state.lines += 1

    def _log(self, report: Report) -> None:
        for logger in self.loggers:
            logger.log(report)


def _common(state: TrainerState, split: str, loss: float, learning_rate: float) -> Report:
    return {
        "step": state.step,
        "epoch": state.epoch + 1,
        "split": split,
        "loss": loss,
        "learning_rate": learning_rate,
    }
