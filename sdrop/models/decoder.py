"""The decoders of a translator: LSTM layers under attention, with and without input feeding."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sdrop.keys import sequence
from sdrop.models.attention import LuongAttention, Memory
from sdrop.models.language_model import DropoutRates
from sdrop.nn import LSTM, LSTMCell
from sdrop.pattern import DropoutPattern


class DecoderState(NamedTuple):
    """What a decoder carries from word to word.

    Attributes:
        hidden, cell: (L, B, H) of the LSTM layers.
        fed: (1, B, H), the attentional output before, where it is fed in; else None.
    """

    hidden: Tensor
    cell: Tensor
    fed: Tensor | None = None

    def select(self, columns: Tensor) -> DecoderState:
        """The state of `columns` (N,) of the batch, which may come several times."""
        return DecoderState(
            *(None if each is None else each.index_select(1, columns) for each in self)  # type: ignore[arg-type]
        )


class SequenceDecoder(nn.Module):
    """No input feeding: all steps are one sequence of the LSTM, then of the attention.

    Args:
        embedding_dim, hidden_size, num_layers: of the LSTM.
        attention: on top of it.
        rates: `input`, `between` and `recurrent` act.
        pattern, backend: of the LSTM.
    """

    def __init__(
        self,
        embedding_dim: int,
        hidden_size: int,
        num_layers: int,
        attention: LuongAttention,
        rates: DropoutRates,
        pattern: DropoutPattern | None,
        backend: str,
    ) -> None:
        super().__init__()
        self.lstm = LSTM(
            embedding_dim,
            hidden_size,
            num_layers,
            dropout=rates.between if num_layers > 1 else 0.0,
            input_dropout=rates.input,
            recurrent_dropout=rates.recurrent,
            pattern=pattern,
            backend=backend,
        )
        self.attention = attention

    def first_state(self, hidden: Tensor, cell: Tensor) -> DecoderState:
        """The state in front of the first word, from LSTM states (L, B, H)."""
        return DecoderState(hidden, cell)

    def forward(
        self, words: Tensor, memory: Memory, state: DecoderState
    ) -> tuple[Tensor, Tensor, DecoderState]:
        """Outputs (T, B, H), attention weights (T, B, S) and the state after embedded words."""
        hidden, (h, c) = self.lstm(words, (state.hidden, state.cell))
        output, weights = self.attention(hidden, memory)
        return output, weights, DecoderState(h, c)


class FeedingDecoder(nn.Module):
    """Input feeding: each step reads the attentional output of the one before beside its word.

    Arguments as for `SequenceDecoder`; `rates.input` drops word and fed output alike.
    """

    def __init__(
        self,
        embedding_dim: int,
        hidden_size: int,
        num_layers: int,
        attention: LuongAttention,
        rates: DropoutRates,
        pattern: DropoutPattern | None,
        backend: str,
    ) -> None:
        super().__init__()
        self.cells = nn.ModuleList(
            LSTMCell(
                hidden_size if layer else embedding_dim + hidden_size,
                hidden_size,
                input_dropout=rates.between if layer else rates.input,
                recurrent_dropout=rates.recurrent,
                pattern=pattern,
                backend=backend,
            )
            for layer in range(num_layers)
        )
        self.attention = attention

    def first_state(self, hidden: Tensor, cell: Tensor) -> DecoderState:
        """The state in front of the first word, from LSTM states (L, B, H); zeros are fed."""
        return DecoderState(hidden, cell, torch.zeros_like(hidden[:1]))

    def forward(
        self, words: Tensor, memory: Memory, state: DecoderState
    ) -> tuple[Tensor, Tensor, DecoderState]:
        """Outputs (T, B, H), attention weights (T, B, S) and the state after embedded words."""
        assert state.fed is not None
        layers = list(zip(state.hidden.unbind(), state.cell.unbind(), strict=True))
        fed, outputs, attended = state.fed[0], [], []
        with sequence():  # the n-th call of each layer is step n - 1
            for word in words.unbind():
                hidden = torch.cat([word, fed], dim=-1)
                for number, cell in enumerate(self.cells):
                    layers[number] = cell(hidden, layers[number])
                    hidden = layers[number][0]
                fed, weights = self.attention(hidden, memory)
                outputs.append(fed)
                attended.append(weights)
        h, c = (torch.stack(states) for states in zip(*layers, strict=True))
        return torch.stack(outputs), torch.stack(attended), DecoderState(h, c, fed.unsqueeze(0))
