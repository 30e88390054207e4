"""What must hold between options, beyond the range of each."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator

from .nearest import hint
from .schema import Ptb, Run, Sgd


def contradictions(options: Run) -> Iterator[str]:
    """Say which options do not go together."""
    yield from _about_mode(options)
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", options.device):
        known = ("auto", "cpu", "cuda", "cuda:0")
        yield f"device={options.device}: no such choice.{hint(options.device, known, 'device={}')}"
    model = options.model
    if model.tie_weights and model.embedding_dim != model.hidden_size:
        yield (
            f"model.tie_weights=true needs equal sizes, got model.embedding_dim="
            f"{model.embedding_dim} and model.hidden_size={model.hidden_size}."
        )
    if isinstance(options.data, Ptb) and options.data.root is None:
        yield (
            "data=ptb needs a folder: add data.root=DIR, where the three ptb.*.txt files are, or "
            "where data.download=true is to put them."
        )
    optimizer = options.optimizer
    if isinstance(optimizer, Sgd) and optimizer.nesterov and not optimizer.momentum:
        yield "optimizer.nesterov=true needs a momentum: add optimizer.momentum=0.9."
    if options.logger.tensorboard and not importlib.util.find_spec("tensorboard"):
        yield "logger: tensorboard is not installed: pip install 'sdrop[tensorboard]'"


def _about_mode(options: Run) -> Iterator[str]:
    if options.mode == "train" and options.checkpoint is not None:
        yield (
            "checkpoint= is for mode=evaluate and mode=generate. To go on training from it, write "
            f"resume={options.checkpoint}."
        )
    if options.mode != "train" and options.checkpoint is None:
        yield f"mode={options.mode} needs checkpoint=DIR, a run folder or a checkpoint in one."
    if options.mode != "train" and options.resume is not None:
        yield f"resume= is for training; with mode={options.mode} write checkpoint=DIR."
