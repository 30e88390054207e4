"""Checkpoints: a folder each, written whole or not at all, checked when read.

    checkpoints/step-00000123/
        model.safetensors   weights, contiguous and each once
        optimizer.pt        the optimizer's state
        trainer.pt          where the run stands: position, hidden state, generators, history
        manifest.json       what must match, and a checksum of each file above

All of it loads without running code: `torch.load(weights_only=True)`, safetensors and JSON.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sdrop.training.atomic import partial_folder, publish_folder
from sdrop.training.errors import CheckpointError, shortened
from sdrop.training.weights import read_weights, save_weights

FORMAT = 1
MODEL, OPTIMIZER, TRAINER, MANIFEST = (
    "model.safetensors",
    "optimizer.pt",
    "trainer.pt",
    "manifest.json",
)


@dataclass(frozen=True, kw_only=True)
class RunIdentity:
    """What a run is, apart from how far it is.

    Args:
        metric: name of the metric that validation goes by.
        signatures: what the recipe says must be equal, such as the vocabulary's hash.
        optimizer: class name of the optimizer.
        world_size: number of processes.
        settings: the trainer's settings, to announce what a resumed run changes.
    """

    metric: str
    signatures: dict[str, str]
    optimizer: str
    world_size: int
    settings: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Manifest(RunIdentity):
    """What a checkpoint says about itself, readable without loading it.

    Args:
        step: optimizer steps taken.
        epoch: epochs finished.
        seed: dropout masks are drawn from it.
        best_step: step of the best validation so far; None before the first.
        files: SHA-256 of each file.
        format: version of this layout.
    """

    step: int
    epoch: int
    seed: int
    best_step: int | None
    files: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT


def write_checkpoint(
    checkpoints: Path,
    manifest: Manifest,
    module: nn.Module,
    optimizer: Mapping[str, Any],
    trainer: Mapping[str, Any],
) -> Path:
    """Writes `checkpoints/step-…`, replacing one of the same step, and returns the folder.

    The folder is filled under a temporary name, synced to disk and then renamed, so a crash at
    any moment leaves the checkpoint before it intact.
    """
    folder = checkpoints / checkpoint_name(manifest.step)
    temporary = partial_folder(folder)
    save_weights(module, temporary / MODEL)
    torch.save(dict(optimizer), temporary / OPTIMIZER)
    torch.save(dict(trainer), temporary / TRAINER)
    files = {name: _sha256(temporary / name) for name in (MODEL, OPTIMIZER, TRAINER)}
    described = {**asdict(manifest), "files": files}
    (temporary / MANIFEST).write_text(json.dumps(described, indent=2) + "\n")
    publish_folder(temporary, folder)
    return folder


def describe(checkpoint: Path) -> Manifest:
    """What a checkpoint says about itself.

    Raises:
        CheckpointError: if the folder is no checkpoint, or of another version.
    """
    path = checkpoint / MANIFEST
    if not path.is_file():
        raise CheckpointError(
            f"{checkpoint} is no checkpoint: expected a folder with {MANIFEST} in it, such as "
            "RUN/checkpoints/step-00000123"
        )
    try:
        content = json.loads(path.read_text())
        if content["format"] != FORMAT:
            raise CheckpointError(
                f"{checkpoint} has format {content['format']}, this version reads {FORMAT}"
            )
        return Manifest(**content)
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is damaged ({error}): go back to another checkpoint"
        ) from None


def check_files(checkpoint: Path, manifest: Manifest) -> None:
    """Each file must be there with the content that was written.

    Raises:
        CheckpointError: naming the first that is not.
    """
    for name, expected in manifest.files.items():
        path = checkpoint / name
        if not path.is_file():
            raise CheckpointError(f"{path} is missing: the checkpoint is not whole, use another")
        if _sha256(path) != expected:
            raise CheckpointError(
                f"{path} is damaged (its checksum is not the one in {MANIFEST}): use another "
                "checkpoint"
            )


def check_signatures(checkpoint: Path, manifest: Manifest, signatures: Mapping[str, str]) -> None:
    """Vocabulary, data and whatever else a recipe names must be what the checkpoint saw.

    Raises:
        CheckpointError: with what is in the checkpoint and what was given.
    """
    differences = [
        f"{name}: {manifest.signatures.get(name, 'nothing')} in the checkpoint, {given} here"
        for name, given in signatures.items()
        if manifest.signatures.get(name) != given
    ]
    if differences:
        raise CheckpointError(
            f"{checkpoint} was trained on something else:\n{shortened(differences)}\n"
            "Use the data and options that it was written with, or start a new run."
        )


def load_weights(
    model: nn.Module, checkpoint: Path, signatures: Mapping[str, str] | None = None
) -> Manifest:
    """Copies a checkpoint's weights into `model`, whose parameters keep strides and ties.

    Args:
        model: the plain module, not wrapped.
        checkpoint: a checkpoint's folder; see `latest`, `best` and `find_checkpoint`.
        signatures: what must be equal to what the checkpoint was written with.

    Returns:
        What the checkpoint says about itself.

    Raises:
        CheckpointError: if it is missing, damaged, or of another model or vocabulary.
    """
    manifest = describe(checkpoint)
    check_files(checkpoint, manifest)
    check_signatures(checkpoint, manifest, signatures or {})
    read_weights(model, checkpoint / MODEL)
    return manifest


def load_state(checkpoint: Path, name: str) -> dict[str, Any]:
    """A `.pt` file of a checkpoint, on the CPU.

    Raises:
        CheckpointError: if it cannot be read.
    """
    try:
        state: dict[str, Any] = torch.load(checkpoint / name, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{checkpoint / name} cannot be read: {reason}") from None
    return state


def latest(checkpoints: Path) -> Path | None:
    """The newest checkpoint in a folder of them; None where there is none."""
    found = _in_order(checkpoints)
    return found[-1] if found else None


def best(checkpoints: Path) -> Path:
    """The checkpoint of the best validation, or the newest where nothing was validated.

    Raises:
        CheckpointError: if there is none, or the best is gone.
    """
    newest = latest(checkpoints)
    if newest is None:
        raise CheckpointError(f"there is no checkpoint in {checkpoints}")
    step = describe(newest).best_step
    if step is None:
        return newest
    folder = checkpoints / checkpoint_name(step)
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder}, the best checkpoint, is gone: give another one by its path"
        )
    return folder


def prune(checkpoints: Path, keep: int, best_step: int | None) -> None:
    """Removes all but the newest `keep` checkpoints and the best."""
    for folder in _in_order(checkpoints)[:-keep]:
        if best_step is None or folder.name != checkpoint_name(best_step):
            # Renamed first: half a checkpoint must never stand under a checkpoint's name.
            shutil.rmtree(folder.rename(partial_folder(folder)))


def _in_order(checkpoints: Path) -> list[Path]:
    """All checkpoints, oldest first."""
    return sorted(checkpoints.glob("step-*"), key=lambda folder: (len(folder.name), folder.name))


def checkpoint_name(step: int) -> str:
    """The name of the folder of the checkpoint after `step` steps."""
    return f"step-{step:08d}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
