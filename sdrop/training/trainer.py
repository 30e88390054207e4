"""The training loop of all recipes, to be read from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from lightning_fabric import Fabric
from torch import nn
from torch.optim import Optimizer

from sdrop.data.batches import Batch, Batches
from sdrop.evaluation import Evaluation, evaluating
from sdrop.training.early_stopping import has_stalled
from sdrop.training.fabric import gather
from sdrop.training.metric import Metric
from sdrop.training.reporting import Reporter
from sdrop.training.schedules import Schedule, set_learning_rate
from sdrop.training.settings import TrainerSettings
from sdrop.training.signals import StopRequest
from sdrop.training.snapshots import Snapshots
from sdrop.training.state import TrainerState, Validation
from sdrop.training.step import Group, TrainingStep, take_group
from sdrop.training.stopwatch import Stopwatch

Stopped = Literal["max_epochs", "max_steps", "signal", "early_stopping"]


@dataclass
class Trainer:
    """Runs epochs until a limit, early stopping, or a signal. `fit` puts one together.

    What changes is in `state`, the module, the optimizer and the random generators; `snapshots`
    writes all of them, so a run goes on from a checkpoint as if it had never stopped.
    """

    fabric: Fabric
    module: nn.Module
    optimizer: Optimizer
    take_step: TrainingStep
    schedule: Schedule
    batches: Batches
    evaluate: Callable[[], Evaluation]
    metric: Metric
    settings: TrainerSettings
    state: TrainerState
    snapshots: Snapshots
    reporter: Reporter
    stop: StopRequest
    stopwatch: Stopwatch = field(init=False)
    saved: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        self.stopwatch = Stopwatch(self.state.seconds_train)
        self.started = time.perf_counter() - self.state.seconds_total

    def run(self) -> Stopped:
        """Trains; afterwards there is a checkpoint of exactly where it stopped."""
        with self.stopwatch.running():
            stopped = self._run_epochs()
            # Of a signal in the last validation no step hears any more.
            if any(requested for (requested,) in gather(self.fabric, [self.stop.requested])):
                stopped = "signal"
            if self.saved != self.state.position:
                self._save()
        self.reporter.interrupted(self.state, self._learning_rate, self.stopwatch.seconds)
        return stopped

    def _run_epochs(self) -> Stopped:
        while self.state.epoch < self.settings.max_epochs:
            if has_stalled(self.metric, self.state.values(), self.settings.early_stopping_patience):
                return "early_stopping"
            if stopped := self._run_epoch():
                return stopped
        return "max_epochs"

    def _run_epoch(self) -> Stopped | None:
        """Trains on what is left of the running epoch; None when it is finished."""
        self._begin_epoch()
        batches = self.batches.epoch(self.state.epoch, start=self.state.batch)
        while True:
            group = self._take_group(batches)
            if group.stop:
                return "signal"
            if not group.batches:
                break
            if self.settings.max_steps is not None and self.state.step >= self.settings.max_steps:
                return "max_steps"
            self._train_on(group)
        self._end_epoch()
        return None

    def _begin_epoch(self) -> None:
        epoch = self.state.epoch + 1
        set_learning_rate(self.optimizer, self.schedule(epoch, self.state.values(epoch)))
        if self.state.batch == 0:
            self.state.hidden = None

    def _take_group(self, batches: Iterator[Batch]) -> Group:
        size = self.settings.gradient_accumulation_steps
        return take_group(self.fabric, batches, size, self.stop)

    def _train_on(self, group: Group) -> None:
        self.take_step(group, self.state)
        self._report(due=self._is_due(self.settings.log_every_steps))
        if self._is_due(self.settings.validate_every_steps):
            self._validate()
            self._save()
        elif self._is_due(self.settings.checkpoint_every_steps):
            self._save()

    def _end_epoch(self) -> None:
        if self.state.batch == 0:
            raise ValueError("there is nothing to train on: the training batches are empty")
        self._report(due=True)
        if (self.state.epoch + 1) % self.settings.validate_every_epochs == 0:
            self._validate()
        self.state.epoch, self.state.batch, self.state.hidden = self.state.epoch + 1, 0, None
        self._save()

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.state.step % every == 0

    def _report(self, *, due: bool) -> None:
        seconds = self.stopwatch.seconds
        self.reporter.trained(self.state, self._learning_rate, seconds, due=due)

    def _validate(self) -> None:
        """Evaluates, unless that was done after this very step."""
        if self.state.history and self.state.history[-1].step == self.state.step:
            return
        started = time.perf_counter()
        with self.stopwatch.paused(), evaluating(self.module), self.fabric.autocast():
            # One rank's word holds for all, or rounding could let only some of them stop.
            evaluation = self.fabric.broadcast(self.evaluate())
        seconds = time.perf_counter() - started
        value = self.metric.of(evaluation)
        self.state.history.append(Validation(self.state.step, self.state.epoch + 1, value))
        self.reporter.validated(self.state, self._learning_rate, evaluation, seconds)

    def _save(self) -> None:
        with self.stopwatch.paused():
            self.reporter.flush()
            self.state.seconds_train = self.stopwatch.seconds
            self.state.seconds_total = time.perf_counter() - self.started
            best = self.metric.best(self.state.values())
            step = None if best is None else self.state.history[best].step
            self.snapshots.save(self.state, step)
        self.saved = self.state.position

    @property
    def _learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])
