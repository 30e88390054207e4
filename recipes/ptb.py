"""Train an LSTM language model with dropout, on Penn Treebank or on a text of your own.

    python -m recipes.ptb                                   # the embedded corpus, in minutes
    python -m recipes.ptb dropout=standard                  # what people train with today
    python -m recipes.ptb data=ptb data.root=DIR            # Penn Treebank
    python -m recipes.ptb experiment=zaremba_medium data.root=DIR dropout=structured
    python -m recipes.ptb data=text data.train=FILE data.valid=FILE data.test=FILE
    python -m recipes.ptb -m dropout=standard,structured seed=1,2,3
    torchrun --nproc-per-node 2 -m recipes.ptb
    python -m recipes.ptb resume=auto hydra.run.dir=DIR     # go on with a run that was stopped
    python -m recipes.ptb mode=evaluate checkpoint=DIR
    python -m recipes.ptb mode=generate checkpoint=DIR prompt="the statement"

`main` takes the options that Hydra composed and `run` trains, by the course in training.py that all
recipes share; the parts stand below them in the order in which they are needed. In an installed
package this file is `sdrop.recipes.ptb`.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lightning_fabric import Fabric
from omegaconf import DictConfig

from sdrop.data import (
    END_OF_LINE,
    Batches,
    BpttBatches,
    Corpus,
    DataError,
    Vocabulary,
    load_corpus,
    tokenize,
)
from sdrop.evaluation import perplexity
from sdrop.evaluation.generation import generate
from sdrop.models import LanguageModel
from sdrop.training import (
    PERPLEXITY,
    CheckpointError,
    FitResult,
    NonFiniteError,
    RunFolder,
    load_weights,
)

from .building import build_model, number_of_parameters, start_fabric
from .configuration import as_options, launch
from .configuration.schema import LanguageModelData, LanguageModelRun, Ptb, Text
from .debugging import limited
from .run_folder import checkpoint_of, run_folder_of
from .streams import STANDARD_STREAM, output_to
from .training import (
    announce_few,
    describe_computation,
    folder_and_overrides,
    summarise,
    train_model,
    whole,
)

VOCABULARY = "vocabulary.txt"  # in the run folder


@dataclass(frozen=True)
class Result:
    """Perplexities on both splits, the run folder, and the run where one was trained."""

    valid: float | None
    test: float | None
    folder: Path
    fit: FitResult | None = None


def main(config: DictConfig) -> float | None:
    """Do what `mode=` says; return the validation perplexity, for a sweeper to minimise."""
    options: LanguageModelRun = as_options(config)
    if options.mode == "generate":
        with output_to(STANDARD_STREAM) as target:
            print(write_text(options), file=target)
        return None
    if options.mode == "evaluate":
        return evaluate(options).valid
    return whole(run(options, *folder_and_overrides())).valid


def run(
    options: LanguageModelRun, folder: str | Path | None, overrides: Sequence[str] = ()
) -> Result:
    """Train a language model, test the best of its checkpoints, and fill the run folder.

    Args:
        options: plain dataclasses, as `as_options(compose("ptb", [...]))` makes them.
        folder: the run folder; the first of several processes tells the others.
        overrides: the command line, which is recalled when the run goes on.

    Raises:
        Mistake, DataError, CheckpointError, NonFiniteError: with what can be done about it.
    """
    corpus = read_corpus(options.data)
    vocabulary = Vocabulary.build(
        corpus.train, max_size=options.data.max_vocabulary, min_frequency=options.data.min_frequency
    )
    fabric = start_fabric(options)
    run_folder = RunFolder(fabric.broadcast(str(folder)))
    train, valid, test = make_batches(options, corpus, vocabulary, fabric)
    model = make_model(options, vocabulary)
    signatures = {
        "vocabulary": vocabulary.signature,
        "corpus": corpus.signature,
        "batches": f"{options.data.batch_size} columns of {options.data.bptt} steps",
    }
    fabric.print(describe(options, corpus, vocabulary, model, fabric))
    trained = train_model(
        options,
        overrides,
        fabric,
        run_folder,
        model,
        train,
        validate=lambda: perplexity(model, valid, fabric.device),
        metric=PERPLEXITY,
        save=lambda folder: vocabulary.save(folder / VOCABULARY),
        signatures=signatures,
    )
    if trained.stopped == "signal":  # a summary is of whole runs only
        return Result(trained.best, None, run_folder.path, trained)

    on_test = measured(model, test, fabric)
    on_valid = measured(model, valid, fabric) if trained.best is None else trained.best
    if fabric.is_global_zero:
        summarise(
            "ptb",
            options,
            run_folder,
            model,
            trained,
            valid=on_valid,
            test=on_test,
            signature=f"{corpus.signature}-{vocabulary.signature}",
            bits_per_word=math.log2(on_test),
        )
    fabric.print(f"perplexity {on_valid:.2f} valid, {on_test:.2f} test")
    fabric.print(f"run folder {run_folder.path}")
    return Result(on_valid, on_test, run_folder.path, trained)


def read_corpus(data: LanguageModelData) -> Corpus:
    """The three splits of the corpus that `data=` chooses."""
    if isinstance(data, Ptb):
        return load_corpus("ptb", root=data.root, download=data.download)
    if isinstance(data, Text):
        files = {"train": data.train, "valid": data.valid, "test": data.test}
        return load_corpus("text", root=data.root, files=files)
    return load_corpus("pydoc")


def make_batches(
    options: LanguageModelRun, corpus: Corpus, vocabulary: Vocabulary, fabric: Fabric
) -> tuple[Batches, Batches, Batches]:
    """This process's share of the training batches; all batches of validation and test."""
    data, debug = options.data, options.debug
    ids = vocabulary.encode(corpus.train)
    train: Batches = BpttBatches(
        ids,
        batch_size=data.batch_size,
        bptt=data.bptt,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
    )
    if debug.overfit:
        seen = limited(
            BpttBatches(ids, batch_size=data.batch_size, bptt=data.bptt), debug.train_batches
        )
        return train, seen, seen
    valid, test = (
        BpttBatches(vocabulary.encode(tokens), batch_size=columns, bptt=data.bptt)
        for tokens, columns in (
            (corpus.valid, data.valid_batch_size),
            (corpus.test, data.test_batch_size),
        )
    )
    evaluated = debug.evaluation_batches
    return train, limited(valid, evaluated), limited(test, evaluated)


def make_model(options: LanguageModelRun, vocabulary: Vocabulary) -> LanguageModel:
    """The model with its first weights, which follow from the seed."""
    sizes = dataclasses.asdict(options.model)
    return build_model(options, partial(LanguageModel, len(vocabulary), **sizes))


def measured(model: LanguageModel, batches: Batches, fabric: Fabric) -> float:
    """Perplexity of a model on all of `batches`, in the run's precision."""
    with fabric.autocast():
        return perplexity(model, batches, fabric.device).metrics[PERPLEXITY.name]


def evaluate(options: LanguageModelRun) -> Result:
    """Print and return the perplexities of `checkpoint=` on the validation and the test split."""
    model, vocabulary, fabric = load_trained(options)
    announce_few(options, fabric)
    corpus = read_corpus(options.data)
    _, valid, test = make_batches(options, corpus, vocabulary, fabric)
    folder = run_folder_of(str(options.checkpoint))
    result = Result(measured(model, valid, fabric), measured(model, test, fabric), folder)
    fabric.print(f"corpus {corpus.name}, hash {corpus.signature}")
    fabric.print(f"perplexity {result.valid:.2f} valid, {result.test:.2f} test")
    return result


def write_text(options: LanguageModelRun) -> str:
    """Return `prompt=` and what the model of `checkpoint=` writes after it, a sentence a line."""
    model, vocabulary, fabric = load_trained(options)
    in_prose = options.data.name == "pydoc"
    prompt = tokenize(options.prompt) if in_prose else options.prompt.split()
    unknown = [word for word in prompt if word not in vocabulary]
    if unknown:
        print(f"not in the vocabulary: {' '.join(unknown)}", file=sys.stderr)
    words = generate(
        model,
        vocabulary.encode([END_OF_LINE, *prompt]).to(fabric.device),
        length=options.length,
        temperature=options.temperature,
        seed=options.seed,
        never=vocabulary.encode([vocabulary.unknown_token]).tolist(),
    )
    lines = " ".join([*prompt, *vocabulary.decode(words)]).split(END_OF_LINE)
    return "\n".join(line.strip() for line in lines)


def load_trained(options: LanguageModelRun) -> tuple[LanguageModel, Vocabulary, Fabric]:
    """The model of `checkpoint=`, with the vocabulary from its run folder."""
    checkpoint = checkpoint_of(str(options.checkpoint))
    vocabulary = Vocabulary.load(run_folder_of(checkpoint) / VOCABULARY)
    fabric = start_fabric(options)
    model = make_model(options, vocabulary)
    load_weights(model, checkpoint, {"vocabulary": vocabulary.signature})
    return model.to(fabric.device), vocabulary, fabric


def describe(
    options: LanguageModelRun,
    corpus: Corpus,
    vocabulary: Vocabulary,
    model: LanguageModel,
    fabric: Fabric,
) -> str:
    """What is about to be trained, on what and with what."""
    tokens = ", ".join(f"{len(split):,}" for split in (corpus.train, corpus.valid, corpus.test))
    return (
        f"corpus {corpus.name}, hash {corpus.signature}: {tokens} tokens (train, valid, test), "
        f"vocabulary {len(vocabulary):,}\n"
        f"model {options.model.num_layers} x {options.model.hidden_size}, "
        f"{number_of_parameters(model):,} parameters\n"
        f"{describe_computation(options, fabric)}"
    )


if __name__ == "__main__":
    launch("ptb", main, told=(DataError, CheckpointError, NonFiniteError))
