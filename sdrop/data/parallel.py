"""Parallel text: aligned lines in two languages, in the forms that people have them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sdrop.data.dates import read_dates
from sdrop.data.errors import DataError
from sdrop.data.lines import exists, read_lines
from sdrop.data.splits import SPLITS, check_name, split_paths
from sdrop.data.wit3 import has_wit3, read_wit3

PARALLEL_CORPORA = ("dates", "iwslt14_de_en", "iwslt15_en_vi", "parallel")


@dataclass(frozen=True)
class ParallelText:
    """Line i of `target` is the translation of line i of `source`."""

    source: list[str] = field(repr=False)
    target: list[str] = field(repr=False)

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class ParallelCorpus:
    """Three splits of parallel text.

    Attributes:
        name: which corpus.
        source_language, target_language: codes such as `"de"`.
        train, valid, test: the splits.
        tokenized: whether words and signs are parted by spaces already.
        notes: what was left out of the training text and why, a sentence each.
    """

    name: str
    source_language: str
    target_language: str
    train: ParallelText
    valid: ParallelText
    test: ParallelText
    tokenized: bool
    notes: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """Short hash of all lines: figures compare only within one."""
        digest = hashlib.sha256()
        for text in (self.train, self.valid, self.test):
            for side in (text.source, text.target):
                digest.update("\n".join([*side, ""]).encode())
        return digest.hexdigest()[:12]


def load_parallel(
    name: str,
    *,
    source: str = "de",
    target: str = "en",
    root: str | Path | None = None,
    files: Mapping[str, str] | None = None,
    tokenized: bool = True,
    train_pairs: int = 12_000,
) -> ParallelCorpus:
    """Parallel text by the name of its corpus.

    A training pair with an empty side teaches nothing, and one that stands in the validation or
    test split as well would be measured on what was learnt: both are left out, and counted in
    `notes`.

    Args:
        name: `"dates"`, dates written out, from Babel's tables, with no files; `"iwslt14_de_en"`
            and `"iwslt15_en_vi"`, aligned files or the WIT3 archive's own in `root`;
            `"parallel"`, your own aligned files.
        source, target: the languages, which are the files' last suffixes.
        root: folder of the files.
        files: each split's file without its language: `"train"` stands for train.de and train.en.
        tokenized: whether your own files (`"parallel"`) have words and signs parted by spaces.
        train_pairs: how many pairs of `"dates"` to train on.

    Raises:
        DataError: for an unknown name, a missing file, sides of different length, text that is
            not UTF-8, or a training split without pairs.
    """
    check_name("corpus", name, PARALLEL_CORPORA, own="parallel")
    places: dict[str, str] = {}
    if name == "dates":
        lines, is_tokenized = read_dates(source, target, train_pairs), False
    else:
        folder = Path(root).expanduser() if root is not None else Path()
        if name != "parallel" and has_wit3(folder, source, target):
            lines, is_tokenized = read_wit3(folder, source, target, name), False
        else:
            files = {split: split for split in SPLITS} if files is None else files
            prefixes = split_paths(folder, files)
            places = {s: f"{path}.{source} and .{target}" for s, path in prefixes.items()}
            lines = {s: _read_aligned(path, source, target) for s, path in prefixes.items()}
            is_tokenized = tokenized or name != "parallel"
    splits = {split: ParallelText(*lines[split]) for split in SPLITS}
    splits["train"], notes = _useful(
        splits, {split: places.get(split, f"corpus {name}") for split in SPLITS}
    )
    return ParallelCorpus(
        name, source, target, **splits, tokenized=is_tokenized, notes=tuple(notes)
    )


def read_aligned(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Lines of two files that belong together.

    Raises:
        DataError: for what `read_lines` refuses, and for files of different length.
    """
    sides = read_lines(source), read_lines(target)
    if len(sides[0]) != len(sides[1]):
        paths = sorted(zip(map(len, sides), (source, target), sides, strict=True))
        (shorter, short, _), (longer, long, lines) = paths
        raise DataError(
            f"{long} has {longer:,} lines and {short} {shorter:,}: expected the translation of "
            f"each line in the same line. {long}, line {shorter + 1}, has none: "
            f"{lines[shorter][:60]!r}"
        )
    return sides


def _read_aligned(prefix: Path, source: str, target: str) -> tuple[list[str], list[str]]:
    paths = [Path(f"{prefix}.{language}") for language in (source, target)]
    for path in paths:
        if not exists(path):
            raise DataError(
                f"{path.absolute()} does not exist: expected aligned files {paths[0].name} and "
                f"{paths[1].name}, a sentence a line. Set data.root to their folder, and "
                "data.train, data.valid and data.test to their names without the language"
            )
    return read_aligned(paths[0], paths[1])


def _useful(
    splits: Mapping[str, ParallelText], places: Mapping[str, str]
) -> tuple[ParallelText, list[str]]:
    """The training pairs to learn from, and what was left out; `places` says whence they are."""
    train = splits["train"]
    pairs = list(zip(train.source, train.target, strict=True))
    filled = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    measured = {
        pair
        for split in ("valid", "test")
        for pair in zip(splits[split].source, splits[split].target, strict=True)
    }
    kept = [pair for pair in filled if pair not in measured]
    if not kept:
        raise DataError(
            f"no training pair is left of {len(pairs):,}: {len(pairs) - len(filled):,} have an "
            f"empty side, and {len(filled):,} are validation or test pairs; expected at least one "
            f"in {places['train']}"
        )
    for split in ("valid", "test"):
        if not len(splits[split]):
            raise DataError(
                f"the {split} text has no line: expected at least one in {places[split]}"
            )
    notes = []
    if len(filled) < len(pairs):
        notes.append(f"left out {len(pairs) - len(filled)} training pairs with an empty side")
    if len(kept) < len(filled):
        notes.append(
            f"left out {len(filled) - len(kept)} training pairs that are validation or test pairs"
        )
    source, target = zip(*kept, strict=True)
    return ParallelText(list(source), list(target)), notes
