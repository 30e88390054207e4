"""The step `translator`: a whole training step of the translation recipe, against stock modules.

Sizes of the published IWSLT De-En model: a bidirectional encoder and a decoder of two layers of
500, general attention, 20,000 words on both sides; sentences of 25 words. Without input feeding,
as the recipe trains by default. `translator` drops half at every site, `translator-p.3` and
`translator-p.2` as much as the published models.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sdrop.benchmark.comparison import Comparison
from sdrop.benchmark.rows import Pair, Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.step import sdrop_candidate, stock_candidate
from sdrop.benchmark.timing import Candidate
from sdrop.benchmark.variants import VARIANTS
from sdrop.benchmark.work import Work, gemm_work, layer_work
from sdrop.models import DropoutRates, Translator, TranslatorSizes
from sdrop.nn import Linear

LAYERS = 2
_PHASES = 3
TRANSLATORS = {
    name: Shape(name, 25, 64, 500, 500, rate=rate, vocabulary_size=20_000)
    for name, rate in (("translator", 0.5), ("translator-p.3", 0.3), ("translator-p.2", 0.2))
}


class StockTranslator(nn.Module):
    """The translator of stock modules, with `nn.Dropout`'s masks outside the recurrence.

    Sentences are of one length here, so its LSTMs take padded input, which is faster than packed.

    Args:
        shape: sizes and the rate of dropout.
        drops: whether anything is dropped.
    """

    def __init__(self, shape: Shape, *, drops: bool) -> None:
        super().__init__()
        rate, size = (shape.rate if drops else 0.0), shape.hidden_size
        self.drop = nn.Dropout(rate) if drops else nn.Identity()
        self.source_embedding = nn.Embedding(shape.vocabulary_size, shape.input_size)
        self.target_embedding = nn.Embedding(shape.vocabulary_size, shape.input_size)
        self.encoder = nn.LSTM(
            shape.input_size, size // 2, LAYERS, dropout=rate, bidirectional=True
        )
        self.decoder = nn.LSTM(shape.input_size, size, LAYERS, dropout=rate)
        self.key = nn.Linear(size, size, bias=False)
        self.output = nn.Linear(2 * size, size, bias=False)
        self.generator = nn.Linear(size, shape.vocabulary_size)

    def forward(
        self, source: Tensor, source_lengths: Tensor, input: Tensor, target: Tensor
    ) -> Tensor:
        """The mean loss; arguments as of `Translator`."""
        encoded, states = self.encoder(self.drop(self.source_embedding(source)))
        h, c = (torch.cat([state[0::2], state[1::2]], dim=-1) for state in states)
        hidden, _ = self.decoder(self.drop(self.target_embedding(input)), (h, c))
        values = encoded.transpose(0, 1)
        scores = hidden.transpose(0, 1) @ self.key(values).transpose(1, 2)
        steps = torch.arange(values.shape[1], device=values.device)
        padding = steps >= source_lengths.unsqueeze(1)
        scores = scores.masked_fill(padding.unsqueeze(1), -torch.inf)
        context = (torch.softmax(scores, dim=-1) @ values).transpose(0, 1)
        attended = torch.tanh(self.output(self.drop(torch.cat([context, hidden], dim=-1))))
        return self.loss(self.drop(attended), target)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of (T, B, H) outputs."""
        scores = self.generator(output)
        return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())


class SameTailTranslator(StockTranslator):
    """Stock layers, and sdrop's generator with its loss."""

    generator: Linear

    def __init__(self, shape: Shape, *, drops: bool, backend: str) -> None:
        super().__init__(shape, drops=drops)
        self.generator = Linear(shape.hidden_size, shape.vocabulary_size, backend=backend)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return self.generator.cross_entropy(output, target)


def translator_comparison(name: str, variants: Sequence[str], setting: Setting) -> Comparison:
    """Each variant over stock, and over stock with sdrop's tail.

    Args:
        name: one of `TRANSLATORS`.
        variants: names of `VARIANTS`; others are left out.
        setting: what to run on.
    """
    return compare_translators(TRANSLATORS[name], variants, setting)


def compare_translators(shape: Shape, variants: Sequence[str], setting: Setting) -> Comparison:
    """As `translator_comparison`, of any sizes; `hidden_size` is even."""
    batch = _batch(shape, setting)
    candidates: dict[str, Candidate] = {}
    pairs = []
    for variant in (VARIANTS[each] for each in variants if each in VARIANTS):
        drops = variant.name != "none"
        stock, tail = (
            f"stock{kind}{'' if drops else ', no dropout'}" for kind in ("", ", our tail")
        )
        if stock not in candidates:
            candidates[stock] = stock_candidate(StockTranslator(shape, drops=drops), batch, setting)
            same_tail = SameTailTranslator(shape, drops=drops, backend=setting.backend)
            candidates[tail] = sdrop_candidate(same_tail, batch, setting)
        rates = variant.rates(shape)
        model = Translator(
            shape.vocabulary_size,
            shape.vocabulary_size,
            TranslatorSizes(shape.input_size, shape.hidden_size, LAYERS),
            rates=rates,
            pattern=variant.pattern,
            backend=setting.backend,
        )
        candidates[variant.name] = sdrop_candidate(model, batch, setting)
        pairs.append(Pair(variant.name, stock, translator_work(shape, rates), same_tail=tail))
    about = f"{shape.described}, {LAYERS} layers each, {shape.vocabulary_size:,} words"
    return Comparison("step", shape.name, about, candidates, pairs)


def translator_work(shape: Shape, rates: DropoutRates) -> Work:
    """Work of a translator's training step: LSTM layers, attention and generator."""
    rows, size = shape.steps * shape.batch, shape.hidden_size
    half = Shape(shape.name, shape.steps, shape.batch, shape.input_size, size // 2, rate=shape.rate)
    total = gemm_work(rows, size, size, 0.0, _PHASES)  # the attention's keys
    for each, directions in ((half, 2), (shape, 1)):
        for layer in range(LAYERS):
            inputs, rate = (size, rates.between) if layer else (shape.input_size, rates.input)
            for _ in range(directions):
                total += layer_work(each, rates, input_size=inputs, input_rate=rate)
    for _ in range(2):  # scores and contexts
        total += gemm_work(rows, shape.steps, size, 0.0, _PHASES)
    total += gemm_work(rows, 2 * size, size, rates.between, _PHASES)
    return total + gemm_work(rows, size, shape.vocabulary_size, rates.output, _PHASES)


def _batch(shape: Shape, setting: Setting) -> tuple[Tensor, ...]:
    """Source, its lengths, input and target."""
    size = (3, shape.steps, shape.batch)
    source, input, target = torch.randint(shape.vocabulary_size, size, device=setting.device)
    lengths = torch.full((shape.batch,), shape.steps, device=setting.device)
    return source, lengths, input, target
