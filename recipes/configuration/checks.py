"""What must hold between options, beyond the range of each."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator

from sdrop.benchmark import SHAPES, parse_shape
from sdrop.benchmark.suites import registered_steps

from .nearest import hint, nearest
from .schema import BenchRun, Model, Ptb, Run, Sgd
from .tagging import Conll2003, TaggingRun


def contradictions(options: Run | BenchRun) -> Iterator[str]:
    """Say which options do not go together."""
    if isinstance(options, BenchRun):
        yield from _about_bench(options)
    else:
        yield from _about_training(options)


def _about_device(device: str, *known: str) -> Iterator[str]:
    if not re.fullmatch(r"cuda(:\d+)?", device) and device not in known:
        choices = (*known, "cuda", "cuda:0")
        yield f"device={device}: no such choice.{hint(device, choices, 'device={}')}"


def _about_bench(options: BenchRun) -> Iterator[str]:
    yield from _about_device(options.device, "cpu")
    for shape in options.shape:
        if shape not in registered_steps():
            try:
                parse_shape(shape)
            except ValueError as error:
                names = [*SHAPES, *registered_steps()]
                meant = nearest(shape, names)
                yield f"{error}." + (f" Did you mean shape={meant}?" if meant else "")
    for peer in options.peers:
        if not importlib.util.find_spec(peer):
            yield f"peers={peer}: {peer} is not installed here: pip install {peer}"
    if options.mode == "readme" and options.source is None:
        yield "mode=readme needs source=FILE, the bench.json of a run."
    if options.mode != "readme" and options.source is not None:
        yield f"source={options.source} is for mode=readme."


def _about_training(options: Run) -> Iterator[str]:
    yield from _about_mode(options)
    yield from _about_device(options.device, "auto", "cpu")
    model = options.model
    if isinstance(options, TaggingRun):
        yield from _about_tagging(options)
    elif (
        isinstance(model, Model) and model.tie_weights and model.embedding_dim != model.hidden_size
    ):
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
            "checkpoint= is for the modes that use a trained model. To go on training from it, "
            f"write resume={options.checkpoint}."
        )
    if options.mode != "train" and options.checkpoint is None:
        yield f"mode={options.mode} needs checkpoint=DIR, a run folder or a checkpoint in one."
    if options.mode != "train" and options.resume is not None:
        yield f"resume= is for training; with mode={options.mode} write checkpoint=DIR."


def _about_tagging(options: TaggingRun) -> Iterator[str]:
    data = options.data
    if isinstance(data, Conll2003) and data.root is None and options.mode != "tag":
        yield (
            "data=conll2003 needs a folder: add data.root=DIR, where eng.train, eng.testa and "
            "eng.testb are."
        )
    if options.mode != "tag" and (options.input, options.output) != ("-", "-"):
        yield "input= and output= are for mode=tag."
