"""`fit`: puts a training run together, new or from a checkpoint, and says what came out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path

from lightning_fabric import Fabric
from torch import nn
from torch.optim import Optimizer

from sdrop.data.batches import Batches
from sdrop.evaluation import Evaluation
from sdrop.keys import name_sites
from sdrop.training.checkpoint import RunIdentity, describe, latest
from sdrop.training.curves import draw_curves
from sdrop.training.errors import CheckpointError
from sdrop.training.metric import PERPLEXITY, Metric
from sdrop.training.metrics import MetricLogger, check_loggers, open_loggers
from sdrop.training.progress import Display, open_display
from sdrop.training.reporting import Reporter
from sdrop.training.rng import seed_generators
from sdrop.training.run_folder import RunFolder, find_checkpoint
from sdrop.training.schedules import Schedule
from sdrop.training.settings import TrainerSettings
from sdrop.training.signals import StopRequest
from sdrop.training.snapshots import Snapshots
from sdrop.training.state import TrainerState
from sdrop.training.step import TrainingStep
from sdrop.training.trainer import Stopped, Trainer


@dataclass(frozen=True)
class FitResult:
    """What came out of a training run, over all the processes that it was resumed in.

    Args:
        metric: name of the metric.
        best: its best value on the validation split; None where nothing was validated.
        best_step: the step of that; its checkpoint is kept.
        last: its newest value.
        steps: optimizer steps taken.
        epochs: epochs finished.
        seconds_train: time spent training.
        seconds_total: that, and evaluation and checkpoints.
        tokens_per_second: tokens trained on, on all ranks, in a second of training.
        stopped: `"max_epochs"`, `"max_steps"`, `"signal"` or `"early_stopping"`.
    """

    metric: str
    best: float | None
    best_step: int | None
    last: float | None
    steps: int
    epochs: int
    seconds_train: float
    seconds_total: float
    tokens_per_second: float
    stopped: Stopped


def fit(
    fabric: Fabric,
    model: nn.Module,
    optimizer: Optimizer,
    schedule: Schedule,
    train_batches: Batches,
    validate: Callable[[], Evaluation],
    settings: TrainerSettings,
    run_folder: RunFolder,
    *,
    seed: int,
    metric: Metric = PERPLEXITY,
    loggers: Sequence[str] = ("jsonl",),
    resume: str | Path | None = None,
    signatures: Mapping[str, str] | None = None,
) -> FitResult:
    """Trains a model until a limit, early stopping, or a signal ends it.

    Writes metrics, checkpoints and curves.png into the run folder. Ctrl-C or SIGTERM finishes the
    running step, writes a checkpoint and returns; a second one ends at once. Resumed from a
    checkpoint, losses, masks, rates and weights are those of the run that was never stopped, to
    the bit.

    Args:
        fabric: from `make_fabric`.
        model: the plain module, called only as `model(**batch.arguments, state=state)`; returns
            the mean loss of a counted token (0-dim) and the next state.
        optimizer: the plain optimizer over the model's parameters.
        schedule: the factor on the learning rate in each epoch.
        train_batches: this rank's share of the training data.
        validate: evaluates `model`, which is in evaluation mode then, in the run's precision;
            called on every rank.
        settings: how long, how far, how often.
        run_folder: where everything is written.
        seed: masks and generators go by it. A resumed run keeps its checkpoint's.
        metric: what validation is judged by.
        loggers: any of `"jsonl"` (always on), `"csv"`, `"tensorboard"`.
        resume: `"auto"`, a run folder, a checkpoint, or None for a new run.
        signatures: what a checkpoint must share with the run, by name, such as the vocabulary's
            hash.

    Returns:
        The outcome; `stopped` says why it ended.

    Raises:
        CheckpointError: if `resume` cannot be used, or the folder holds a run already.
        ValueError, ImportError: for an unknown logger, or one that is not installed.
        NonFiniteError: before the update of a step whose loss or gradient is not finite.
    """
    check_loggers(loggers)
    checkpoint = _claim(run_folder, resume, fabric)
    wrapped, wrapped_optimizer = fabric.setup(model, optimizer)
    module: nn.Module = name_sites(wrapped.module).train()
    snapshots = Snapshots(
        run_folder.checkpoints,
        _identity(fabric, optimizer, settings, metric, signatures or {}),
        fabric,
        module,
        optimizer,
        settings.keep_checkpoints,
    )
    state, notes = _start_or_resume(snapshots, checkpoint, run_folder, seed)
    with ExitStack() as stack:
        display = stack.enter_context(_display(fabric, metric, settings, train_batches))
        writers = _loggers(fabric, loggers, run_folder, metric, state, stack)
        for note in notes:
            display.note(note)
        trainer = Trainer(
            fabric=fabric,
            module=module,
            optimizer=optimizer,
            take_step=TrainingStep(
                fabric, wrapped, wrapped_optimizer, settings, train_batches.stateful
            ),
            schedule=schedule,
            batches=train_batches,
            evaluate=validate,
            metric=metric,
            settings=settings,
            state=state,
            snapshots=snapshots,
            reporter=Reporter(metric, writers, display),
            stop=stack.enter_context(StopRequest()),
        )
        before = state.step
        stopped = trainer.run()
        if stopped != "signal" and state.step == before:
            display.note(
                f"nothing was left to train ({stopped}): {before:,} steps are done, with "
                f"max_epochs={settings.max_epochs} and max_steps={settings.max_steps}"
            )
        if stopped == "signal":
            display.note(f"stopped by a signal after step {state.step}, whose checkpoint is kept")
    if fabric.is_global_zero:
        draw_curves(run_folder.metrics, run_folder.curves, metric)
    fabric.barrier()
    return _result(metric, state, stopped)


def _claim(run_folder: RunFolder, resume: str | Path | None, fabric: Fabric) -> Path | None:
    """Makes the folder ready; the checkpoint to go on from, if any.

    Raises:
        CheckpointError: if the folder holds a run that `resume` does not go on with.
    """
    if fabric.is_global_zero:
        run_folder.prepare()
    fabric.barrier()
    checkpoint = None if resume is None else find_checkpoint(resume, run_folder)
    if resume is not None and checkpoint is None:
        fabric.print(f"resume={resume}: {run_folder.path} has no checkpoint yet, a new run begins")
    newest = latest(run_folder.checkpoints)
    if newest is not None and (checkpoint is None or checkpoint.resolve() != newest.resolve()):
        raise CheckpointError(
            f"{run_folder.path} holds a run already, up to {newest.name}: resume=auto goes on "
            "from there; for a new run, or to go on from another checkpoint, choose another folder"
        )
    return checkpoint


def _identity(
    fabric: Fabric,
    optimizer: Optimizer,
    settings: TrainerSettings,
    metric: Metric,
    signatures: Mapping[str, str],
) -> RunIdentity:
    return RunIdentity(
        metric=metric.name,
        signatures=dict(signatures),
        optimizer=type(optimizer).__name__,
        world_size=fabric.world_size,
        settings=asdict(settings),
    )


def _start_or_resume(
    snapshots: Snapshots, checkpoint: Path | None, run_folder: RunFolder, seed: int
) -> tuple[TrainerState, list[str]]:
    """The state to begin with, and what there is to say about it."""
    fabric = snapshots.fabric
    if checkpoint is None:
        seed_generators(seed, fabric.global_rank)
        return TrainerState(mask_seed=seed), []
    state, notes = snapshots.restore(checkpoint)
    if fabric.is_global_zero:
        run_folder.adopt(checkpoint, describe(checkpoint).best_step)
    fabric.barrier()
    if state.mask_seed != seed:
        notes.append(f"seed={seed} was given; dropout goes on with {state.mask_seed}")
    return state, [f"resumed after step {state.step} from {checkpoint}", *notes]


def _display(
    fabric: Fabric, metric: Metric, settings: TrainerSettings, batches: Batches
) -> Display:
    steps_an_epoch = math.ceil(len(batches) / settings.gradient_accumulation_steps)
    steps = settings.max_epochs * steps_an_epoch
    if settings.max_steps is not None:
        steps = min(steps, settings.max_steps)
    return open_display(metric, settings.max_epochs, steps, shown=fabric.is_global_zero)


def _loggers(
    fabric: Fabric,
    names: Sequence[str],
    run_folder: RunFolder,
    metric: Metric,
    state: TrainerState,
    stack: ExitStack,
) -> list[MetricLogger]:
    """The loggers of the first rank, closed with the stack; other ranks have none."""
    if not fabric.is_global_zero:
        return []
    opened = open_loggers(names, run_folder, metric, keep=state.lines, step=state.step)
    return [stack.enter_context(closing(logger)) for logger in opened]


def _result(metric: Metric, state: TrainerState, stopped: Stopped) -> FitResult:
    values = state.values()
    best = metric.best(values)
    return FitResult(
        metric=metric.name,
        best=None if best is None else values[best],
        best_step=None if best is None else state.history[best].step,
        last=values[-1] if values else None,
        steps=state.step,
        epochs=state.epoch,
        seconds_train=state.seconds_train,
        seconds_total=state.seconds_total,
        tokens_per_second=state.tokens / state.seconds_train if state.seconds_train else 0.0,
        stopped=stopped,
    )
