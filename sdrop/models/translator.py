"""An attentional LSTM translator: encoder, decoder with Luong attention, generator."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sdrop.models.attention import AttentionScore, LuongAttention, Memory
from sdrop.models.decoder import DecoderState, FeedingDecoder, SequenceDecoder
from sdrop.models.language_model import (
    IGNORED_TARGET,
    DropoutRates,
    check_init_range,
)
from sdrop.nn import LSTM, Linear
from sdrop.nn.arguments import check_size
from sdrop.nn.k_major import KMajorEmbedding
from sdrop.pattern import DropoutPattern


@dataclass(frozen=True)
class TranslatorSizes:
    """The architecture.

    Attributes:
        embedding_dim: size of a word vector, of both languages.
        hidden_size: H of each decoder layer and of the attentional output.
        num_layers: of the decoder.
        bidirectional: whether the encoder reads both ways.
        encoder_num_layers: of the encoder; None as many as the decoder has.
        encoder_hidden_size: of each encoder layer and direction; None for what makes the encoder's
            output H wide, H / 2 where it is bidirectional.
        attention: the score: dot, general or concat.
        scaled_attention: whether a learnt number multiplies the scores.
        input_feeding: whether the decoder reads its last attentional output beside each word.
        tie_weights: whether the generator's weight is the target embedding's; needs
            embedding_dim = hidden_size.
    """

    embedding_dim: int = 256
    hidden_size: int = 256
    num_layers: int = 2
    bidirectional: bool = True
    encoder_num_layers: int | None = None
    encoder_hidden_size: int | None = None
    attention: AttentionScore = "general"
    scaled_attention: bool = False
    input_feeding: bool = False
    tie_weights: bool = False

    @property
    def directions(self) -> int:
        """In which the encoder reads."""
        return 2 if self.bidirectional else 1

    @property
    def encoder_layers(self) -> int:
        """Layers of the encoder."""
        return self.num_layers if self.encoder_num_layers is None else self.encoder_num_layers

    @property
    def encoder_size(self) -> int:
        """Hidden size of an encoder layer and direction."""
        given = self.encoder_hidden_size
        return self.hidden_size // self.directions if given is None else given

    def __post_init__(self) -> None:
        optional = ("encoder_num_layers", "encoder_hidden_size")
        names = ("embedding_dim", "hidden_size", "num_layers", *optional)
        for name in names:
            if (size := getattr(self, name)) is not None:
                check_size("Translator", name, size, at_least=1)
        if self.tie_weights and self.embedding_dim != self.hidden_size:
            raise ValueError(
                f"tie_weights needs embedding_dim = hidden_size, got embedding_dim="
                f"{self.embedding_dim} and hidden_size={self.hidden_size}"
            )
        last = self.encoder_layers * self.directions * self.encoder_size
        if last != self.num_layers * self.hidden_size or (
            self.encoder_layers * self.directions % self.num_layers
        ):
            raise ValueError(
                f"Translator: the encoder's last states ({self.encoder_layers} layers x "
                f"{self.directions} directions x {self.encoder_size}) must fill the decoder's "
                f"first ({self.num_layers} layers x {self.hidden_size}): leave out "
                "encoder_num_layers and encoder_hidden_size, or, for one bidirectional layer under "
                "two decoder layers, take encoder_num_layers=1 encoder_hidden_size=hidden_size"
            )


class Translator(nn.Module):
    """Translates sentences (Luong et al. 2015), with Sarma et al. 2021's dropout at every GEMM.

    The encoder's last states, layer by layer and forward before reverse, are cut into the decoder's
    layers: two directions of H / 2 make one layer's first state, two of H those of two layers.

    Sites: `rates.input` drops the embeddings of both languages, `between` the output of each layer
    in front of the next, and what the attention layer W_c reads, `recurrent` h_{t-1} of each
    layer, `output` what the generator reads.

    Args:
        source_vocabulary_size, target_vocabulary_size: numbers of words.
        sizes: the architecture.
        rates: dropout of each kind of site.
        pattern: how all of them are shared over batch and time.
        init_range: r, all parameters start from U(-r, r); a scaled attention's factor from 1.
        backend: of all modules.

    Raises:
        ValueError, TypeError: for sizes below 1 or that do not fit together, a range below 0.
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        sizes: TranslatorSizes | None = None,
        *,
        rates: DropoutRates | None = None,
        pattern: DropoutPattern | None = None,
        init_range: float = 0.1,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name in ("source_vocabulary_size", "target_vocabulary_size"):
            check_size("Translator", name, locals()[name], at_least=1)
        sizes, rates = sizes or TranslatorSizes(), rates or DropoutRates()
        self.sizes = sizes
        self.source_embedding = nn.Embedding(source_vocabulary_size, sizes.embedding_dim)
        embedding = KMajorEmbedding if sizes.tie_weights else nn.Embedding
        self.target_embedding = embedding(target_vocabulary_size, sizes.embedding_dim)
        self.encoder = LSTM(
            sizes.embedding_dim,
            sizes.encoder_size,
            sizes.encoder_layers,
            bidirectional=sizes.bidirectional,
            dropout=rates.between if sizes.encoder_layers > 1 else 0.0,
            input_dropout=rates.input,
            recurrent_dropout=rates.recurrent,
            pattern=pattern,
            backend=backend,
        )
        attention = LuongAttention(
            sizes.hidden_size,
            sizes.encoder_size * sizes.directions,
            sizes.attention,
            scaled=sizes.scaled_attention,
            dropout=rates.between,
            pattern=pattern,
            backend=backend,
        )
        decoder = FeedingDecoder if sizes.input_feeding else SequenceDecoder
        self.decoder = decoder(
            sizes.embedding_dim,
            sizes.hidden_size,
            sizes.num_layers,
            attention,
            rates,
            pattern,
            backend,
        )
        self.generator = Linear(
            sizes.hidden_size,
            target_vocabulary_size,
            dropout=rates.output,
            pattern=pattern,
            backend=backend,
        )
        if sizes.tie_weights:
            self.target_embedding.weight = self.generator.weight
        self.reset_parameters(init_range)

    @torch.no_grad()
    def reset_parameters(self, init_range: float) -> None:
        """Draws all parameters from U(-init_range, init_range); the attention's factor is 1.

        Raises:
            ValueError: where the range is negative, infinite or NaN.
        """
        check_init_range("Translator", init_range)
        for parameter in self.parameters():
            parameter.uniform_(-init_range, init_range)
        if self.decoder.attention.scale is not None:
            self.decoder.attention.scale.fill_(1.0)

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor,
        input: Tensor,
        target: Tensor,
        state: None = None,
    ) -> tuple[Tensor, None]:
        """The loss of a batch of sentence pairs.

        Args:
            source: (S, B) word ids, anything behind a sentence's end.
            source_lengths: (B,), each 1 or more.
            input: (T, B) ids of the words before, from the mark of the beginning on.
            target: (T, B) ids of the words to predict; -100 is not counted.
            state: nothing carries over from batch to batch; for the trainer's call.

        Returns:
            the mean negative log-likelihood a counted word, in nats, and None.

        Raises:
            RuntimeError, ValueError: for ids or lengths that do not fit together.
        """
        memory, first = self.encode(source, source_lengths)
        output, _, _ = self.decoder(self.target_embedding(input), memory, first)
        return self.generator.cross_entropy(output, target, ignore_index=IGNORED_TARGET), None

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[Memory, DecoderState]:
        """Source sentences (S, B) to what the decoder attends to, and its first state."""
        if source.dim() != 2 or source_lengths.shape != source.shape[1:]:
            raise RuntimeError(
                f"Translator: expected source word ids (steps, batch) and as many lengths, got "
                f"shapes {tuple(source.shape)} and {tuple(source_lengths.shape)}"
            )
        lengths = source_lengths.cpu()
        packed = pack_padded_sequence(self.source_embedding(source), lengths, enforce_sorted=False)
        encoded, (h, c) = self.encoder(packed)
        values, _ = pad_packed_sequence(encoded, total_length=source.shape[0])
        hidden, cell = (self._decoder_layers(last) for last in (h, c))
        memory = self.decoder.attention.remember(values, source_lengths)
        return memory, self.decoder.first_state(hidden, cell)

    def _decoder_layers(self, last: Tensor) -> Tensor:
        """The encoder's last states, as those of the decoder's layers. # shape: (L, B, H)"""
        batch = last.shape[1]
        cut = last.view(self.sizes.num_layers, -1, batch, last.shape[2]).transpose(1, 2)
        return cut.reshape(self.sizes.num_layers, batch, self.sizes.hidden_size)

    def next_word(
        self, words: Tensor, memory: Memory, state: DecoderState
    ) -> tuple[Tensor, Tensor, DecoderState]:
        """One step of decoding.

        Args:
            words: (N,) ids of the words written last.
            memory, state: of the N hypotheses.

        Returns:
            log-probabilities of the next word (N, V), attention weights (N, S), and the state.
        """
        embedded = self.target_embedding(words.unsqueeze(0))
        output, weights, state = self.decoder(embedded, memory, state)
        scores = self.generator(output[0])
        # Sums over a sentence need more digits than half precision has.
        exact = torch.promote_types(scores.dtype, torch.float32)
        return torch.log_softmax(scores, dim=-1, dtype=exact), weights[0], state

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in asdict(self.sizes).items())
