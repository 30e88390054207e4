"""Batches of a training text: what every task's batches promise, and those of truncated BPTT."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sdrop.data.errors import DataError

NOT_COUNTED = -100  # the target that torch.nn.functional.cross_entropy leaves out by default


@dataclass(frozen=True, eq=False)
class Batch:
    """One forward call's arguments.

    `arguments` go to the model by name, `tokens` is the number of counted targets and `sequences`
    that of the batch's columns.
    """

    arguments: dict[str, Tensor]
    tokens: int
    sequences: int

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on `device`."""
        moved = {name: tensor.to(device) for name, tensor in self.arguments.items()}
        return Batch(moved, self.tokens, self.sequences)


class Batches(Protocol):
    """An epoch's batches, in an order that is a pure function of (seed, epoch).

    With `stateful` the hidden state carries over from one batch to the next within an epoch.
    """

    stateful: bool

    def __len__(self) -> int:
        """Batches in epoch 0."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of `epoch` (from 0), the first `start` of them skipped without work."""


class BpttBatches(Batches):
    """Windows of `bptt` steps over one long text in `batch_size` columns (truncated BPTT).

    Each of the N - 1 predictions of the text is made exactly once. The text is cut into
    `batch_size` stretches whose lengths differ by one at most, and each stretch is a column
    (Zaremba et al. 2014, who drop the remainder). Where the last step is short of some columns,
    they hold input 0 and target -100 there. Such a step is no window of its own but joins the one
    before it, so that every window of every rank has something to count.

    Batches hold `input` and `target`, (T, B) int64, T <= bptt but for that joined step.

    Args:
        ids: the text's word numbers, int64 (N,).
        batch_size: columns over all ranks together.
        bptt: steps in a window.
        rank: which of the equal shares of neighbouring columns to give, from 0.
        world_size: number of shares; `batch_size` must divide by it.

    Raises:
        DataError: sizes that do not fit, or a text too short for so many columns.
    """

    stateful = True

    def __init__(
        self, ids: Tensor, *, batch_size: int, bptt: int, rank: int = 0, world_size: int = 1
    ) -> None:
        _check(ids, batch_size, bptt, rank, world_size)
        input, target = (
            _columns(ids[:-1], batch_size, 0),
            _columns(ids[1:], batch_size, NOT_COUNTED),
        )
        counted = target != NOT_COUNTED
        assert int(counted.sum()) == len(ids) - 1, "a prediction was lost or made twice"
        share = batch_size // world_size
        mine = slice(rank * share, (rank + 1) * share)
        self._input, self._target = input[:, mine].contiguous(), target[:, mine].contiguous()
        self._counted = counted[:, mine].sum(dim=1)
        self._bounds = _bounds(len(input), bptt, last_is_full=bool(counted[-1].all()))

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The windows in the text's order, the same in every epoch."""
        for begin, end in list(zip(self._bounds, self._bounds[1:], strict=False))[start:]:
            arguments = {"input": self._input[begin:end], "target": self._target[begin:end]}
            yield Batch(arguments, int(self._counted[begin:end].sum()), self._input.shape[1])


def _columns(ids: Tensor, batch_size: int, fill: int) -> Tensor:
    """(N,) -> (ceil(N / batch_size), batch_size): neighbouring stretches as columns."""
    steps = -(-len(ids) // batch_size)
    columns = ids.new_full((steps, batch_size), fill)
    for column, stretch in enumerate(ids.tensor_split(batch_size)):
        columns[: len(stretch), column] = stretch
    return columns


def _bounds(steps: int, bptt: int, *, last_is_full: bool) -> list[int]:
    bounds = [*range(0, steps, bptt), steps]
    if not last_is_full and bounds[-1] - bounds[-2] == 1:
        del bounds[-2]
    return bounds


def _check(ids: Tensor, batch_size: int, bptt: int, rank: int, world_size: int) -> None:
    if ids.dim() != 1 or ids.dtype != torch.int64:
        raise DataError(f"expected ids of shape (N,), int64, got {tuple(ids.shape)}, {ids.dtype}")
    for name, value in {"batch_size": batch_size, "bptt": bptt, "world_size": world_size}.items():
        if value < 1:
            raise DataError(f"expected {name} of 1 or more, got {value}")
    if not 0 <= rank < world_size:
        raise DataError(f"expected a rank of 0 to {world_size - 1}, got {rank}")
    if batch_size % world_size:
        raise DataError(
            f"batch_size={batch_size} columns cannot be shared out equally among {world_size} "
            f"ranks; take a multiple of {world_size}"
        )
    if len(ids) - 1 < batch_size:
        raise DataError(
            f"a text of {len(ids)} tokens has too few predictions ({max(len(ids) - 1, 0)}) for "
            f"batch_size={batch_size} columns; lower batch_size, or take a longer text"
        )
