"""What the recipes keep in a run folder beside the trainer's files, and read from it again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import nn

from sdrop.training import (
    CheckpointError,
    RunFolder,
    best,
    find_checkpoint,
    latest,
    load_weights,
)

from .configuration import Mistake
from .configuration.recall import changes, read_config, run_folder_of, write_config
from .configuration.schema import Run

__all__ = ["announced_changes", "checkpoint_of", "options_kept", "run_folder_of"]

_ANNOUNCED_BY_TRAINER = ("trainer.", "optimizer.", "seed", "dropout.same_across_ranks")
_YET_ANNOUNCED_HERE = ("trainer.precision", "optimizer.lr")


def announced_changes(
    options: Run, run_folder: RunFolder, model: nn.Module, signatures: Mapping[str, str]
) -> list[str]:
    """Say what a resumed run does differently from here on; refuse a run that cannot start.

    Args:
        options: of the run that starts or goes on.
        run_folder: its folder.
        model: gets the checkpoint's weights where the run goes on.
        signatures: what must be equal in checkpoint and run.

    Raises:
        Mistake: a new run in a folder that holds one already.
        CheckpointError: no checkpoint where one was named, or one of another model or data.
    """
    if options.resume is None:
        if latest(run_folder.checkpoints) is not None:
            raise Mistake(
                f"{run_folder.path} holds a run already. Go on with it by resume=auto, or choose "
                "another folder by hydra.run.dir=DIR."
            )
        return []
    checkpoint = find_checkpoint(options.resume, run_folder)
    if checkpoint is None:
        return []
    load_weights(model, checkpoint, signatures)
    return _changes_since(run_folder_of(checkpoint), options)


@contextmanager
def options_kept(
    fabric: Fabric, options: Run, overrides: Sequence[str], run_folder: RunFolder
) -> Iterator[None]:
    """Write config.yaml for a run inside, and take away the summary of what it goes on from.

    Both files are put back if the checkpoint is refused.

    Raises:
        Mistake: for a folder that cannot be made.
    """
    files = (run_folder.config, run_folder.summary)
    former = {file: file.read_bytes() for file in files if file.exists()}
    fabric.barrier()
    if fabric.is_global_zero:
        try:
            run_folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Mistake(
                f"the run folder {run_folder.path} cannot be made: {error.strerror}. Choose "
                "another place, by hydra.run.dir=DIR."
            ) from error
        run_folder.summary.unlink(missing_ok=True)
        write_config(options, overrides, run_folder.config)
    fabric.barrier()
    try:
        yield
    except CheckpointError:
        if fabric.is_global_zero:
            for file, content in former.items():
                file.write_bytes(content)
        raise


def checkpoint_of(name: str) -> Path:
    """Return the checkpoint that is named, or the best one of the run folder that is.

    Raises:
        Mistake: for a name that is neither.
    """
    path = Path(name)
    checkpoints = run_folder_of(path) / "checkpoints"
    if path.parent.name == "checkpoints":
        return path
    if not checkpoints.is_dir():
        raise Mistake(
            f"checkpoint={name}: no run folder (runs/…/DATE_TIME) and no checkpoint in one "
            "(runs/…/DATE_TIME/checkpoints/step-…)."
        )
    return best(checkpoints)


def _changes_since(folder: Path, options: Run) -> list[str]:
    now: dict[str, Any] = dataclasses.asdict(options)
    return [
        f"changed from here on: {change}"
        for change in changes(read_config(folder), now)
        if change.startswith(_YET_ANNOUNCED_HERE) or not change.startswith(_ANNOUNCED_BY_TRAINER)
    ]
