"""What every way of decoding shares: settings, what is found, and a step of several models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DecodingSettings:
    """How translations are searched for.

    A finished hypothesis Y of the source X is scored log P(Y|X) / ((5 + |Y|) / 6)^length_penalty +
    coverage_penalty * sum over s of log min(1, sum over t of a_ts) (Wu et al. 2016, eq. 14); |Y|
    counts the end of the sentence.

    Args:
        beam_size: hypotheses kept at each step; 1 takes the likeliest word each time.
        length_penalty: 0 prefers short sentences, 1 nearly the mean log-probability a word.
        coverage_penalty: 0 or more, against leaving source words out.
        max_length_ratio, max_length_extra: a translation has at most ratio * source length + extra
            words.
        n_best: how many of a sentence's hypotheses to return, at most `beam_size`.

    Raises:
        ValueError: for a value out of range.
    """

    beam_size: int = 5
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    max_length_ratio: float = 2.0
    max_length_extra: int = 10
    n_best: int = 1

    def __post_init__(self) -> None:
        for name in ("beam_size", "n_best"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected 1 or more")
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best={self.n_best}: a beam of beam_size={self.beam_size} finds no more than "
                "that many"
            )
        for name in ("length_penalty", "coverage_penalty", "max_length_ratio", "max_length_extra"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)}: expected a number of 0 or more")

    def max_lengths(self, source_lengths: Tensor) -> Tensor:
        """The most words of each translation, not counting its end. # shape: (B,)"""
        return (source_lengths * self.max_length_ratio).long() + self.max_length_extra

    def normalizer(self, length: int) -> float:
        """What the log-probability of a hypothesis of so many words and its end is divided by."""
        return float(((5 + length + 1) / 6) ** self.length_penalty)


class Hypothesis(NamedTuple):
    """A finished translation.

    Attributes:
        words: word ids, without the marks.
        score: as in `DecodingSettings`; hypotheses are ranked by it.
        log_probability: log P of the words and the end.
        attended: for each word the source position with the most attention.
    """

    words: list[int]
    score: float
    log_probability: float
    attended: list[int]


class Decodable(Protocol):
    """A model that can be decoded, such as `sdrop.models.Translator`."""

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[Any, Any]:
        """The memory and the first state; both have `select(indices)`."""

    def next_word(self, words: Tensor, memory: Any, state: Any) -> tuple[Tensor, Tensor, Any]:
        """Log-probabilities (N, V), attention (N, S) and the state after `words` (N,)."""


class Ensemble:
    """Models that translate together: the mean of their probabilities, and of their attention.

    Args:
        models: one or more, with one vocabulary.
        source: (S, B) word ids.
        source_lengths: (B,).

    Raises:
        ValueError: for no model.
    """

    def __init__(self, models: Sequence[Decodable], source: Tensor, source_lengths: Tensor) -> None:
        if not models:
            raise ValueError("expected a model or more to decode with")
        self.models = models
        encoded = [model.encode(source, source_lengths) for model in models]
        self.memories, self.states = [each[0] for each in encoded], [each[1] for each in encoded]

    def step(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (N, V) and attention (N, S) after `words` (N,)."""
        found = [
            model.next_word(words, memory, state)
            for model, memory, state in zip(self.models, self.memories, self.states, strict=True)
        ]
        self.states = [state for _, _, state in found]
        if len(found) == 1:
            return found[0][0], found[0][1]
        log_probabilities = torch.stack([each[0] for each in found])
        mean = torch.logsumexp(log_probabilities, dim=0) - math.log(len(found))
        return mean, torch.stack([each[1] for each in found]).mean(dim=0)

    def select(self, rows: Tensor, *, other_sentences: bool = True) -> None:
        """Goes on with `rows` (N,); where they are of the same sentences, the memory stays."""
        self.states = [state.select(rows) for state in self.states]
        if other_sentences:
            self.memories = [memory.select(rows) for memory in self.memories]
