"""The iwslt recipe's texts: read, parted into words, translated, scored, and written."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from sdrop.data import (
    DataError,
    MosesText,
    Pair,
    ParallelCorpus,
    ParallelText,
    Side,
    Vocabulary,
    build_vocabulary,
    load_parallel,
    load_vocabulary,
)
from sdrop.data.lines import read_lines, stream_lines
from sdrop.data.side import split
from sdrop.data.subwords import load_subwords, make_subwords, save_subwords
from sdrop.data.wit3 import has_wit3

from .configuration import translation as schema

LINES_AT_A_TIME = 1000  # of a text to translate: memory does not grow with it
Sides = tuple[Side, Side]


def read_corpus(data: schema.TranslationData) -> ParallelCorpus:
    """The three splits of the corpus that `data=` chooses."""
    source, target = data.source, data.target
    if isinstance(data, schema.Dates):
        return load_parallel("dates", source=source, target=target, train_pairs=data.train_pairs)
    assert isinstance(data, schema.ParallelFiles | schema.Iwslt14 | schema.Iwslt15)
    files = {"train": data.train, "valid": data.valid, "test": data.test}
    tokenized = data.tokenized if isinstance(data, schema.ParallelFiles) else True
    return load_parallel(
        data.name, source=source, target=target, root=data.root, files=files, tokenized=tokenized
    )


def make_sides(
    data: schema.TranslationData, corpus: ParallelCorpus
) -> tuple[Side, Side, list[Pair]]:
    """Both languages' words, from the training text or as given, and that text in numbers."""
    texts = corpus.train.source, corpus.train.target
    languages = corpus.source_language, corpus.target_language
    sides, numbers = [], []
    for language, lines in zip(languages, texts, strict=True):
        text = MosesText(language, tokenized=corpus.tokenized, lowercase=data.lowercase)
        subwords = make_subwords(
            data.subwords,
            (" ".join(text.tokenize(line)) for line in lines),
            size=data.subword_size,
            codes=None if data.subword_codes is None else Path(f"{data.subword_codes}.{language}"),
        )
        sentences = [split(line, text, subwords) for line in lines]
        if data.vocabulary is None or not corpus.tokenized:
            vocabulary = build_vocabulary(
                sentences, max_size=data.max_vocabulary, min_frequency=data.min_frequency
            )
        else:
            vocabulary = load_vocabulary(Path(f"{data.vocabulary}.{language}"))
        sides.append(Side(text, vocabulary, subwords))
        numbers.append([vocabulary.encode(sentence) for sentence in sentences])
    return sides[0], sides[1], [Pair(*pair) for pair in zip(*numbers, strict=True)]


def not_too_long(pairs: list[Pair], most: int | None) -> list[Pair]:
    """The pairs of at most so many words on either side.

    Raises:
        DataError: where none is left.
    """
    kept = [pair for pair in pairs if most is None or max(map(len, pair)) <= most]
    if not kept:
        raise DataError(f"data.max_length={most}: no training pair is that short; raise it")
    return kept


def encoded(text: ParallelText, source: Side, target: Side) -> list[Pair]:
    """A split in numbers."""
    lines = zip(text.source, text.target, strict=True)
    return [Pair(source.numbers(line), target.numbers(other)) for line, other in lines]


def save_sides(source: Side, target: Side, folder: Path) -> None:
    """Keep the words of both languages in a run folder."""
    for name, side in (("source", source), ("target", target)):
        side.vocabulary.save(folder / f"vocabulary.{name}.txt")
        save_subwords(side.subwords, folder / f"subwords.{name}")


def load_sides(data: schema.TranslationData, folder: Path) -> Sides:
    """The words of both languages from a run folder."""
    raw = isinstance(data, schema.Dates) or (
        not data.tokenized
        if isinstance(data, schema.ParallelFiles)
        else data.root is not None and has_wit3(Path(data.root), data.source, data.target)
    )
    return tuple(  # type: ignore[return-value]
        Side(
            MosesText(language, tokenized=not raw, lowercase=data.lowercase),
            Vocabulary.load(folder / f"vocabulary.{name}.txt"),
            load_subwords(data.subwords, folder / f"subwords.{name}"),
        )
        for name, language in (("source", data.source), ("target", data.target))
    )


def lines_to_translate(path: str | None) -> Iterator[list[str]]:
    """Lines of a file or of the standard input, a thousand at a time.

    Raises:
        DataError: for a file that cannot be read, and text that is not UTF-8 (with line).
    """
    if path is None:
        lines = stream_lines(sys.stdin.buffer, "standard input")
    else:
        lines = iter(read_lines(Path(path)))
    while part := list(itertools.islice(lines, LINES_AT_A_TIME)):
        yield part
