"""Batches of sentence pairs of similar length, in an order that follows from seed and epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sdrop.data.batches import NOT_COUNTED, Batch, Batches
from sdrop.data.errors import DataError

BatchUnit = Literal["sentences", "tokens"]


class Pair(NamedTuple):
    """Word numbers of a sentence and of its translation, int64, without their marks."""

    source: Tensor
    target: Tensor


class TranslationBatches(Batches):
    """Pairs in batches of similar length: little of a batch is padding.

    Within an epoch every pair comes once. Pairs are shuffled, sorted by length (so pairs of equal
    lengths change their company from epoch to epoch), cut into batches, and the batches shuffled.
    Without `shuffle` the order is that of the lengths, always.

    A batch holds `source` (S, B) and `source_lengths` (B,), the decoder's `input` (T, B), which
    starts with `begin`, and `target` (T, B), which ends with `end` and is -100 after it.

    Args:
        pairs: what to train or measure on; a source of no word reads as `end` alone.
        batch_size: the most of `unit` over all ranks together.
        unit: `"sentences"`, or `"tokens"`: sentences times the longest of their sources and
            targets, padding counted; a longer sentence is a batch of its own.
        begin, end: numbers of the marks `<s>` and `</s>` of the target; sources are padded by
            `end`, which `source_lengths` leaves out.
        seed: of the order.
        shuffle: whether there is an order to draw.
        rank: which of the equal shares of each batch to give, from 0.
        world_size: number of shares.

    Raises:
        DataError: for no pair, a batch size below 1, or a rank that is none.
    """

    stateful = False

    def __init__(
        self,
        pairs: Sequence[Pair],
        *,
        batch_size: int,
        begin: int,
        end: int,
        unit: BatchUnit = "sentences",
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if not pairs:
            raise DataError("batches of no sentence pairs: expected at least one")
        if batch_size < 1:
            raise DataError(f"expected batch_size of 1 or more, got {batch_size}")
        if not 0 <= rank < world_size:
            raise DataError(f"expected a rank of 0 to {world_size - 1}, got {rank}")
        self.pairs, self.begin, self.end = pairs, begin, end
        self.seed, self.shuffle, self.rank, self.world_size = seed, shuffle, rank, world_size
        self._lengths = [(len(pair.target), len(pair.source)) for pair in pairs]
        in_order = sorted(self._lengths)
        self._bounds = list(_cut(in_order, batch_size, unit))

    def __len__(self) -> int:
        return len(self._bounds)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of `epoch` (from 0), the first `start` of them skipped without work."""
        drawn = random.Random(f"{self.seed} {epoch}")
        order = list(range(len(self.pairs)))
        bounds = list(self._bounds)
        if self.shuffle:
            drawn.shuffle(order)
            drawn.shuffle(bounds)
        order.sort(key=lambda number: self._lengths[number])
        for first, last in bounds[start:]:
            yield self._batch(order[first:last])

    def _batch(self, numbers: list[int]) -> Batch:
        mine = numbers[self.rank :: self.world_size]
        counts = bool(mine)
        pairs = [self.pairs[number] for number in mine or numbers[:1]]
        arguments = self._arguments(pairs)
        if not counts:  # fewer sentences than ranks: this one goes along and counts nothing
            arguments["target"].fill_(NOT_COUNTED)
        tokens = sum(len(pair.target) + 1 for pair in pairs) if counts else 0
        return Batch(arguments, tokens, len(mine))

    def _arguments(self, pairs: list[Pair]) -> dict[str, Tensor]:
        begin, end = torch.tensor([self.begin]), torch.tensor([self.end])
        sources = [pair.source if len(pair.source) else end for pair in pairs]
        inputs = [torch.cat([begin, pair.target]) for pair in pairs]
        targets = [torch.cat([pair.target, end]) for pair in pairs]
        return {
            "source": pad_sequence(sources, padding_value=self.end),
            "source_lengths": torch.tensor([len(source) for source in sources]),
            "input": pad_sequence(inputs, padding_value=self.end),
            "target": pad_sequence(targets, padding_value=NOT_COUNTED),
        }


def _cut(
    lengths: Sequence[tuple[int, int]], batch_size: int, unit: BatchUnit
) -> Iterator[tuple[int, int]]:
    """First and last + 1 of each batch of pairs in the order of their lengths."""
    first, longest = 0, 0
    for number, (target, source) in enumerate(lengths):
        longest = max(longest, target + 1, source)
        size = number + 1 - first
        if (size if unit == "sentences" else size * longest) > batch_size and size > 1:
            yield first, number
            first, longest = number, max(target + 1, source)
    yield first, len(lengths)
