"""An LSTM language model: embedding, LSTM layers, decoder, with dropout at four kinds of site."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from sdrop.nn import LSTM, Linear
from sdrop.nn.arguments import check_size
from sdrop.nn.k_major import KMajorEmbedding
from sdrop.pattern import DropoutPattern, check_rate

State = tuple[Tensor, Tensor]

IGNORED_TARGET = -100
"""A target that is not counted, as in `torch.nn.functional.cross_entropy`."""


@dataclass(frozen=True)
class DropoutRates:
    """The share of neurons to drop at each kind of site, in [0, 1).

    Attributes:
        input: the embedding's output, in front of the first layer.
        between: the output of each layer but the last.
        recurrent: h_{t-1} of each layer on its way into the gates.
        output: the last layer's output, in front of the decoder.
    """

    input: float = 0.0
    between: float = 0.0
    recurrent: float = 0.0
    output: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            check_rate(f"DropoutRates.{field.name}", getattr(self, field.name))


def check_init_range(model: str, init_range: float) -> None:
    """Raises ValueError where the range is negative, infinite or NaN."""
    if not 0.0 <= init_range < math.inf:
        raise ValueError(f"{model}: expected init_range to be a number >= 0, got {init_range}")


class LanguageModel(nn.Module):
    """Predicts each next word (Zaremba et al. 2014, with Sarma et al. 2021's dropout).

    Args:
        vocabulary_size: V.
        embedding_dim: size of a word vector.
        hidden_size: H of each LSTM layer.
        num_layers: L.
        tie_weights: the decoder's weight is the embedding's; needs embedding_dim = hidden_size.
        rates: dropout of each kind of site.
        pattern: how all of them are shared over batch and time.
        init_range: r, all parameters start from U(-r, r).
        backend: of the LSTM and the decoder.

    Raises:
        ValueError, TypeError: for sizes below 1, a range below 0, tied weights of different sizes.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_dim: int = 256,
        hidden_size: int = 256,
        num_layers: int = 2,
        tie_weights: bool = False,
        rates: DropoutRates | None = None,
        pattern: DropoutPattern | None = None,
        init_range: float = 0.05,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        sizes = {"vocabulary_size": vocabulary_size, "embedding_dim": embedding_dim}
        for name, size in (sizes | {"hidden_size": hidden_size, "num_layers": num_layers}).items():
            check_size("LanguageModel", name, size, at_least=1)
        if tie_weights and embedding_dim != hidden_size:
            raise ValueError(
                f"tie_weights needs embedding_dim = hidden_size, got embedding_dim={embedding_dim} "
                f"and hidden_size={hidden_size}"
            )
        if not isinstance(rates, DropoutRates | None):
            raise TypeError(f"LanguageModel: expected rates to be DropoutRates, got {rates!r}")
        rates = rates or DropoutRates()
        embedding = KMajorEmbedding if tie_weights else nn.Embedding
        self.embedding = embedding(vocabulary_size, embedding_dim)
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
        self.decoder = Linear(
            hidden_size, vocabulary_size, dropout=rates.output, pattern=pattern, backend=backend
        )
        if tie_weights:
            self.embedding.weight = self.decoder.weight  # K-major, as the packed GEMMs want it
        self.reset_parameters(init_range)

    @torch.no_grad()
    def reset_parameters(self, init_range: float) -> None:
        """Draws all parameters from U(-init_range, init_range).

        Raises:
            ValueError: where the range is negative, infinite or NaN.
        """
        check_init_range("LanguageModel", init_range)
        for parameter in self.parameters():
            parameter.uniform_(-init_range, init_range)

    def forward(
        self, input: Tensor, target: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """The loss of a window and the state at its end.

        Args:
            input: (T, B) word ids.
            target: (T, B) ids of the words that follow; -100 is not counted.
            state: (h, c), each (L, B, H), at the end of the window before; default zeros.

        Returns:
            the mean negative log-likelihood a counted word, in nats, and the state, which still
            hangs in the graph: detach it between windows.

        Raises:
            RuntimeError: for ids that are not (T, B) or on another device.
        """
        output, state = self._hidden(input, state)
        return self.decoder.cross_entropy(output, target, ignore_index=IGNORED_TARGET), state

    def logits(self, input: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """(T, B) word ids to (T, B, V) scores of the next word, and the state."""
        output, state = self._hidden(input, state)
        return self.decoder(output), state

    def _hidden(self, input: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The last layer's output (T, B, H) and the state."""
        device = self.embedding.weight.device
        if input.dim() != 2 or input.device != device:
            raise RuntimeError(
                f"LanguageModel: expected word ids of shape (time, batch) on {device}, got shape "
                f"{tuple(input.shape)} on {input.device}"
            )
        output, state = self.lstm(self.embedding(input), state)
        return output, state
