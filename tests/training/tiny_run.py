"""A training run of a second, with dropout from both sources: sdrop's keys, torch's generator.

python tiny_run.py FOLDER '{"max_steps": 3}' trains in a new process.
"""

import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sdrop
from sdrop.data.batches import BpttBatches
from sdrop.evaluation import perplexity
from sdrop.training import (
    PERPLEXITY,
    FitResult,
    RunFolder,
    TrainerSettings,
    adam,
    decay_after,
    decay_on_plateau,
    fit,
    make_fabric,
    read_metrics,
    sgd,
)

VOCABULARY_SIZE = 11
STEPS_AN_EPOCH = 4


class TinyModel(nn.Module):
    """Embedding, two LSTM layers, softmax, with dropout at every site."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY_SIZE, 6)
        self.dropout = nn.Dropout(0.2)
        self.lstm = sdrop.LSTM(6, 8, 2, dropout=0.5, input_dropout=0.3, recurrent_dropout=0.25)
        self.decoder = sdrop.Linear(8, VOCABULARY_SIZE, dropout=0.5)

    def forward(
        self, input: Tensor, target: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, state = self.lstm(self.dropout(self.embedding(input)), state)
        logits = self.decoder(hidden)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100), state


def tiny_model(seed: int = 0) -> TinyModel:
    torch.manual_seed(seed)
    return TinyModel()


def text(tokens: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY_SIZE, (tokens,), generator=generator)


def tiny_batches(rank: int = 0, world_size: int = 1, batch_size: int = 4) -> BpttBatches:
    return BpttBatches(text(80), batch_size=batch_size, bptt=5, rank=rank, world_size=world_size)


def run(
    folder: Path,
    *,
    seed: int = 3,
    resume: str | None = None,
    optimizer: str = "sgd",
    schedule: str = "decay_after",
    precision: str = "32-true",
    max_epochs: int = 2,
    loggers: tuple[str, ...] = ("jsonl",),
    signatures: dict[str, str] | None = None,
    batches: BpttBatches | None = None,
    **settings: object,
) -> tuple[FitResult, TinyModel]:
    """Trains the tiny model; the settings that matter for exact resuming are at odd values."""
    fabric = make_fabric("cpu", precision)
    model = tiny_model()
    if optimizer == "sgd":
        chosen = sgd(model.parameters(), 0.5, momentum=0.9)
    else:
        chosen = adam(model.parameters(), 0.01)
    valid = BpttBatches(text(60, seed=2), batch_size=2, bptt=7)
    result = fit(
        fabric,
        model,
        chosen,
        decay_after(1, 0.5) if schedule == "decay_after" else decay_on_plateau(PERPLEXITY),
        batches or tiny_batches(fabric.global_rank, fabric.world_size),
        lambda: perplexity(model, valid, fabric.device),
        TrainerSettings(max_epochs=max_epochs, **{"log_every_steps": 2, **settings}),
        RunFolder(folder),
        seed=seed,
        resume=resume,
        loggers=loggers,
        signatures=signatures,
    )
    return result, model


def exact_figures(folder: Path) -> list[dict[str, object]]:
    """The lines of metrics.jsonl without what a clock says."""
    return [
        {name: value for name, value in report.items() if name != "tokens_per_second"}
        for report in read_metrics(folder / "metrics.jsonl")
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), **json.loads(sys.argv[2]))
