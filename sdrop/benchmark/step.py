"""Suite `step`: a whole training step of a language model.

Embedding, two LSTM layers, decoder, loss, backward, clipping, SGD. The baseline is made of stock
modules, stock clipping and the fused or foreach SGD, whichever is faster here. `ratio_same_tail`
is over the stock layers with the loss, clipping and optimizer that sdrop trains with, so that it
tells what the packed GEMMs alone are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm
from torch.optim import SGD, Optimizer

from sdrop.benchmark.comparison import (
    LEARNING_RATE,
    MAX_GRAD_NORM,
    Comparison,
    dtype_of,
    forgets_gradients,
)
from sdrop.benchmark.rows import Pair, Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.timing import Candidate, clock_for
from sdrop.benchmark.variants import VARIANTS, Variant
from sdrop.benchmark.work import STEP_LAYERS, step_work
from sdrop.models import LanguageModel
from sdrop.nn import Linear
from sdrop.training.optimizers import sgd

_TRIES = 3


class StockLanguageModel(nn.Module):
    """The language model of stock modules, with `nn.Dropout`'s masks outside the recurrence.

    Args:
        shape: sizes and the rate of dropout.
        drops: whether anything is dropped.
    """

    def __init__(self, shape: Shape, *, drops: bool) -> None:
        super().__init__()
        rate = shape.rate if drops else 0.0
        self.drop = nn.Dropout(rate) if drops else nn.Identity()
        self.embedding = nn.Embedding(shape.vocabulary_size, shape.input_size)
        self.lstm = nn.LSTM(shape.input_size, shape.hidden_size, STEP_LAYERS, dropout=rate)
        self.decoder = nn.Linear(shape.hidden_size, shape.vocabulary_size)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The mean loss of (T, B) word ids and the words that follow."""
        output, _ = self.lstm(self.drop(self.embedding(input)))
        return self.loss(self.drop(output), target)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of (T, B, H) outputs."""
        scores = self.decoder(output)
        return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())


class SameTailLanguageModel(StockLanguageModel):
    """Stock layers, and sdrop's decoder with its loss."""

    decoder: Linear

    def __init__(self, shape: Shape, *, drops: bool, backend: str) -> None:
        super().__init__(shape, drops=drops)
        self.decoder = Linear(shape.hidden_size, shape.vocabulary_size, backend=backend)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return self.decoder.cross_entropy(output, target)


def step_comparison(shape: Shape, variants: Sequence[str], setting: Setting) -> Comparison | None:
    """Each variant over stock, and over stock with sdrop's tail; None for what is not trained."""
    chosen = [VARIANTS[name] for name in variants if name in VARIANTS]
    if not shape.training or not chosen:
        return None
    candidates: dict[str, Candidate] = {}
    pairs = []
    for variant in chosen:
        drops = variant.name != "none"
        stock, tail = (
            f"stock{kind}{'' if drops else ', no dropout'}" for kind in ("", ", our tail")
        )
        if stock not in candidates:
            candidates[stock] = stock_step(shape, setting, drops=drops)
            candidates[tail] = _same_tail_step(shape, setting, drops=drops)
        candidates[variant.name] = sdrop_step(shape, variant, setting)
        work = step_work(shape, variant.rates(shape))
        pairs.append(Pair(variant.name, stock, work, same_tail=tail))
    about = f"{shape.described}, {STEP_LAYERS} layers, {shape.vocabulary_size:,} words"
    return Comparison("step", shape.name, about, candidates, pairs)


def stock_step(shape: Shape, setting: Setting, *, drops: bool) -> Candidate:
    """A step of stock parts."""
    model = StockLanguageModel(shape, drops=drops)

    def finish(optimizer: Optimizer) -> None:
        clip_grad_norm_(model.parameters(), MAX_GRAD_NORM, foreach=True)
        optimizer.step()

    return _candidate(model, shape, setting, partial(_faster_sgd, setting), finish)


def sdrop_step(shape: Shape, variant: Variant, setting: Setting) -> Candidate:
    """A step as the ptb recipe takes it."""
    model = _language_model(shape, variant, setting)
    return _candidate(model, shape, setting, _sdrop_sgd, sdrop_finish(model))


def _same_tail_step(shape: Shape, setting: Setting, *, drops: bool) -> Candidate:
    model = SameTailLanguageModel(shape, drops=drops, backend=setting.backend)
    return _candidate(model, shape, setting, _sdrop_sgd, sdrop_finish(model))


def _language_model(shape: Shape, variant: Variant, setting: Setting) -> LanguageModel:
    return LanguageModel(
        shape.vocabulary_size,
        embedding_dim=shape.input_size,
        hidden_size=shape.hidden_size,
        num_layers=STEP_LAYERS,
        rates=variant.rates(shape),
        pattern=variant.pattern,
        backend=setting.backend,
    )


def _candidate(
    model: nn.Module,
    shape: Shape,
    setting: Setting,
    make_optimizer: Callable[[nn.Module], Optimizer],
    finish: Callable[[Optimizer], None],
) -> Candidate:
    """Forward, backward and `finish`."""
    model.to(device=setting.device, dtype=dtype_of(setting))
    size = (2, shape.steps, shape.batch)
    input, target = torch.randint(shape.vocabulary_size, size, device=setting.device)
    optimizer = make_optimizer(model)

    def run() -> None:
        loss = model(input, target)
        (loss if isinstance(loss, Tensor) else loss[0]).backward()
        finish(optimizer)

    return Candidate(run, forgets_gradients(model))


def _sdrop_sgd(model: nn.Module) -> Optimizer:
    return sgd(model.parameters(), LEARNING_RATE)


def sdrop_finish(model: nn.Module) -> Callable[[Optimizer], None]:
    """Clipping as in `sdrop.training.step` where the norm is above the limit, and the update."""

    def finish(optimizer: Optimizer) -> None:
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = get_total_norm(gradients)
        clip_grads_with_norm_(model.parameters(), MAX_GRAD_NORM, norm)
        norm.item()
        optimizer.step()

    return finish


def _faster_sgd(setting: Setting, model: nn.Module) -> Optimizer:
    """The fused or the foreach SGD, whichever takes less time on these parameters."""
    clock = clock_for(setting.device, setting.threads)
    choices = [
        SGD(model.parameters(), LEARNING_RATE, fused=fused, foreach=not fused)
        for fused in (True, False)
    ]
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    best = min(choices, key=lambda each: min(clock.seconds(each.step) for _ in range(_TRIES)))
    model.zero_grad(set_to_none=True)
    return best
