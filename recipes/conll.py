"""Train a tagger of named entities, on CoNLL-2003 or on column files of your own, and tag with it.

    python -m recipes.conll                                 # the embedded corpus, in minutes
    python -m recipes.conll dropout=standard                # what people train with today
    python -m recipes.conll experiment=conll_200 data.root=DIR dropout=structured
    python -m recipes.conll experiment=ma_hovy data.root=DIR model.vectors=FILE
    python -m recipes.conll data=columns data.train=FILE data.valid=FILE data.test=FILE
    python -m recipes.conll resume=auto hydra.run.dir=DIR   # go on with a run that was stopped
    python -m recipes.conll mode=evaluate checkpoint=DIR
    python -m recipes.conll mode=tag checkpoint=DIR < sentences.txt
    python -m recipes.conll mode=tag checkpoint=DIR input=FILE text=tokens output_format=jsonl

`main` takes the options that Hydra composed and `run` trains, by the course in training.py that all
recipes share; tagging_parts.py has what is known of words, tagging_scores.py what is found. In an
installed package this file is `sdrop.recipes.conll`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightning_fabric import Fabric
from omegaconf import DictConfig

from sdrop.data import DataError, TaggedCorpus
from sdrop.data.token_streams import read_sentences, written_sentence
from sdrop.data.vectors import WordVectors
from sdrop.evaluation.tag_stream import tag_stream
from sdrop.evaluation.tagging import entity_evaluation
from sdrop.models import Tagger
from sdrop.training import F1, CheckpointError, FitResult, NonFiniteError, RunFolder, load_weights

from .building import number_of_parameters, start_fabric
from .configuration import as_options, launch
from .configuration.tagging import TaggingRun
from .run_folder import checkpoint_of, run_folder_of
from .streams import STANDARD_STREAM, input_from, output_to
from .tagging_parts import (
    Parts,
    evaluated,
    evaluation_batches,
    make_model,
    read_corpus,
    training_batches,
)
from .tagging_scores import Scores, described, score_splits
from .training import (
    announce_few,
    describe_computation,
    folder_and_overrides,
    summarise,
    train_model,
    whole,
)


@dataclass(frozen=True)
class Result:
    """Strict F1 on both splits, all scores, the run folder, and the run where one was trained."""

    valid: float | None
    test: float | None
    folder: Path
    scores: Scores = dataclasses.field(default_factory=dict)
    fit: FitResult | None = None


def main(config: DictConfig) -> float | None:
    """Do what `mode=` says; return F1 on the validation split, for a sweeper to maximise."""
    options: TaggingRun = as_options(config)
    if options.mode == "tag":
        tag(options)
        return None
    if options.mode == "evaluate":
        return evaluate(options).valid
    return whole(run(options, *folder_and_overrides())).valid


def run(options: TaggingRun, folder: str | Path | None, overrides: Sequence[str] = ()) -> Result:
    """Train a tagger, test the best of its checkpoints, and fill the run folder.

    Args:
        options: plain dataclasses, as `as_options(compose("conll", [...]))` makes them.
        folder: the run folder; the first of several processes tells the others.
        overrides: the command line, which is recalled when the run goes on.

    Raises:
        Mistake, DataError, CheckpointError, NonFiniteError: with what can be done about it.
    """
    corpus = read_corpus(options.data)
    fabric = start_fabric(options)
    run_folder = RunFolder(fabric.broadcast(str(folder)))
    vectors = WordVectors(options.model.vectors) if options.model.vectors else None
    parts = Parts.of(options, corpus, vectors)
    train = training_batches(options, corpus, parts, fabric.global_rank, fabric.world_size)
    model = make_model(options, parts)
    signatures = parts.signatures() | {
        "corpus": corpus.signature,
        "batches": f"{options.data.batch_size} sentences",
    }
    fabric.print(describe(options, corpus, parts, model, fabric))
    if vectors is not None:
        fabric.print(vectors.fill(model.embedding, parts.encoder.words.tokens))
    sentences = evaluated(options, corpus)["valid"]
    validate = functools.partial(
        entity_evaluation,
        model,
        evaluation_batches(options, sentences, parts),
        [each.tags for each in sentences],
        parts.names,
        options.data.scheme,
        fabric.device,
    )
    trained = train_model(
        options,
        overrides,
        fabric,
        run_folder,
        model,
        train,
        validate=validate,
        metric=F1,
        save=parts.save,
        signatures=signatures,
    )
    if trained.stopped == "signal":  # a summary is of whole runs only
        return Result(trained.best, None, run_folder.path, {}, trained)

    scores = score_splits(options, corpus, parts, model, fabric, run_folder.path)
    valid, test = scores["valid"], scores["test"]
    if fabric.is_global_zero:
        summarise(
            "conll",
            options,
            run_folder,
            model,
            trained,
            valid=valid.f1,
            test=test.f1,
            signature=corpus.signature,
            mode=test.mode,
            scheme=test.scheme,
            source_scheme=corpus.source_scheme,
            precision=test.precision,
            recall=test.recall,
            per_type=test.per_type,
            scores={
                name: {"f1": score.f1, "mode": score.mode, "scheme": score.scheme}
                for name, score in scores.items()
            },
        )
    fabric.print(described(scores))
    fabric.print(f"run folder {run_folder.path}")
    return Result(valid.f1, test.f1, run_folder.path, scores, trained)


def evaluate(options: TaggingRun) -> Result:
    """Print and return the scores of `checkpoint=` on the validation and the test split."""
    model, parts, fabric = load_trained(options)
    announce_few(options, fabric)
    corpus = read_corpus(options.data)
    scores = score_splits(options, corpus, parts, model, fabric)
    fabric.print(f"corpus {corpus.name}, hash {corpus.signature}")
    fabric.print(described(scores))
    folder = run_folder_of(str(options.checkpoint))
    return Result(scores["valid"].f1, scores["test"].f1, folder, scores)


def tag(options: TaggingRun) -> None:
    """Tag `input=` with the model of `checkpoint=`, sentence by sentence, into `output=`."""
    model, parts, fabric = load_trained(options)
    scheme, output_format = options.data.scheme, options.output_format
    with input_from(options.input) as source, output_to(options.output) as target:
        name = "standard input" if options.input == STANDARD_STREAM else options.input
        sentences = read_sentences(source, options.text, name)
        for tokens, tags in tag_stream(model, sentences, parts.encoder, parts.names, fabric.device):
            target.write(written_sentence(tokens, tags, scheme, output_format))


def load_trained(options: TaggingRun) -> tuple[Tagger, Parts, Fabric]:
    """The model of `checkpoint=`, with what its run folder knows of words and tags."""
    checkpoint = checkpoint_of(str(options.checkpoint))
    parts = Parts.load(run_folder_of(checkpoint))
    fabric = start_fabric(options)
    model = make_model(options, parts)
    load_weights(model, checkpoint, parts.signatures())
    return model.to(fabric.device), parts, fabric


def describe(
    options: TaggingRun, corpus: TaggedCorpus, parts: Parts, model: Tagger, fabric: Fabric
) -> str:
    """What is about to be trained, on what and with what."""
    splits = (corpus.train, corpus.valid, corpus.test)
    sentences = ", ".join(f"{len(split):,}" for split in splits)
    tokens = ", ".join(f"{sum(map(len, split)):,}" for split in splits)
    return (
        f"corpus {corpus.name}, hash {corpus.signature}: {sentences} sentences, {tokens} tokens "
        f"(train, valid, test), vocabulary {len(parts.encoder.words):,}\n"
        f"tags {corpus.source_scheme.upper()} in the source, trained and scored in "
        f"{corpus.scheme.upper()}: {', '.join(corpus.types)}\n"
        f"model {options.model.num_layers} x {options.model.hidden_size} in both directions, "
        f"spelling {options.model.spelling}, {options.model.output}, "
        f"{number_of_parameters(model):,} parameters\n"
        f"{describe_computation(options, fabric)}"
    )


if __name__ == "__main__":
    launch("conll", main, told=(DataError, CheckpointError, NonFiniteError, ImportError))
