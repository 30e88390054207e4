"""Batches of tagged sentences, of about one length each, as packed rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sdrop.data.batches import Batch, Batches
from sdrop.data.columns import Sentence
from sdrop.data.errors import DataError
from sdrop.data.forms import FormEncoder, Forms

Numbers = npt.NDArray[np.int64]

_POOL = 50  # batches that are sorted by length together


@dataclass(frozen=True)
class EncodedSentences:
    """Sentences as numbers, one after the other.

    Attributes:
        forms: number of each token's form in `table`. # shape: (N,)
        tags: number of each token's tag; empty where there are none. # shape: (N,) or (0,)
        lengths: tokens of each sentence. # shape: (S,)
        table: the distinct forms.
    """

    forms: Tensor
    tags: Tensor
    lengths: Tensor
    table: Forms

    @staticmethod
    def of(
        tokens: Sequence[Sequence[str]], encoder: FormEncoder, tags: Tensor | None = None
    ) -> EncodedSentences:
        """Encodes sentences, each with a token at least.

        Args:
            tokens: of each sentence.
            encoder: what is known of forms.
            tags: numbers of all tags, one sentence after the other.

        Raises:
            DataError: for a sentence without a token.
        """
        if not all(tokens):
            raise DataError("a sentence without a token cannot be encoded: leave it out")
        numbers: dict[str, int] = {}
        forms = [numbers.setdefault(token, len(numbers)) for each in tokens for token in each]
        return EncodedSentences(
            torch.tensor(forms, dtype=torch.int64),
            torch.empty(0, dtype=torch.int64) if tags is None else tags,
            torch.tensor([len(each) for each in tokens], dtype=torch.int64),
            encoder(list(numbers)),
        )


def tag_numbers(sentences: Sequence[Sentence], names: Sequence[str]) -> Tensor:
    """The tags of all sentences as places in `names`, int64 (N,).

    Raises:
        DataError: for a tag that is not among them, with its line where there is a file.
    """
    number = {name: place for place, name in enumerate(names)}
    for each in sentences:
        for place, tag in enumerate(each.tags):
            if tag not in number:
                line = f"line {each.lines[place]}: " if each.lines else ""
                raise DataError(f"{line}the tag {tag!r} is none of {', '.join(names)}")
    return torch.tensor([number[tag] for each in sentences for tag in each.tags])


class TagBatches(Batches):
    """Sentences in batches of about one length, in an order that follows from (seed, epoch).

    Sentences are shuffled, those of fifty batches sorted by length and cut into batches, and the
    batches shuffled. Within a batch the longest comes first, as packed rows want it, and each
    distinct form is spelt once.

    A batch holds `words`, `capitals`, `tags`, `forms` (N,), the number of a row's form among the
    batch's, its `characters` (U, L) with `character_lengths` (U,), and `batch_sizes` (T,), how many
    sentences reach each step.

    Args:
        sentences: what to give; each sentence of an epoch once.
        batch_size: sentences over all ranks together.
        seed: of the order and of the words that are hidden.
        word_dropout: share of words given as unknown, in [0, 1).
        rare_dropout: share of the words given as unknown that the training text has once only
            (Lample et al. 2016, section 4.3), in [0, 1).
        unknown: number of the unknown word.
        rank, world_size: which of the equal shares to give.

    Raises:
        DataError: for sizes that do not fit.
    """

    stateful = False

    def __init__(
        self,
        sentences: EncodedSentences,
        *,
        batch_size: int,
        seed: int = 0,
        word_dropout: float = 0.0,
        rare_dropout: float = 0.0,
        unknown: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if batch_size < 1 or batch_size % world_size:
            raise DataError(
                f"batch_size={batch_size} sentences cannot be shared out equally among "
                f"{world_size} ranks; take a multiple of {world_size}"
            )
        self.sentences, self.batch_size, self.seed = sentences, batch_size, seed
        self.word_dropout, self.rare_dropout, self.unknown = word_dropout, rare_dropout, unknown
        self.rank, self.world_size = rank, world_size
        self._lengths = sentences.lengths.numpy()
        self._begins = self._lengths.cumsum() - self._lengths

    def __len__(self) -> int:
        return -(-len(self._lengths) // self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of `epoch` (from 0), the first `start` of them skipped without work."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        batches = self._order(generator)
        words = self._words(generator)
        for batch in batches[start:]:
            yield self._batch(batch, words)[0]

    def placed(self) -> Iterator[tuple[Batch, Tensor]]:
        """Every sentence once, the longest first, no word hidden: each batch, and which token of
        all (by number, in the order of the sentences) each of its rows is. # shape: (N,)"""
        order = np.argsort(-self._lengths, kind="stable")[self.rank :: self.world_size]
        words = self.sentences.table.words[self.sentences.forms]
        for begin in range(0, len(order), self.batch_size):
            yield self._batch(order[begin : begin + self.batch_size], words, shared=False)

    def _order(self, generator: np.random.Generator) -> list[Numbers]:
        """The sentences of each batch over all ranks."""
        count, size = len(self._lengths), self.batch_size
        order = generator.permutation(count)
        batches = []
        for begin in range(0, count, size * _POOL):
            pool = order[begin : begin + size * _POOL]
            pool = pool[np.argsort(self._lengths[pool], kind="stable")]
            batches += [pool[place : place + size] for place in range(0, len(pool), size)]
        return [batches[place] for place in generator.permutation(len(batches))]

    def _words(self, generator: np.random.Generator) -> Tensor:
        """Number of each token's word in this epoch; some are hidden. # shape: (N,)"""
        table, forms = self.sentences.table, self.sentences.forms
        words = table.words[forms]
        if not (self.word_dropout or self.rare_dropout):
            return words
        drawn = torch.from_numpy(generator.random(len(words), dtype=np.float32))
        least = torch.where(table.rare[forms], self.rare_dropout, 0.0).clamp_min(self.word_dropout)
        return words.masked_fill(drawn < least, self.unknown)

    def _batch(
        self, sentences: Numbers, words: Tensor, *, shared: bool = True
    ) -> tuple[Batch, Tensor]:
        mine = sentences[self.rank :: self.world_size] if shared else sentences
        counted = len(mine) > 0
        if not counted:  # every rank takes each step; this one adds nothing to it
            mine = sentences[:1]
        mine = mine[np.argsort(-self._lengths[mine], kind="stable")]
        lengths, begins = self._lengths[mine], self._begins[mine]
        steps = np.arange(lengths[0])[:, None]
        live = steps < lengths
        places = torch.from_numpy((steps + begins)[live])
        arguments = {"words": words[places], **self._spelling(self.sentences.forms[places])}
        arguments["batch_sizes"] = torch.from_numpy(live.sum(1))
        if len(self.sentences.tags):
            arguments["tags"] = self.sentences.tags[places]
        return Batch(arguments, counted * len(places), counted * len(mine)), places

    def _spelling(self, rows: Tensor) -> dict[str, Tensor]:
        """What follows from the forms of the rows, each distinct form once, the longest first."""
        table = self.sentences.table
        distinct, forms = torch.unique(rows, return_inverse=True)
        lengths, order = table.lengths[distinct].sort(descending=True, stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        return {
            "capitals": table.capitals[rows],
            "forms": place[forms],
            "characters": table.characters[distinct[order], : int(lengths[0])],
            "character_lengths": lengths,
        }
