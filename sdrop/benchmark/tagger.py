"""`bench suite=step shape=tagger`: a whole training step of the tagging recipe.

Words, their spelling by an LSTM, an LSTM of 200 in both directions, scores, CRF, clipping, Adam.
The stock model has `torch.nn`'s modules in all places but the CRF, which torch has not: both sides
run sdrop's. Stock LSTMs get padded input, their fastest form here, although for sequences of
different lengths only their packed form, which takes a quarter longer, is right in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import PackedSequence
from torch.optim import Adam, Optimizer

from sdrop.benchmark.comparison import MAX_GRAD_NORM, Comparison, dtype_of, forgets_gradients
from sdrop.benchmark.rows import Pair, Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.step import sdrop_finish
from sdrop.benchmark.timing import Candidate
from sdrop.benchmark.variants import VARIANTS, Variant
from sdrop.benchmark.work import Work, gemm_work
from sdrop.models import DropoutRates, Tagger
from sdrop.nn import CRF
from sdrop.training.optimizers import adam

WORDS, CHARACTERS, TAGS = 8000, 80, 9
EMBEDDING, CHARACTER, SPELLING = 100, 25, 25
SHAPE = Shape("tagger", 15, 32, EMBEDDING + 2 * SPELLING, 200)
FORMS, LONGEST = 250, 15  # distinct forms of a batch, as in CoNLL-2003

_LEARNING_RATE = 0.002
_PHASES = 3
_GATES = 4


class StockTagger(nn.Module):
    """The tagger of stock modules, with `nn.Dropout`'s masks outside the recurrence.

    Args:
        shape: sizes and the rate of dropout.
        drops: whether anything is dropped.
    """

    def __init__(self, shape: Shape, *, drops: bool) -> None:
        super().__init__()
        self.drop = nn.Dropout(shape.rate) if drops else nn.Identity()
        self.embedding = nn.Embedding(WORDS, EMBEDDING)
        self.characters = nn.Embedding(CHARACTERS, CHARACTER)
        self.spelling = nn.LSTM(CHARACTER, SPELLING, bidirectional=True)
        self.lstm = nn.LSTM(shape.input_size, shape.hidden_size, bidirectional=True)
        self.scores = nn.Linear(2 * shape.hidden_size, TAGS)
        self.crf = CRF(TAGS)

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
    ) -> Tensor:
        """The mean loss of a token; arguments as of `sdrop.models.Tagger`."""
        _, (last, _) = self.spelling(self.drop(self.characters(characters.t())))
        spelt = torch.cat([last[0], last[1]], dim=1)[forms]
        data = torch.cat([self.embedding(words), spelt], dim=1)
        steps, batch = len(batch_sizes), int(batch_sizes[0])
        output, _ = self.lstm(self.drop(data).view(steps, batch, -1))
        scores = self.scores(self.drop(output)).flatten(0, 1)
        likelihood: Tensor = self.crf(PackedSequence(scores, batch_sizes), tags).sum()
        return -likelihood / len(tags)


def tagger_comparison(variants: Sequence[str], setting: Setting) -> Comparison:
    """Each variant over the stock tagger."""
    candidates: dict[str, Candidate] = {}
    pairs = []
    for variant in (VARIANTS[name] for name in variants if name in VARIANTS):
        drops = variant.name != "none"
        stock = f"stock{'' if drops else ', no dropout'}"
        if stock not in candidates:
            candidates[stock] = _stock_step(setting, drops=drops)
        candidates[variant.name] = _sdrop_step(variant, setting)
        pairs.append(Pair(variant.name, stock, _work(variant.rates(SHAPE))))
    about = f"{SHAPE.described}, both directions, characters, CRF of {TAGS} tags"
    return Comparison("step", SHAPE.name, about, candidates, pairs)


def _stock_step(setting: Setting, *, drops: bool) -> Candidate:
    model = StockTagger(SHAPE, drops=drops)

    def finish(optimizer: Optimizer) -> None:
        clip_grad_norm_(model.parameters(), MAX_GRAD_NORM, foreach=True)
        optimizer.step()

    return _candidate(model, setting, _stock_adam, finish)


def _sdrop_step(variant: Variant, setting: Setting) -> Candidate:
    model = Tagger(
        WORDS,
        CHARACTERS,
        TAGS,
        embedding_dim=EMBEDDING,
        hidden_size=SHAPE.hidden_size,
        spelling="lstm",
        character_dim=CHARACTER,
        spelling_size=SPELLING,
        rates=variant.rates(SHAPE),
        pattern=variant.pattern,
        backend=setting.backend,
    )
    return _candidate(model, setting, _sdrop_adam, sdrop_finish(model))


def _candidate(
    model: nn.Module,
    setting: Setting,
    make_optimizer: Callable[[nn.Module], Optimizer],
    finish: Callable[[Optimizer], None],
) -> Candidate:
    model.to(device=setting.device, dtype=dtype_of(setting))
    arguments = _batch(setting.device)
    optimizer = make_optimizer(model)

    def run() -> None:
        loss = model(**arguments)
        (loss if isinstance(loss, Tensor) else loss[0]).backward()
        finish(optimizer)

    return Candidate(run, forgets_gradients(model))


def _batch(device: str) -> dict[str, Tensor]:
    """Sentences of one length, with forms of the lengths that English has."""
    rows = SHAPE.steps * SHAPE.batch
    lengths = (5 + 2.5 * torch.randn(FORMS)).round().long().clamp(1, LONGEST)
    lengths = lengths.sort(descending=True).values
    characters = torch.randint(1, CHARACTERS, (FORMS, int(lengths[0])))
    characters[torch.arange(int(lengths[0])) >= lengths.unsqueeze(1)] = 0
    tensors = {
        "words": torch.randint(WORDS, (rows,)),
        "tags": torch.randint(TAGS, (rows,)),
        "forms": torch.randint(FORMS, (rows,)),
        "characters": characters,
        "character_lengths": lengths,
        "capitals": torch.zeros(rows, dtype=torch.int64),
    }
    found = {name: tensor.to(device) for name, tensor in tensors.items()}
    return found | {"batch_sizes": torch.full((SHAPE.steps,), SHAPE.batch)}


def _work(rates: DropoutRates) -> Work:
    """Of both LSTMs in both directions and of the scores."""
    rows, hidden = SHAPE.steps * SHAPE.batch, SHAPE.hidden_size
    spelt = 5 * FORMS  # characters
    one_direction = (
        gemm_work(rows, SHAPE.input_size, _GATES * hidden, rates.input, _PHASES)
        + gemm_work(rows, hidden, _GATES * hidden, rates.recurrent, _PHASES)
        + gemm_work(spelt, CHARACTER, _GATES * SPELLING, rates.input, _PHASES)
        + gemm_work(spelt, SPELLING, _GATES * SPELLING, rates.recurrent, _PHASES)
    )
    return one_direction + one_direction + gemm_work(rows, 2 * hidden, TAGS, rates.output, _PHASES)


def _stock_adam(model: nn.Module) -> Optimizer:
    return Adam(model.parameters(), _LEARNING_RATE, fused=True)


def _sdrop_adam(model: nn.Module) -> Optimizer:
    return adam(model.parameters(), _LEARNING_RATE)
