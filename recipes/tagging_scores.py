"""The scores of a tagging run, with mode and scheme beside each, and the files that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning_fabric import Fabric

from sdrop.data import Sentence, TaggedCorpus
from sdrop.data.token_streams import scored_sentences
from sdrop.evaluation.entities import EntityScore, confusion, confusion_table, entity_score
from sdrop.evaluation.tagging import tag_all, tag_lists
from sdrop.models import Tagger
from sdrop.models.tagging_baselines import look_up_tags, softmax_tags

from .configuration.tagging import TaggingRun
from .tagging_parts import Parts, evaluated, evaluation_batches

PREDICTIONS = "predictions.txt"  # of the test split: token, right tag, found tag
CONFUSION = "confusion.txt"

Tags = list[list[str]]
Scores = dict[str, EntityScore]


def score_splits(
    options: TaggingRun,
    corpus: TaggedCorpus,
    parts: Parts,
    model: Tagger,
    fabric: Fabric,
    folder: Path | None = None,
) -> Scores:
    """Scores by name: of valid and test, of test in seqeval's default mode, and the baselines'.

    With a folder the first process writes the test split's predictions and confusion there.
    """
    scheme, splits = options.data.scheme, evaluated(options, corpus)
    found = {name: _tags(options, each, parts, model, fabric) for name, each in splits.items()}
    truth = {name: [list(each.tags) for each in split] for name, split in splits.items()}
    scores = {name: entity_score(truth[name], found[name], scheme=scheme) for name in splits}
    scores["test, default mode"] = entity_score(
        truth["test"], found["test"], scheme=scheme, mode="default"
    )
    if options.baselines:
        for name, tags in _baselines(corpus, splits["test"], scheme).items():
            scores[name] = entity_score(truth["test"], tags, scheme=scheme)
    if folder is not None and fabric.is_global_zero:
        _write(folder, splits["test"], truth["test"], found["test"], scheme)
    return scores


def described(scores: Scores) -> str:
    """A line a score; test type by type."""
    lines = []
    for name, score in scores.items():
        text = str(score)
        lines.append(f"{name}: {text if name == 'test' else text.splitlines()[0]}")
    return "\n".join(lines)


def _tags(
    options: TaggingRun,
    sentences: Sequence[Sentence],
    parts: Parts,
    model: Tagger,
    fabric: Fabric,
) -> Tags:
    batches = evaluation_batches(options, sentences, parts)
    with fabric.autocast():
        tags = tag_all(model, batches, fabric.device).tags
    return tag_lists(tags, batches.sentences.lengths, parts.names)


def _baselines(corpus: TaggedCorpus, test: Sequence[Sentence], scheme: str) -> dict[str, Tags]:
    tokens = [each.tokens for each in test]
    return {
        "baseline, look-up table": look_up_tags(corpus.train, tokens, scheme),
        "baseline, softmax on word, neighbours and shape": softmax_tags(corpus.train, tokens),
    }


def _write(folder: Path, test: Sequence[Sentence], truth: Tags, found: Tags, scheme: str) -> None:
    lines = scored_sentences([each.tokens for each in test], truth, found)
    (folder / PREDICTIONS).write_text("".join(lines), encoding="utf-8")
    table = confusion_table(confusion(truth, found, scheme))
    (folder / CONFUSION).write_text(table + "\n", encoding="utf-8")
