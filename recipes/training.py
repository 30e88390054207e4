"""The course that every training recipe takes between its parts and its scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hydra.core.hydra_config import HydraConfig
from lightning_fabric import Fabric
from torch import nn

from sdrop import backends
from sdrop.data import Batches
from sdrop.evaluation import Evaluation
from sdrop.training import FitResult, Metric, RunFolder, best, fit, load_weights, write_summary

from .building import (
    describe_dropout,
    make_optimizer,
    make_schedule,
    make_settings,
    number_of_parameters,
)
from .configuration.schema import Run
from .debugging import limited, watched
from .run_folder import announced_changes, options_kept


class _Result(Protocol):
    fit: FitResult | None


R = TypeVar("R", bound=_Result)


def whole(result: R) -> R:
    """`result`, unless a signal stopped its run.

    Raises:
        KeyboardInterrupt: then, so that nothing goes on as if all had been done: no sweep, and no
            program that goes by the exit status.
    """
    if result.fit is not None and result.fit.stopped == "signal":
        raise KeyboardInterrupt
    return result


def announce_few(options: Run, fabric: Fabric) -> None:
    """Say where figures will be of less than a split."""
    if (few := options.debug.evaluation_batches) is not None:
        fabric.print(f"figures are of the first {few} batches of each split (debug)")


def folder_and_overrides() -> tuple[str | None, Sequence[str]]:
    """What Hydra made and was given; of several processes one has it and tells the others."""
    if not HydraConfig.initialized():
        return None, ()
    hydra = HydraConfig.get()
    return hydra.runtime.output_dir, hydra.overrides.task


def train_model(
    options: Run,
    overrides: Sequence[str],
    fabric: Fabric,
    run_folder: RunFolder,
    model: nn.Module,
    batches: Batches,
    *,
    validate: Callable[[], Evaluation],
    metric: Metric,
    save: Callable[[Path], None],
    signatures: Mapping[str, str],
) -> FitResult:
    """Train a model, from the start or on from a checkpoint, and leave it with its best weights.

    Where a signal stopped it, which the result says, the weights are the last ones.

    Args:
        options: of the run.
        overrides: the command line, which is recalled when the run goes on.
        fabric: from `start_fabric`.
        run_folder: where everything is written.
        model: the plain module.
        batches: this process's share of the training batches, of which `debug=` may take fewer.
        validate: evaluates the model.
        metric: what validation is judged by.
        save: writes into the run folder what the model cannot be used without, such as words.
        signatures: what a checkpoint must share with the run.
    """
    announce_few(options, fabric)
    for change in announced_changes(options, run_folder, model, signatures):
        fabric.print(change)
    with options_kept(fabric, options, overrides, run_folder), watched(options.debug, run_folder):
        if fabric.is_global_zero:
            save(run_folder.path)
        trained = fit(
            fabric,
            model,
            make_optimizer(options.optimizer, model),
            make_schedule(options.schedule, metric),
            limited(batches, options.debug.train_batches),
            validate,
            make_settings(options.trainer, same_across_ranks=options.dropout.same_across_ranks),
            run_folder,
            seed=options.seed,
            metric=metric,
            loggers=[name for name, on in dataclasses.asdict(options.logger).items() if on],
            resume=options.resume,
            signatures=signatures,
        )
    if trained.stopped != "signal":
        load_weights(model, best(run_folder.checkpoints), signatures)
    return trained


def summarise(
    recipe: str,
    options: Run,
    run_folder: RunFolder,
    model: nn.Module,
    trained: FitResult,
    *,
    valid: float | None,
    test: float | None,
    signature: str,
    **extra: Any,
) -> None:
    """Write summary.json, the last file of a whole run.

    Args:
        recipe: its name.
        options, run_folder, model: as for `train_model`.
        trained: what that returned.
        valid, test: the metric on these splits.
        signature: hash of data and vocabulary, behind the data's name.
        extra: what the recipe adds.
    """
    write_summary(
        run_folder.summary,
        recipe=recipe,
        experiment=options.experiment,
        metric=trained.metric,
        valid=valid,
        test=test,
        seconds_train=trained.seconds_train,
        seconds_total=trained.seconds_total,
        tokens_per_second=trained.tokens_per_second,
        steps=trained.steps,
        parameters=number_of_parameters(model),
        backend=options.backend,
        pattern=describe_dropout(options.dropout),
        signature=f"{options.data.name}-{signature}",
        **extra,
        backends=backends(),
    )


def describe_computation(options: Run, fabric: Fabric) -> str:
    """What is dropped and what computes, in two lines."""
    device, backend = fabric.device.type, f"backend {options.backend}"
    if options.backend not in ("reference", "torch"):
        backend += f"; kernels for {device}: {backends().get(device, 'none')}"
    return f"dropout {describe_dropout(options.dropout)}\n{backend}"
