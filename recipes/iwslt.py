"""Train an attentional LSTM translator with dropout, on IWSLT or on aligned files of your own.

    python -m recipes.iwslt                                 # dates, German to English: a minute
    python -m recipes.iwslt data.source=en data.target=vi   # dates, English to Vietnamese
    python -m recipes.iwslt experiment=opennmt_de_en data.root=DIR dropout=structured
    python -m recipes.iwslt data=parallel data.root=DIR data.source=de data.target=en
    python -m recipes.iwslt resume=auto hydra.run.dir=DIR   # go on with a run that was stopped
    python -m recipes.iwslt mode=evaluate checkpoint=DIR decoding.beam_size=10
    python -m recipes.iwslt mode=translate checkpoint=DIR input=FILE output=FILE
    echo "Samstag, 3. April 2021" | python -m recipes.iwslt mode=translate checkpoint=DIR

`main` takes the options that Hydra composed and `run` trains, by the course in training.py that all
recipes share; texts.py has what concerns lines and words, translations.py what is found. In an
installed package this is `sdrop.recipes.iwslt`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightning_fabric import Fabric
from omegaconf import DictConfig

from sdrop.data import (
    BEGIN,
    END,
    DataError,
    Pair,
    ParallelCorpus,
    ParallelText,
    Side,
    TranslationBatches,
)
from sdrop.models import Translator, TranslatorSizes
from sdrop.training import (
    BLEU,
    CheckpointError,
    FitResult,
    NonFiniteError,
    RunFolder,
    load_average,
    newest,
)

from .building import build_model, number_of_parameters, start_fabric
from .configuration import as_options, launch
from .configuration.translation import TranslationRun
from .run_folder import checkpoint_of, run_folder_of
from .streams import STANDARD_STREAM, output_to
from .texts import (
    Sides,
    lines_to_translate,
    load_sides,
    make_sides,
    not_too_long,
    read_corpus,
    save_sides,
)
from .training import (
    announce_few,
    describe_computation,
    folder_and_overrides,
    summarise,
    train_model,
    whole,
)
from .translations import (
    Scored,
    check_attention_maps,
    check_beam,
    decoding_settings,
    draw_attention_maps,
    lines_of,
    tested,
    translated,
    validated,
)


@dataclass(frozen=True)
class Result:
    """BLEU on both splits, the test's scores, the run folder, and the run where one was trained."""

    valid: float | None
    test: Scored | None
    folder: Path
    fit: FitResult | None = None


def main(config: DictConfig) -> float | None:
    """Do what `mode=` says; return the validation BLEU, for a sweeper to maximise."""
    options: TranslationRun = as_options(config)
    if options.mode == "translate":
        translate_lines(options)
        return None
    if options.mode == "evaluate":
        return evaluate(options).valid
    return whole(run(options, *folder_and_overrides())).valid


def run(
    options: TranslationRun, folder: str | Path | None, overrides: Sequence[str] = ()
) -> Result:
    """Train a translator, test the best of its checkpoints, and fill the run folder.

    Args:
        options: plain dataclasses, as `as_options(compose("iwslt", [...]))` makes them.
        folder: the run folder; the first of several processes tells the others.
        overrides: the command line, which is recalled when the run goes on.

    Raises:
        Mistake, DataError, CheckpointError, NonFiniteError: with what can be done about it.
    """
    corpus = read_corpus(options.data)
    check_attention_maps(options.attention_maps, corpus.test)
    source, target, pairs = make_sides(options.data, corpus)
    sides = source, target
    check_beam(options.decoding, target)
    fabric = start_fabric(options)
    run_folder = RunFolder(fabric.broadcast(str(folder)))
    pairs = not_too_long(pairs, options.data.max_length)
    train = training_batches(options, pairs, target, fabric)
    measured = measured_text(options, corpus)
    model = make_model(options, sides)
    signatures = {
        "vocabulary": signature_of(sides),
        "corpus": corpus.signature,
        "batches": f"{options.data.batch_size} {options.data.batch_unit}, seed {options.seed}",
    }
    fabric.print(describe(options, corpus, len(pairs), sides, model, fabric))
    trained = train_model(
        options,
        overrides,
        fabric,
        run_folder,
        model,
        train,
        validate=lambda: validated(options, model, measured, sides, fabric),
        metric=BLEU,
        save=lambda folder: save_sides(source, target, folder),
        signatures=signatures,
    )
    if trained.stopped == "signal":  # a summary is of whole runs only
        return Result(trained.best, None, run_folder.path, trained)

    test = tested(options, [model], limited_text(options, corpus.test), sides, fabric)
    valid = trained.best
    if valid is None:
        valid = validated(options, model, measured, sides, fabric).metrics[BLEU.name]
    if fabric.is_global_zero:
        test.save(run_folder.path / "translations", "test")
        draw_attention_maps(options, model, corpus.test, sides, fabric, run_folder.path)
        summarise(
            "iwslt",
            options,
            run_folder,
            model,
            trained,
            valid=valid,
            test=test.scores.bleu,
            signature=f"{corpus.signature}-{signature_of(sides)}",
            **dataclasses.asdict(test.scores),
            beam_size=options.decoding.beam_size,
            direction=f"{options.data.source}-{options.data.target}",
            epochs=trained.epochs,
        )
    fabric.print(f"BLEU {valid:.2f} valid, greedy; test, beam {options.decoding.beam_size}:")
    fabric.print(test.scores)
    fabric.print(f"run folder {run_folder.path}")
    return Result(valid, test, run_folder.path, trained)


def training_batches(
    options: TranslationRun, pairs: Sequence[Pair], target: Side, fabric: Fabric
) -> TranslationBatches:
    """This process's share of the training batches."""
    return TranslationBatches(
        pairs,
        batch_size=options.data.batch_size,
        unit="tokens" if options.data.batch_unit == "tokens" else "sentences",
        begin=target.mark(BEGIN),
        end=target.mark(END),
        seed=options.seed,
        shuffle=not options.debug.overfit,  # the first batches of each epoch are the same then
        rank=fabric.global_rank,
        world_size=fabric.world_size,
    )


def measured_text(options: TranslationRun, corpus: ParallelCorpus) -> ParallelText:
    """What is validated on: all or the first sentences; those trained on with debug=overfit."""
    text = limited_text(options, corpus.train if options.debug.overfit else corpus.valid)
    count = options.data.valid_sentences
    return ParallelText(text.source[:count], text.target[:count])


def limited_text(options: TranslationRun, text: ParallelText) -> ParallelText:
    """The first sentences of a split, where `debug=` wants no more."""
    batches = options.debug.evaluation_batches
    count = None if batches is None else batches * options.decoding.batch_size
    return ParallelText(text.source[:count], text.target[:count])


def make_model(options: TranslationRun, sides: Sides) -> Translator:
    """The model with its first weights, which follow from the seed."""
    sizes = dataclasses.asdict(options.model)
    init_range = sizes.pop("init_range")
    words = [len(side.vocabulary) for side in sides]
    return build_model(
        options,
        lambda **dropout: Translator(
            *words, TranslatorSizes(**sizes), init_range=init_range, **dropout
        ),
    )


def evaluate(options: TranslationRun) -> Result:
    """Print and return the scores of `checkpoint=` on the validation and the test split."""
    models, sides, fabric = load_trained(options)
    announce_few(options, fabric)
    corpus = read_corpus(options.data)
    fabric.print(f"corpus {corpus.name}, hash {corpus.signature}")
    found = {}
    for split, text in (("valid", corpus.valid), ("test", corpus.test)):
        found[split] = tested(options, models, limited_text(options, text), sides, fabric)
        fabric.print(f"{split}, beam {options.decoding.beam_size}:\n{found[split].scores}")
    folder = run_folder_of(str(options.checkpoint))
    return Result(found["valid"].scores.bleu, found["test"], folder)


def translate_lines(options: TranslationRun) -> None:
    """Write the translation of each line of `input=`, in its place; n_best lines of n-best lists.

    An empty line has an empty translation. Those lists are `number ||| translation ||| score`.
    """
    models, sides, fabric = load_trained(options)
    settings = decoding_settings(options.decoding)
    number = 0
    with output_to(options.output or STANDARD_STREAM) as output:
        for lines in lines_to_translate(options.input):
            found = translated(models, lines, sides, options.decoding, settings, fabric.device)
            for each in found:
                for line in lines_of(each, number, options):
                    output.write(f"{line}\n")
                number += 1
            output.flush()


def load_trained(options: TranslationRun) -> tuple[list[Translator], Sides, Fabric]:
    """The models of `checkpoint=` and `ensemble=`, with the words from the first's run folder."""
    names = [str(options.checkpoint), *options.ensemble]
    checkpoints = [checkpoint_of(name) for name in names]
    sides = load_sides(options.data, run_folder_of(checkpoints[0]))
    check_beam(options.decoding, sides[1])
    fabric = start_fabric(options)
    models = []
    for checkpoint in checkpoints:
        model = make_model(options, sides)
        averaged = [checkpoint]
        if options.average > 1:
            averaged = newest(checkpoint.parent, options.average)
        load_average(model, averaged, {"vocabulary": signature_of(sides)})
        models.append(model.to(fabric.device))
    return models, sides, fabric


def signature_of(sides: Sides) -> str:
    """Hash of both vocabularies."""
    return "-".join(side.vocabulary.signature for side in sides)


def describe(
    options: TranslationRun,
    corpus: ParallelCorpus,
    train_pairs: int,
    sides: Sides,
    model: Translator,
    fabric: Fabric,
) -> str:
    """What is about to be trained, on what and with what."""
    words = " and ".join(f"{len(side.vocabulary):,}" for side in sides)
    sizes = options.model
    return "\n".join(
        [
            f"corpus {corpus.name}, {corpus.source_language} to {corpus.target_language}, hash "
            f"{corpus.signature}: {train_pairs:,}, {len(corpus.valid):,}, {len(corpus.test):,} "
            f"pairs (train, valid, test), vocabularies {words}",
            *corpus.notes,
            f"model {sizes.num_layers} x {sizes.hidden_size}, {sizes.attention} attention, "
            f"{number_of_parameters(model):,} parameters",
            describe_computation(options, fabric),
        ]
    )


if __name__ == "__main__":
    launch("iwslt", main, told=(DataError, CheckpointError, NonFiniteError, ImportError))
