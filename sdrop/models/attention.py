"""Luong attention (Luong, Pham & Manning 2015, arXiv 1508.04025): global, in three scores."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from sdrop.nn import Linear
from sdrop.pattern import DropoutPattern

AttentionScore = Literal["dot", "general", "concat"]


class Memory(NamedTuple):
    """A batch of encoded source sentences.

    Attributes:
        values: (B, S, M), the encoder's output, from which contexts are made.
        keys: (B, S, H), what queries are held against.
        padding: (B, S), True behind a sentence's end.
    """

    values: Tensor
    keys: Tensor
    padding: Tensor

    def select(self, sentences: Tensor) -> Memory:
        """The memory of `sentences` (N,), numbers of the batch, which may come several times."""
        return Memory(*(each.index_select(0, sentences) for each in self))


class LuongAttention(nn.Module):
    """The attentional output tanh(W_c [c_t; h_t]) of decoder states h_t.

    The context c_t is the mean of the memory's values by the weights a_t = softmax(score(h_t, .)):
    `dot` h_t . v_s; `general` h_t . W_a v_s; `concat` e . tanh(W_q h_t + W_a v_s).

    Args:
        hidden_size: H of the decoder and of the output.
        memory_size: M of the encoder's output; `dot` wants M = H.
        score: one of the three.
        scaled: multiply scores by a learnt number, which starts at 1.
        dropout: rate in front of W_c, in [0, 1).
        pattern: how that is shared over batch and time.
        backend: of the linear layers.

    Raises:
        ValueError: for an unknown score, or `dot` with other sizes.
    """

    def __init__(
        self,
        hidden_size: int,
        memory_size: int,
        score: AttentionScore = "general",
        *,
        scaled: bool = False,
        dropout: float = 0.0,
        pattern: DropoutPattern | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if score not in get_args(AttentionScore):
            names = ", ".join(get_args(AttentionScore))
            raise ValueError(f"LuongAttention: expected a score of {names}, got {score!r}")
        if score == "dot" and memory_size != hidden_size:
            raise ValueError(
                f"LuongAttention: score='dot' needs an encoder output of hidden_size="
                f"{hidden_size} features, got {memory_size}: take score='general'"
            )
        self.score = score
        self.key: Linear | None = None
        self.query: Linear | None = None
        self.energy: Linear | None = None
        if score != "dot":
            self.key = Linear(memory_size, hidden_size, bias=False, backend=backend)
        if score == "concat":
            self.query = Linear(hidden_size, hidden_size, bias=False, backend=backend)
            self.energy = Linear(hidden_size, 1, bias=False, backend=backend)
        self.scale = nn.Parameter(torch.ones(())) if scaled else None
        self.output = Linear(
            memory_size + hidden_size,
            hidden_size,
            bias=False,
            dropout=dropout,
            pattern=pattern,
            backend=backend,
        )

    def remember(self, encoded: Tensor, lengths: Tensor) -> Memory:
        """The memory of an encoder's output (S, B, M) over sentences of `lengths` (B,)."""
        values = encoded.transpose(0, 1).contiguous()
        steps = torch.arange(values.shape[1], device=values.device)
        padding = steps >= lengths.to(values.device).unsqueeze(1)
        return Memory(values, values if self.key is None else self.key(values), padding)

    def forward(self, hidden: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Attentional outputs and attention weights.

        Args:
            hidden: decoder states (T, B, H), or those of one step (B, H).
            memory: of the B sentences.

        Returns:
            outputs in the form of `hidden`, and weights (T, B, S) or (B, S).
        """
        one_step = hidden.dim() == 2
        queries = hidden.unsqueeze(1) if one_step else hidden.transpose(0, 1)
        scores = self._scores(queries, memory.keys)  # shape: (B, T, S)
        if self.scale is not None:
            scores = scores * self.scale
        scores = scores.masked_fill(memory.padding.unsqueeze(1), -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        context = weights @ memory.values  # shape: (B, T, M)
        if one_step:
            context, weights = context.squeeze(1), weights.squeeze(1)
        else:
            context, weights = context.transpose(0, 1), weights.transpose(0, 1)
        return torch.tanh(self.output(torch.cat([context, hidden], dim=-1))), weights

    def _scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.query is None or self.energy is None:
            return queries @ keys.transpose(1, 2)
        sums = self.query(queries).unsqueeze(2) + keys.unsqueeze(1)  # shape: (B, T, S, H)
        scores: Tensor = self.energy(torch.tanh(sums)).squeeze(-1)
        return scores
