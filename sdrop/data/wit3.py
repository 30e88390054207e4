"""The TED talks as WIT3 distributes them: train.tags files, and XML files of segments.

    train.tags.de-en.de   IWSLT14.TED.dev2010.de-en.de.xml   IWSLT14.TED.tst2012.de-en.de.xml

The lines of the IWSLT14 training text are split as fairseq's preparation does, which most published
figures rest on: every 23rd line is for validation, and five sets together are the test. IWSLT15 is
validated on tst2012 and tested on tst2013 (Luong & Manning 2015).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from sdrop.data.errors import DataError
from sdrop.data.lines import read_bytes, read_lines

Lines = tuple[list[str], list[str]]

_DROPPED = ("<url>", "<talkid>", "<keywords>", "<speaker>", "<reviewer", "<translator")
_TAG = re.compile(r"</?(?:title|description|doc|transcript)[^>]*>")
_VALID_EVERY = 23
_TEST_SETS = {
    "iwslt14_de_en": ("dev2010", "dev2012", "tst2010", "tst2011", "tst2012"),
    "iwslt15_en_vi": ("tst2013",),
}
_VALID_SETS = {"iwslt14_de_en": (), "iwslt15_en_vi": ("tst2012",)}


def has_wit3(root: Path, source: str, target: str) -> bool:
    """Whether the folder holds an unpacked archive of this pair, in either order."""
    return _tags(root, source, target, source) is not None


def read_wit3(root: Path, source: str, target: str, corpus: str) -> dict[str, Lines]:
    """Lines of each split of an unpacked archive.

    Raises:
        DataError: for a missing set, XML that cannot be read (with line), or sides of different
            length.
    """
    train = _aligned(
        *(_tagged_lines(root, source, target, language) for language in (source, target)),
        what=f"train.tags in {root}",
    )
    valid, test = (
        _sets(root, names[corpus], source, target) for names in (_VALID_SETS, _TEST_SETS)
    )
    if not _VALID_SETS[corpus]:
        numbered = list(enumerate(zip(*train, strict=True)))
        valid = _sides([pair for number, pair in numbered if number % _VALID_EVERY == 0])
        train = _sides([pair for number, pair in numbered if number % _VALID_EVERY != 0])
    return {"train": train, "valid": valid, "test": test}


def read_segments(path: Path) -> list[str]:
    """Text of each `<seg>` of an evaluation set, in order.

    Raises:
        DataError: a file that is no XML (with line).
    """
    try:
        tree = ElementTree.fromstring(read_bytes(path))
    except ElementTree.ParseError as error:
        line = error.position[0]
        raise DataError(f"{path}, line {line}: not the XML of an evaluation set: {error}") from None
    return [" ".join("".join(segment.itertext()).split()) for segment in tree.iter("seg")]


def _tagged_lines(root: Path, source: str, target: str, language: str) -> list[str]:
    path = _tags(root, source, target, language)
    if path is None:
        raise DataError(
            f"{root.absolute()} has a train.tags file of one language, but none of "
            f"{language!r}: expected train.tags.{source}-{target}.{language}"
        )
    return list(_spoken(read_lines(path)))


def _spoken(lines: list[str]) -> Iterator[str]:
    """What was said, and the talk's title and description; no other tags."""
    for line in lines:
        text = line.strip()
        if not text.startswith(_DROPPED):
            without = _TAG.sub("", text).strip()
            if without or not text:
                yield without


def _tags(root: Path, source: str, target: str, language: str) -> Path | None:
    names = (f"train.tags.{pair}.{language}" for pair in _pairs(source, target))
    return next((root / name for name in names if (root / name).is_file()), None)


def _pairs(source: str, target: str) -> tuple[str, str]:
    return f"{source}-{target}", f"{target}-{source}"


def _sets(root: Path, names: tuple[str, ...], source: str, target: str) -> Lines:
    sides: Lines = ([], [])
    for name in names:
        read = [
            read_segments(_segments(root, name, source, target, language))
            for language in (source, target)
        ]
        for side, lines in zip(sides, _aligned(*read, what=f"{name} in {root}"), strict=True):
            side += lines
    return sides


def _segments(root: Path, name: str, source: str, target: str, language: str) -> Path:
    for pair in _pairs(source, target):
        found = sorted(root.glob(f"IWSLT*.{name}.{pair}.{language}.xml"))
        if found:
            return found[0]
    raise DataError(
        f"{root.absolute()} has no IWSLT*.{name}.{source}-{target}.{language}.xml: unpack the "
        "whole archive there"
    )


def _aligned(source: list[str], target: list[str], *, what: str) -> Lines:
    if len(source) != len(target):
        raise DataError(
            f"{what}: {len(source):,} lines of text in one language and {len(target):,} in the "
            "other: expected as many"
        )
    return source, target


def _sides(pairs: list[tuple[str, str]]) -> Lines:
    return [source for source, _ in pairs], [target for _, target in pairs]
