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

`main` takes the options that Hydra composed and `run` trains; the parts stand below them in the
order in which they are needed. In an installed package this file is `sdrop.recipes.ptb`.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from hydra.core.hydra_config import HydraConfig
from lightning_fabric import Fabric
from omegaconf import DictConfig

from sdrop import DropoutPattern, backends
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
from sdrop.models import DropoutRates, LanguageModel
from sdrop.training import (
    PERPLEXITY,
    CheckpointError,
    FitResult,
    NonFiniteError,
    RunFolder,
    best,
    fit,
    load_weights,
    make_fabric,
    write_summary,
)

from .building import make_optimizer, make_schedule, make_settings
from .configuration import Mistake, as_options, launch
from .configuration.schema import LanguageModelData, LanguageModelRun, Ptb, Text
from .debugging import limited, watched
from .run_folder import announced_changes, checkpoint_of, options_kept, run_folder_of

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
        print(write_text(options))
        return None
    if options.mode == "evaluate":
        return evaluate(options).valid
    if not HydraConfig.initialized():  # one process of several has it
        return run(options, None).valid
    hydra = HydraConfig.get()
    return run(options, hydra.runtime.output_dir, hydra.overrides.task).valid


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
    for change in announced_changes(options, run_folder, model, signatures):
        fabric.print(change)

    with options_kept(fabric, options, overrides, run_folder), watched(options.debug, run_folder):
        if fabric.is_global_zero:
            vocabulary.save(run_folder.path / VOCABULARY)
        trained = fit(
            fabric,
            model,
            make_optimizer(options.optimizer, model),
            make_schedule(options.schedule, PERPLEXITY),
            train,
            lambda: perplexity(model, valid, fabric.device),
            make_settings(options.trainer, same_across_ranks=options.dropout.same_across_ranks),
            run_folder,
            seed=options.seed,
            metric=PERPLEXITY,
            loggers=[name for name, on in dataclasses.asdict(options.logger).items() if on],
            resume=options.resume,
            signatures=signatures,
        )
    if trained.stopped == "signal":  # a summary is of whole runs only
        fabric.print(f"go on with resume={run_folder.path}")
        return Result(trained.best, None, run_folder.path, trained)

    load_weights(model, best(run_folder.checkpoints), signatures)
    result = Result(
        measured(model, valid, fabric) if trained.best is None else trained.best,
        measured(model, test, fabric),
        run_folder.path,
        trained,
    )
    if fabric.is_global_zero:
        summarise(options, result, run_folder, model, f"{corpus.signature}-{vocabulary.signature}")
    fabric.print(f"perplexity {result.valid:.2f} valid, {result.test:.2f} test")
    fabric.print(f"run folder {run_folder.path}")
    return result


def read_corpus(data: LanguageModelData) -> Corpus:
    """The three splits of the corpus that `data=` chooses."""
    if isinstance(data, Ptb):
        return load_corpus("ptb", root=data.root, download=data.download)
    if isinstance(data, Text):
        files = {"train": data.train, "valid": data.valid, "test": data.test}
        return load_corpus("text", root=data.root, files=files)
    return load_corpus("pydoc")


def start_fabric(options: LanguageModelRun) -> Fabric:
    """Device and precision; one process of several under torchrun."""
    try:
        return make_fabric(options.device, options.trainer.precision)
    except (ValueError, RuntimeError) as error:
        raise Mistake(str(error)) from error


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
    train = limited(train, debug.train_batches)
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
    dropout = options.dropout
    torch.manual_seed(options.seed)
    try:
        return LanguageModel(
            len(vocabulary),
            **dataclasses.asdict(options.model),
            rates=DropoutRates(dropout.input, dropout.between, dropout.recurrent, dropout.output),
            pattern=DropoutPattern(**dataclasses.asdict(dropout.pattern)),
            backend=options.backend,
        )
    except (ValueError, RuntimeError) as error:  # such as a backend that is missing here
        raise Mistake(str(error)) from error


def measured(model: LanguageModel, batches: Batches, fabric: Fabric) -> float:
    """Perplexity of a model on all of `batches`, in the run's precision."""
    with fabric.autocast():
        return perplexity(model, batches, fabric.device).metrics[PERPLEXITY.name]


def summarise(
    options: LanguageModelRun,
    result: Result,
    run_folder: RunFolder,
    model: LanguageModel,
    signature: str,
) -> None:
    """Write summary.json, the last file of a run."""
    assert result.fit is not None
    assert result.test is not None
    write_summary(
        run_folder.summary,
        recipe="ptb",
        experiment=options.experiment,
        metric=PERPLEXITY.name,
        valid=result.valid,
        test=result.test,
        seconds_train=result.fit.seconds_train,
        seconds_total=result.fit.seconds_total,
        tokens_per_second=result.fit.tokens_per_second,
        steps=result.fit.steps,
        parameters=number_of_parameters(model),
        backend=options.backend,
        pattern=describe_dropout(options),
        signature=f"{options.data.name}-{signature}",
        bits_per_word=math.log2(result.test),
        backends=backends(),
    )


def evaluate(options: LanguageModelRun) -> Result:
    """Print and return the perplexities of `checkpoint=` on the validation and the test split."""
    model, vocabulary, fabric = load_trained(options)
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


def number_of_parameters(model: LanguageModel) -> int:
    """Weights that are trained; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def describe(
    options: LanguageModelRun,
    corpus: Corpus,
    vocabulary: Vocabulary,
    model: LanguageModel,
    fabric: Fabric,
) -> str:
    """What is about to be trained, on what and with what."""
    device = fabric.device.type
    tokens = ", ".join(f"{len(split):,}" for split in (corpus.train, corpus.valid, corpus.test))
    return (
        f"corpus {corpus.name}, hash {corpus.signature}: {tokens} tokens (train, valid, test), "
        f"vocabulary {len(vocabulary):,}\n"
        f"model {options.model.num_layers} x {options.model.hidden_size}, "
        f"{number_of_parameters(model):,} parameters\n"
        f"dropout {describe_dropout(options)}\n"
        f"backend {options.backend}; kernels for {device}: {backends().get(device, 'none')}"
    )


def describe_dropout(options: LanguageModelRun) -> str:
    """The pattern and the rate at each site, in a line."""
    dropout = options.dropout
    pattern = DropoutPattern(**dataclasses.asdict(dropout.pattern))
    rates = {site: getattr(dropout, site) for site in ("input", "between", "recurrent", "output")}
    if not any(rates.values()):
        return "none"
    return f"{pattern}: " + ", ".join(f"{site} {rate:g}" for site, rate in rates.items())


if __name__ == "__main__":
    launch("ptb", main, told=(DataError, CheckpointError, NonFiniteError))
