"""One optimizer step: accumulate the gradients of a group of batches, clip, check, update."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from sdrop.data.batches import Batch
from sdrop.keys import mask_key
from sdrop.training.errors import NonFiniteError
from sdrop.training.fabric import gather
from sdrop.training.settings import LossNormalization, TrainerSettings
from sdrop.training.signals import StopRequest
from sdrop.training.state import TrainerState, detached


@dataclass(frozen=True)
class Group:
    """The batches of one optimizer step on this rank, and their totals over all ranks."""

    batches: list[Batch]
    tokens: int
    sequences: int
    stop: bool = False
    """Whether any rank was asked to stop."""

    def weight(self, batch: Batch, normalization: LossNormalization) -> float:
        """The factor on the batch's mean loss, so that the sum over the group is normalised.

        `"token"`: the sum is the mean over all tokens of the group. `"sequence"`: the loss summed
        over time, averaged over all columns.
        """
        total = self.tokens if normalization == "token" else self.sequences
        return batch.tokens / max(1, total)


def take_group(fabric: Fabric, batches: Iterator[Batch], size: int, stop: StopRequest) -> Group:
    """Takes the next `size` batches and agrees on their totals with the other ranks.

    At the end of an epoch the group is smaller, then empty.

    Raises:
        RuntimeError: if the ranks have different numbers of batches.
    """
    taken = list(islice(batches, size))
    tokens = sum(batch.tokens for batch in taken)
    sequences = sum(batch.sequences for batch in taken)
    shares = gather(fabric, [len(taken), tokens, sequences, stop.requested])
    counts, all_tokens, all_sequences, stops = (
        list(column) for column in zip(*shares, strict=True)
    )
    if len(set(counts)) > 1:
        raise RuntimeError(
            f"the ranks have {[round(count) for count in counts]} batches left for this step: "
            "expected the same number on each; share the data out evenly"
        )
    return Group(taken, round(sum(all_tokens)), round(sum(all_sequences)), any(stops))


class TrainingStep:
    """Trains a set-up model on one group of batches at a time.

    Args:
        fabric: what model and optimizer were set up with.
        model: what `fabric.setup` made of the model; called with a batch's arguments and `state`.
        optimizer: what it made of the optimizer.
        settings: accumulation, clipping, normalisation.
        stateful: whether the hidden state carries over from batch to batch.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: Any,
        optimizer: Any,
        settings: TrainerSettings,
        stateful: bool,
    ) -> None:
        self.fabric, self.model, self.optimizer = fabric, model, optimizer
        self.settings, self.stateful = settings, stateful
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.mask_rank = 0 if settings.same_across_ranks else fabric.global_rank
        # Half precision scales the loss; None otherwise.
        self.scaler: Any = getattr(fabric.strategy.precision, "scaler", None)

    def __call__(self, group: Group, state: TrainerState) -> None:
        """Takes one step and moves `state` past it.

        Raises:
            NonFiniteError: before the update, if loss or gradient norm is not finite.
        """
        self.optimizer.zero_grad()
        last = len(group.batches) - 1
        losses = [
            self._accumulate(batch, group, state, synchronize=i == last)
            for i, batch in enumerate(group.batches)
        ]
        loss = self._total_loss(losses, group)
        norm = self._clip()
        self._check(loss / max(1, group.tokens), norm, state)
        self._update(norm)
        self._advance(group, loss, norm, state)

    def _accumulate(
        self, batch: Batch, group: Group, state: TrainerState, *, synchronize: bool
    ) -> Tensor:
        """Forward and backward of one batch; the mean loss of its tokens."""
        batch = batch.to(self.fabric.device)
        # DDP averages over the ranks where a sum is wanted.
        weight = group.weight(batch, self.settings.loss_normalization) * self.fabric.world_size
        # Backward too: recomputed activations must draw the masks of the first time.
        with (
            mask_key(state.mask_seed, state.micro_step, rank=self.mask_rank),
            self.fabric.no_backward_sync(self.model, enabled=not synchronize),
        ):
            loss, hidden = self.model(**batch.arguments, state=state.hidden)
            # A rank's share may be all padding: the mean over no token is not a number.
            counted: Tensor = loss if batch.tokens else loss.nan_to_num()
            self.fabric.backward(counted * weight)
        state.hidden = detached(hidden) if self.stateful else None
        state.micro_step += 1
        return counted.detach()

    def _total_loss(self, losses: list[Tensor], group: Group) -> float:
        """Summed negative log-likelihood of the group, over all ranks."""
        means = torch.stack(losses).tolist()  # one wait for the device, not one a batch
        own = math.fsum(
            mean * batch.tokens for mean, batch in zip(means, group.batches, strict=True)
        )
        return math.fsum(share for (share,) in gather(self.fabric, [own]))

    def _clip(self) -> float:
        """Clips the gradients; their global norm before that."""
        if self.scaler is not None:
            self.scaler.unscale_(getattr(self.optimizer, "optimizer", self.optimizer))
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        value, most = norm.item(), self.settings.max_grad_norm
        if most is not None and not value <= most:  # torch would multiply by 1, once over memory
            nn.utils.clip_grads_with_norm_(self.parameters, most, norm)
        return value

    def _check(self, loss: float, norm: float, state: TrainerState) -> None:
        where = {"step": state.step + 1, "epoch": state.epoch + 1}
        if not math.isfinite(loss):
            raise NonFiniteError("loss", loss, **where)
        # With a scaler an overflow is part of the search for a scale, until none is left.
        searching = self.scaler is not None and self.scaler.get_scale() > 1
        if not math.isfinite(norm) and not searching:
            raise NonFiniteError("gradient norm", norm, **where)

    def _update(self, norm: float) -> None:
        if math.isfinite(norm):
            self.optimizer.step()
        else:
            self.scaler.update()  # skips this step with a smaller scale for the next

    def _advance(self, group: Group, loss: float, norm: float, state: TrainerState) -> None:
        state.step += 1
        state.batch += len(group.batches)
        state.tokens += group.tokens
        state.window.loss += loss
        state.window.tokens += group.tokens
        state.window.gradient_norm = norm
