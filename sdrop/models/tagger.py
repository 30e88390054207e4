"""A tagger: words and their spelling, an LSTM in both directions, a CRF or a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sdrop.models.language_model import DropoutRates
from sdrop.models.spelling import SpellingCNN, SpellingLSTM
from sdrop.nn import CRF, LSTM, Linear
from sdrop.nn.arguments import check_size
from sdrop.nn.crf import in_float32
from sdrop.pattern import DropoutPattern

SPELLINGS = ("lstm", "cnn", "none")
OUTPUTS = ("crf", "softmax")


class Tagger(nn.Module):
    """Predicts a tag a token (Lample et al. 2016; Ma & Hovy 2016), with structured dropout.

    Args:
        num_words, num_characters, num_tags: sizes of the vocabularies; word 0 is the unknown one,
            character 0 padding.
        num_capitals: number of ways to write a word.
        embedding_dim: of a word.
        hidden_size: H of each direction.
        num_layers: L.
        spelling: "lstm" or "cnn" over the characters, or "none".
        character_dim, spelling_size: of a character, and of the spelling's LSTM (each direction)
            or its filters.
        capital_dim: of the embedding of how a word is written; 0 for none.
        hidden_layer: whether a tanh layer of size H stands in front of the scores.
        output: "crf" or "softmax".
        constraints: of the CRF.
        rates: `input` in front of the word LSTM and (with `drop_spelling`) of the spelling,
            `between` its layers, `recurrent` in it and in the spelling's LSTM, `output` in front
            of the scores.
        drop_spelling: whether anything is dropped inside the spelling.
        pattern: how all masks are shared.
        backend: of the LSTMs and the linear layers.

    Raises:
        ValueError, TypeError: for sizes below 1 or another spelling or output.
    """

    def __init__(
        self,
        num_words: int,
        num_characters: int,
        num_tags: int,
        *,
        num_capitals: int = 1,
        embedding_dim: int = 100,
        hidden_size: int = 200,
        num_layers: int = 1,
        spelling: str = "cnn",
        character_dim: int = 30,
        spelling_size: int = 30,
        capital_dim: int = 0,
        hidden_layer: bool = False,
        output: str = "crf",
        constraints: Sequence[Tensor] | None = None,
        rates: DropoutRates | None = None,
        drop_spelling: bool = True,
        pattern: DropoutPattern | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        sizes = {"num_words": num_words, "num_characters": num_characters, "num_tags": num_tags}
        for name, size in sizes.items():
            check_size("Tagger", name, size, at_least=1)
        for name, value, choices in (
            ("spelling", spelling, SPELLINGS),
            ("output", output, OUTPUTS),
        ):
            if value not in choices:
                raise ValueError(f"Tagger({name}={value!r}): expected one of {', '.join(choices)}")
        rates = rates or DropoutRates()
        within = rates if drop_spelling else DropoutRates()
        self.embedding = nn.Embedding(num_words, embedding_dim)
        self.capitals = nn.Embedding(num_capitals, capital_dim) if capital_dim else None
        self.spelling: SpellingLSTM | SpellingCNN | None = None
        if spelling == "lstm":
            self.spelling = SpellingLSTM(
                num_characters,
                character_dim,
                spelling_size,
                dropout=within.input,
                recurrent_dropout=within.recurrent,
                pattern=pattern,
                backend=backend,
            )
        elif spelling == "cnn":
            self.spelling = SpellingCNN(
                num_characters, character_dim, spelling_size, dropout=within.input, pattern=pattern
            )
        spelt = self.spelling.output_size if self.spelling is not None else 0
        self.lstm = LSTM(
            embedding_dim + spelt + capital_dim,
            hidden_size,
            num_layers,
            bidirectional=True,
            dropout=rates.between if num_layers > 1 else 0.0,
            input_dropout=rates.input,
            recurrent_dropout=rates.recurrent,
            pattern=pattern,
            backend=backend,
        )
        drop: dict[str, Any] = {"dropout": rates.output, "pattern": pattern, "backend": backend}
        self.hidden = Linear(2 * hidden_size, hidden_size, **drop) if hidden_layer else None
        self.scores = Linear(
            hidden_size if hidden_layer else 2 * hidden_size,
            num_tags,
            **drop | ({"dropout": 0.0} if hidden_layer else {}),
        )
        self.crf = CRF(num_tags, constraints) if output == "crf" else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """As Ma & Hovy 2016, section 3.1: embeddings from U(-√(3/d), √(3/d)), matrices from
        U(-√(6/(rows + columns)), …), biases 0, the forget gates' 1."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                bound = math.sqrt(3 / module.embedding_dim)
                module.weight.uniform_(-bound, bound)
                if module.padding_idx is not None:
                    module.weight[module.padding_idx].zero_()
            elif isinstance(module, LSTM | nn.Linear):
                for name, parameter in module.named_parameters():
                    self._reset(module, name, parameter)

    def forward(
        self,
        words: Tensor,
        tags: Tensor,
        batch_sizes: Tensor,
        *,
        forms: Tensor,
        characters: Tensor,
        character_lengths: Tensor,
        capitals: Tensor,
        state: None = None,
    ) -> tuple[Tensor, None]:
        """The loss of a batch of packed rows (see `sdrop.data.TagBatches`).

        Args:
            words, tags, capitals: number of each row's word, tag and way of writing. # shape: (N,)
            batch_sizes: sentences that reach each step. # shape: (T,)
            forms: which of the spelt forms each row has. # shape: (N,)
            characters, character_lengths: the forms, the longest first. # shape: (U, L), (U,)
            state: nothing is carried over; it stands here for the trainer.

        Returns:
            the mean negative log-likelihood a token, in nats, and None.
        """
        scores = self.emissions(
            words,
            batch_sizes,
            forms=forms,
            characters=characters,
            character_lengths=character_lengths,
            capitals=capitals,
        )
        return self.loss(scores, tags), None

    def emissions(
        self,
        words: Tensor,
        batch_sizes: Tensor,
        *,
        forms: Tensor,
        characters: Tensor,
        character_lengths: Tensor,
        capitals: Tensor,
    ) -> PackedSequence:
        """The score of each tag at each row, (N, num_tags) as a packed batch."""
        parts = [self.embedding(words)]
        if self.spelling is not None:
            parts.append(self.spelling(characters, character_lengths)[forms])
        if self.capitals is not None:
            parts.append(self.capitals(capitals))
        packed = PackedSequence(torch.cat(parts, dim=1), batch_sizes.cpu())
        output, _ = self.lstm(packed)
        if self.hidden is not None:
            output = self.hidden(output)
            output = output._replace(data=output.data.tanh())
        scores: PackedSequence = self.scores(output)
        return scores

    def loss(self, scores: PackedSequence, tags: Tensor) -> Tensor:
        """The mean negative log-likelihood of a tag, in nats; 0-dim."""
        if self.crf is None:
            return nn.functional.cross_entropy(in_float32(scores.data), tags)
        likelihood: Tensor = self.crf(scores, tags).sum()
        return -likelihood / len(tags)

    def decode(self, scores: PackedSequence) -> Tensor:
        """The best tags, int64 (N,): of whole sentences by the CRF, else one by one."""
        return scores.data.argmax(1) if self.crf is None else self.crf.decode(scores)

    @staticmethod
    def _reset(module: nn.Module, name: str, parameter: Tensor) -> None:
        if parameter.dim() == 2:
            # An LSTM's four gates are matrices of their own.
            rows = parameter.shape[0] // (4 if isinstance(module, LSTM) else 1)
            bound = math.sqrt(6 / (rows + parameter.shape[1]))
            parameter.uniform_(-bound, bound)
            return
        parameter.zero_()
        if name.startswith("bias_ih"):
            size = len(parameter) // 4
            parameter[size : 2 * size].fill_(1.0)
