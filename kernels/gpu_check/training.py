"""A published training run, standard and structured dropout side by side.

Zaremba et al. 2014 (arXiv 1409.2329), the medium model on the Penn Treebank: what `python -m
recipes.ptb experiment=zaremba_medium` trains, in a loop that a CUDA graph holds and that needs
torch alone. Published perplexity: valid 86.2, test 82.7.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from sdrop.data.batches import NOT_COUNTED, BpttBatches
from sdrop.data.ptb import read_ptb
from sdrop.models import DropoutRates, LanguageModel

State = tuple[Tensor, Tensor]

VARIANTS = ("standard", "structured")
_WARM_UPS = 3
_EVALUATION_COLUMNS = {"valid": 20, "test": 1}


@dataclass(frozen=True)
class Plan:
    """The sizes and the schedule of the run; the defaults are the published ones."""

    hidden_size: int = 650
    steps: int = 35
    batch: int = 20
    epochs: int = 39
    flat_epochs: int = 7
    decay: float = 1.2
    rate: float = 0.5
    recurrent_rate: float = 0.25  # unpublished; acts with structured dropout alone
    max_norm: float = 5.0
    init_range: float = 0.05
    layers: int = 2

    def learning_rate(self, epoch: int) -> float:
        """Of epoch 1, 2, ..."""
        return float(self.decay ** -max(0, epoch - self.flat_epochs))


@dataclass
class Outcome:
    """What came of one run; seconds are those of training, without validation."""

    variant: str
    seconds: float = 0.0
    valid: list[float] = field(default_factory=list)
    test: float = math.nan
    graph: bool = False


class StandardModel(nn.Module):
    """Stock modules, dropped by `nn.Dropout` outside the recurrence, as people train today."""

    def __init__(self, vocabulary_size: int, plan: Plan) -> None:
        super().__init__()
        size = plan.hidden_size
        self.drop = nn.Dropout(plan.rate)
        self.embedding = nn.Embedding(vocabulary_size, size)
        self.lstm = nn.LSTM(size, size, plan.layers, dropout=plan.rate)
        self.decoder = nn.Linear(size, vocabulary_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -plan.init_range, plan.init_range)

    def forward(self, input: Tensor, target: Tensor, state: State) -> tuple[Tensor, State]:
        output, state = self.lstm(self.drop(self.embedding(input)), state)
        scores = self.decoder(self.drop(output)).flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, target.flatten(), ignore_index=NOT_COUNTED)
        return loss, state


def make_model(variant: str, vocabulary_size: int, plan: Plan) -> nn.Module:
    """The model of `variant`, initialised."""
    if variant == "standard":
        return StandardModel(vocabulary_size, plan)
    rate = plan.rate
    return LanguageModel(
        vocabulary_size,
        embedding_dim=plan.hidden_size,
        hidden_size=plan.hidden_size,
        num_layers=plan.layers,
        rates=DropoutRates(rate, rate, plan.recurrent_rate, rate),
        init_range=plan.init_range,
    )


def read_corpus(folder: Path) -> tuple[dict[str, Tensor], int]:
    """Word numbers of each split, and how many words there are."""
    tokens = read_ptb(folder)
    counts = Counter(tokens["train"])
    numbers = {word: number for number, (word, _) in enumerate(counts.most_common())}
    ids = {
        split: torch.tensor([numbers[word] for word in words]) for split, words in tokens.items()
    }
    return ids, len(numbers)


class Trainer:
    """A training step over buffers that stay in place, so that it can be a CUDA graph."""

    def __init__(self, model: nn.Module, plan: Plan, device: torch.device) -> None:
        self.model, self.plan, self.device = model.to(device), plan, device
        shape = (plan.layers, plan.batch, plan.hidden_size)
        self.state = (torch.zeros(shape, device=device), torch.zeros(shape, device=device))
        self.words = torch.zeros(2, plan.steps, plan.batch, dtype=torch.int64, device=device)
        self.rate = torch.zeros((), device=device)
        self.parameters = list(model.parameters())
        self.replay: Callable[[], Any] | None = None

    def take(self, input: Tensor, target: Tensor) -> None:
        """One step; windows of another length than usual go without the graph."""
        if self.replay is not None and input.shape == self.words.shape[1:]:
            self.words[0].copy_(input)
            self.words[1].copy_(target)
            self.replay()
        else:
            self._step(input, target)

    def _step(self, input: Tensor, target: Tensor) -> None:
        """Loss summed over time and averaged over the batch, clipping, SGD."""
        for parameter in self.parameters:
            parameter.grad = None
        loss, state = self.model(input, target, self.state)
        (loss * input.shape[0]).backward()
        grads = [p.grad for p in self.parameters if p.grad is not None]
        with torch.no_grad():
            shrink = (self.plan.max_norm / (get_total_norm(grads) + 1e-6)).clamp(max=1.0)
            torch._foreach_mul_(grads, -self.rate * shrink)
            torch._foreach_add_(self.parameters, grads)
            for kept, new in zip(self.state, state, strict=True):
                kept.copy_(new)

    def capture(self) -> None:
        """Makes the step a graph; nothing is trained by it (the rate is 0 meanwhile).

        Raises:
            RuntimeError: where it cannot be captured.
        """
        self.rate.zero_()
        stream: Any = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self._step(*self.words)
            with torch.cuda.graph(graph, stream=stream):
                self._step(*self.words)
        torch.cuda.current_stream().wait_stream(stream)
        self.replay = graph.replay

    def restart(self) -> None:
        """The state before a text."""
        for each in self.state:
            each.zero_()


def train(
    variant: str,
    ids: dict[str, Tensor],
    vocabulary_size: int,
    plan: Plan,
    device: torch.device,
    say: Callable[[str], None],
    seed: int = 1,
) -> Outcome:
    """Trains one variant from the start and tests it after the last epoch."""
    torch.manual_seed(seed)
    outcome = Outcome(variant)
    trainer = Trainer(make_model(variant, vocabulary_size, plan), plan, device)
    if device.type == "cuda":
        try:
            trainer.capture()
            outcome.graph = True
        except RuntimeError as error:
            torch.cuda.synchronize()
            say(f"{variant}: trained WITHOUT a graph ({str(error).splitlines()[0]})")
    words = {split: each.to(device) for split, each in ids.items()}
    for epoch in range(1, plan.epochs + 1):
        trainer.rate.fill_(plan.learning_rate(epoch))
        outcome.seconds += _one_epoch(trainer, words["train"], plan)
        outcome.valid.append(perplexity(trainer, words["valid"], "valid"))
        say(f"{variant}: epoch {epoch}, valid {outcome.valid[-1]:.2f}, {outcome.seconds:.1f} s")
    outcome.test = perplexity(trainer, words["test"], "test")
    return outcome


def _one_epoch(trainer: Trainer, ids: Tensor, plan: Plan) -> float:
    """The seconds that it takes."""
    trainer.model.train()
    trainer.restart()
    batches = BpttBatches(ids, batch_size=plan.batch, bptt=plan.steps)
    _wait(trainer.device)
    start = time.perf_counter()
    for batch in batches.epoch(0):
        trainer.take(batch.arguments["input"], batch.arguments["target"])
    _wait(trainer.device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


@torch.no_grad()
def perplexity(trainer: Trainer, ids: Tensor, split: str) -> float:
    """Every token but the first predicted once."""
    plan, model = trainer.plan, trainer.model.eval()
    columns = _EVALUATION_COLUMNS[split]
    shape = (plan.layers, columns, plan.hidden_size)
    state: State = (ids.new_zeros(shape, dtype=torch.float32),) * 2
    total = torch.zeros((), dtype=torch.float64, device=ids.device)
    for batch in BpttBatches(ids, batch_size=columns, bptt=plan.steps).epoch(0):
        loss, state = model(batch.arguments["input"], batch.arguments["target"], state)
        total += loss.double() * batch.tokens
    return math.exp(float(total) / (len(ids) - 1))


def table(outcomes: list[Outcome], plan: Plan) -> str:
    """Side by side, for people."""
    lines = [f"{'':10} {'valid':>8} {'test':>8} {'seconds':>8} {'ratio':>6}  graph"]
    first = outcomes[0]
    for each in outcomes:
        lines.append(
            f"{each.variant:10} {each.valid[-1]:8.2f} {each.test:8.2f} {each.seconds:8.1f} "
            f"{first.seconds / each.seconds:6.2f}  {'yes' if each.graph else 'no'}"
        )
    return "\n".join([f"{plan.epochs} epochs, H {plan.hidden_size}, B {plan.batch}", *lines])
