"""Writing down where a run stands, and putting a run back there, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from sdrop.training.checkpoint import (
    OPTIMIZER,
    TRAINER,
    Manifest,
    RunIdentity,
    load_state,
    load_weights,
    prune,
    write_checkpoint,
)
from sdrop.training.errors import CheckpointError
from sdrop.training.fabric import gather_objects
from sdrop.training.hidden_state import map_state
from sdrop.training.optimizers import align_state
from sdrop.training.rng import generator_states, set_generator_states
from sdrop.training.schedules import set_learning_rate
from sdrop.training.state import TrainerState

_NOT_ANNOUNCED = {"max_epochs", "max_steps"}
_NOT_CHOICES = {"params", "lr", "fused", "foreach", "capturable", "differentiable"}


@dataclass(frozen=True)
class Snapshots:
    """The checkpoints of one run: each holds what its training goes by.

    Args:
        checkpoints: the folder of checkpoints.
        identity: what the run is.
        fabric: this rank and its device.
        module: the plain module.
        optimizer: the plain optimizer.
        keep: how many of the newest to keep beside the best.
    """

    checkpoints: Path
    identity: RunIdentity
    fabric: Fabric
    module: nn.Module
    optimizer: Optimizer
    keep: int = 1

    def save(self, state: TrainerState, best_step: int | None) -> None:
        """Writes a checkpoint of this very moment. Called on every rank; the first one writes."""
        own = {
            "hidden": map_state(state.hidden, Tensor.cpu),
            "generators": generator_states(self.fabric.device),
        }
        content = {
            "state": state.to_dict(),
            "ranks": gather_objects(self.fabric, own),
            "precision": self.fabric.strategy.precision.state_dict(),
        }
        if self.fabric.is_global_zero:
            manifest = Manifest(
                **asdict(self.identity),
                step=state.step,
                epoch=state.epoch,
                seed=state.mask_seed,
                best_step=best_step,
            )
            optimizer = self.optimizer.state_dict()
            write_checkpoint(self.checkpoints, manifest, self.module, optimizer, content)
            prune(self.checkpoints, self.keep, best_step)

    def restore(self, checkpoint: Path) -> tuple[TrainerState, list[str]]:
        """Loads a checkpoint into module, optimizer and random generators.

        What the run was configured with now stays (learning rate, weight decay, settings), except
        the mask seed: that comes from the checkpoint, or the masks would be other ones.

        Returns:
            Where the run stands, and a sentence for each thing that differs from the checkpoint.

        Raises:
            CheckpointError: if it is missing, damaged, or of another run.
        """
        manifest = load_weights(self.module, checkpoint, self.identity.signatures)
        _check_kind(checkpoint, manifest, self.identity)
        changes = _load_optimizer(self.optimizer, load_state(checkpoint, OPTIMIZER), checkpoint)
        content = load_state(checkpoint, TRAINER)
        own = content["ranks"][self.fabric.global_rank]
        state = TrainerState.from_dict(content["state"])
        state.hidden = map_state(own["hidden"], lambda tensor: tensor.to(self.fabric.device))
        if content["precision"]:
            self.fabric.strategy.precision.load_state_dict(content["precision"])
        set_generator_states(own["generators"], self.fabric.device)
        settings = _changes(manifest.settings, self.identity.settings, _NOT_ANNOUNCED)
        return state, [*settings, *changes]


def _check_kind(checkpoint: Path, found: Manifest, run: RunIdentity) -> None:
    """What no run could go on with if it differed."""
    for what, there, here in (
        ("optimizer", found.optimizer, run.optimizer),
        ("metric", found.metric, run.metric),
        ("number of processes", found.world_size, run.world_size),
    ):
        if there != here:
            raise CheckpointError(
                f"{checkpoint} was written with {what} {there}, this run has {here}: "
                f"resume with {there}, or start a new run"
            )


def _load_optimizer(optimizer: Optimizer, saved: Mapping[str, Any], checkpoint: Path) -> list[str]:
    """Loads the state of each parameter; the groups' options stay as they were configured."""
    set_learning_rate(optimizer, 1.0)
    groups = optimizer.state_dict()["param_groups"]
    there, here = (
        [len(group["params"]) for group in side] for side in (saved["param_groups"], groups)
    )
    if there != here:
        raise CheckpointError(
            f"the optimizer in {checkpoint} has groups of {there} parameters, this run's has "
            f"{here}: train the same parameters, or start a new run"
        )
    optimizer.load_state_dict({"state": saved["state"], "param_groups": groups})
    align_state(optimizer)
    return [
        change
        for before, now in zip(saved["param_groups"], groups, strict=True)
        for change in _changes(before, now, _NOT_CHOICES)
    ]


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], leave_out: set[str]) -> list[str]:
    return [
        f"{name} was {before[name]!r} in the checkpoint and is {now[name]!r} from here on"
        for name in sorted((before.keys() & now.keys()) - leave_out)
        if before[name] != now[name]
    ]
