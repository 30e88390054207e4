"""The iwslt recipe's texts: read, parted into words, translated, scored, and written."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from sdrop.data import (
    BEGIN,
    END,
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
from sdrop.data.lines import read_lines
from sdrop.data.side import split
from sdrop.data.subwords import load_subwords, make_subwords, save_subwords
from sdrop.data.wit3 import has_wit3
from sdrop.evaluation import (
    DecodingSettings,
    Hypothesis,
    TranslationScores,
    replaced_unknown,
    translate,
    translation_scores,
)

from .configuration import translation as schema

LINES_AT_A_TIME = 1000  # of a text to translate: memory does not grow with it
_TAB = "\t"


@dataclass(frozen=True)
class Translated:
    """The translations of one line, best first: as words, as lines, and as they were found."""

    words: list[list[str]]
    lines: list[str]
    hypotheses: list[Hypothesis]


def read_corpus(data: schema.TranslationData) -> ParallelCorpus:
    """The three splits of the corpus that `data=` chooses."""
    languages = {"source": data.source, "target": data.target}
    if isinstance(data, schema.Dates):
        return load_parallel("dates", **languages, train_pairs=data.train_pairs)
    assert isinstance(data, schema.ParallelFiles | schema.Iwslt14 | schema.Iwslt15)
    files = {"train": data.train, "valid": data.valid, "test": data.test}
    tokenized = data.tokenized if isinstance(data, schema.ParallelFiles) else True
    return load_parallel(data.name, **languages, root=data.root, files=files, tokenized=tokenized)


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


def load_sides(data: schema.TranslationData, folder: Path) -> tuple[Side, Side]:
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


def decoding_settings(options: schema.Decoding) -> DecodingSettings:
    """The search that `decoding.` options ask for."""
    return DecodingSettings(
        beam_size=options.beam_size,
        length_penalty=options.length_penalty,
        coverage_penalty=options.coverage_penalty,
        max_length_ratio=options.max_length_ratio,
        max_length_extra=options.max_length_extra,
        n_best=options.n_best,
    )


def translated(
    models: Sequence[nn.Module],
    lines: Sequence[str],
    sides: tuple[Side, Side],
    options: schema.Decoding,
    settings: DecodingSettings,
    device: torch.device | str,
) -> list[Translated]:
    """The translations of each line, in the order of the lines."""
    source, target = sides
    sentences = [source.split(line) for line in lines]
    found = translate(
        models,
        [source.vocabulary.encode(words) for words in sentences],
        begin=target.mark(BEGIN),
        end=target.mark(END),
        settings=settings,
        batch_size=options.batch_size,
        device=device,
    )
    dictionary = read_dictionary(options.dictionary)

    def words(hypothesis: Hypothesis, sentence: list[str]) -> list[str]:
        pieces = target.vocabulary.decode(hypothesis.words)
        if options.replace_unknown:
            unknown = target.vocabulary.unknown_token
            pieces = replaced_unknown(pieces, hypothesis.attended, sentence, unknown, dictionary)
        return target.words(pieces)

    results = []
    for hypotheses, sentence in zip(found, sentences, strict=True):
        several = [words(hypothesis, sentence) for hypothesis in hypotheses]
        results.append(
            Translated(several, [target.text.detokenize(each) for each in several], hypotheses)
        )
    return results


def read_dictionary(path: str | None) -> dict[str, str]:
    """Translations of source words: lines of a word, a tab, and its translation.

    Raises:
        DataError: for a line of another form.
    """
    if path is None:
        return {}
    pairs = [line.split(_TAB) for line in read_lines(Path(path))]
    for number, pair in enumerate(pairs, start=1):
        if len(pair) != 2:
            raise DataError(f"{path}, line {number}: expected a word, a tab and its translation")
    return dict(pairs)  # type: ignore[arg-type]


def scored(found: Sequence[Translated], references: Sequence[str], text: MosesText) -> Scored:
    """Scores of the best translations, and the four texts that they rest on."""
    words = [text.tokenize(line) for line in references]
    lines = (
        [text.detokenize(each) for each in words]
        if text.tokenized
        else [line.lower() if text.lowercase else line for line in references]
    )
    texts = {
        "txt": [each.lines[0] for each in found],
        "reference.txt": lines,
        "tokens.txt": [" ".join(each.words[0]) for each in found],
        "reference.tokens.txt": [" ".join(each) for each in words],
    }
    return Scored(translation_scores(*texts.values()), texts)


@dataclass(frozen=True)
class Scored:
    """Scores, and the texts by the last part of their file's name."""

    scores: TranslationScores
    texts: dict[str, list[str]]

    def save(self, folder: Path, split: str) -> None:
        """Write the texts, to be scored again by others."""
        folder.mkdir(exist_ok=True)
        for name, lines in self.texts.items():
            (folder / f"{split}.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def lines_to_translate(path: str | None) -> Iterator[list[str]]:
    """Lines of a file or of the standard input, a thousand at a time.

    Raises:
        DataError: for a file that cannot be read, and text that is not UTF-8 (with line).
    """
    lines = iter(read_lines(Path(path))) if path is not None else _standard_input()
    while part := list(itertools.islice(lines, LINES_AT_A_TIME)):
        yield part


def _standard_input() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"standard input, line {number}: byte 0x{line[error.start]:02x} is not UTF-8 text"
            ) from None


def as_tensor(words: Sequence[int], device: torch.device | str) -> Tensor:
    """Word numbers on a device, int64 (N,)."""
    return torch.tensor(words, dtype=torch.int64, device=device)
