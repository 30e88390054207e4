"""What the characters of a word say about it: a vector a form, by an LSTM or a convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from sdrop.nn import LSTM, Dropout
from sdrop.pattern import DropoutPattern

_WINDOW = 3


class SpellingLSTM(nn.Module):
    """The last states of an LSTM in both directions over the characters (Lample et al. 2016).

    Args:
        num_characters: size of the vocabulary; character 0 is padding.
        embedding_dim: of a character.
        hidden_size: of each direction.
        dropout: rate on the characters' embeddings.
        recurrent_dropout: rate on the hidden state.
        pattern, backend: as in `sdrop.LSTM`.
    """

    def __init__(
        self,
        num_characters: int,
        embedding_dim: int,
        hidden_size: int,
        *,
        dropout: float,
        recurrent_dropout: float,
        pattern: DropoutPattern | None,
        backend: str,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_characters, embedding_dim)
        self.lstm = LSTM(
            embedding_dim,
            hidden_size,
            bidirectional=True,
            input_dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            pattern=pattern,
            backend=backend,
        )
        self.output_size = 2 * hidden_size

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """(U, L) characters of U forms, the longest first, to (U, output_size)."""
        packed = pack_padded_sequence(characters.t(), lengths.cpu())
        _, (last, _) = self.lstm(packed._replace(data=self.embedding(packed.data)))
        return torch.cat([last[0], last[1]], dim=1)


class SpellingCNN(nn.Module):
    """The greatest of each filter's values over the characters (Ma & Hovy 2016).

    Args:
        num_characters: size of the vocabulary; character 0 is padding.
        embedding_dim: of a character.
        filters: how many, each of three characters.
        dropout: rate on the characters' embeddings.
        pattern: of that dropout.
    """

    def __init__(
        self,
        num_characters: int,
        embedding_dim: int,
        filters: int,
        *,
        dropout: float,
        pattern: DropoutPattern | None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_characters, embedding_dim, padding_idx=0)
        self.drop = Dropout(dropout, pattern)
        self.convolution = nn.Conv1d(embedding_dim, filters, _WINDOW, padding=_WINDOW // 2)
        self.output_size = filters

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """(U, L) characters of U forms to (U, output_size)."""
        spelt = self.drop(self.embedding(characters.t()))  # (L, U, D)
        values = self.convolution(spelt.permute(1, 2, 0))  # (U, F, L)
        padding = torch.arange(values.shape[2], device=values.device) >= lengths.unsqueeze(1)
        greatest: Tensor = values.masked_fill(padding.unsqueeze(1), -torch.inf).amax(2)
        return greatest
