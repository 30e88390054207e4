"""Tag schemes: how spans of tokens are written as a tag a token.

| scheme | an entity of three tokens, one of one token | known from                        |
|--------|---------------------------------------------|-----------------------------------|
| IOB1   | I I I, I; B only right after its own type   | Ramshaw & Marcus 1995, CoNLL-2003 |
| IOB2   | B I I, B                                    | Ratnaparkhi 1998, CoNLL-2000      |
| IOBES  | B I E, S                                    | Lample et al. 2016                |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sdrop.data.columns import Sentence
from sdrop.data.errors import DataError

Scheme = Literal["iob1", "iob2", "iobes"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
OUTSIDE = "O"

_PREFIXES = {"iob1": "BI", "iob2": "BI", "iobes": "BIES"}
_NOTHING = ("O", "")  # what stands before the first and after the last token


class Span(NamedTuple):
    """An entity: tokens `start` up to and without `end`."""

    start: int
    end: int
    type: str


class Constraints(NamedTuple):
    """What a scheme allows, bool: first tags (C,), from one tag (row) to the next (column) (C, C),
    and last tags (C,)."""

    start: Tensor
    transitions: Tensor
    end: Tensor


def check_scheme(scheme: str) -> Scheme:
    """Returns `scheme`; ValueError where it is none."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r}: expected one of {', '.join(SCHEMES)}")
    return scheme


def split_tag(tag: str) -> tuple[str, str]:
    """`"B-PER"` as `("B", "PER")`, `"O"` as `("O", "")`.

    Raises:
        DataError: for a tag of another form.
    """
    if tag == OUTSIDE:
        return _NOTHING
    prefix, dash, kind = tag.partition("-")
    if not dash or not kind or prefix not in tuple("BIES"):
        raise DataError(
            f"{tag!r} is no tag: expected O, or B, I, E or S with a type, such as B-PER"
        )
    return prefix, kind


def recognise_scheme(sentences: Sequence[Sentence], path: object = "the data") -> Scheme:
    """The scheme in which all tags are legal; IOB2 where they are in several.

    Args:
        sentences: with their line numbers, for the error.
        path: the file that they are from, likewise.

    Raises:
        DataError: a tag that is none, or tags that are illegal in each scheme (with the line of
            the first offence in the scheme that fits best).
    """
    faults = {scheme: _faults(sentences, scheme, path) for scheme in ("iob2", "iob1", "iobes")}
    best = min(faults, key=lambda scheme: len(faults[scheme]))
    if faults[best]:
        more = f" (and {len(faults[best]) - 1} more)" if len(faults[best]) > 1 else ""
        raise DataError(
            f"{faults[best][0]}{more}. The tags fit {best.upper()} best; correct the file, or "
            "convert it to one scheme throughout"
        )
    return check_scheme(best)


def check_tags(sentences: Sequence[Sentence], scheme: str, path: object = "the data") -> None:
    """Raises DataError with file and line for the first tag that is illegal in `scheme`."""
    faults = _faults(sentences, check_scheme(scheme), path)
    if faults:
        raise DataError(faults[0])


def spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """The entities of a sentence, in order.

    Tags that are illegal in the scheme are read as conlleval reads them: an entity begins wherever
    a tag cannot go on with the one before it, and ends where the next one cannot go on with it.
    """
    found: list[Span] = []
    start = 0
    parts = [split_tag(tag) for tag in tags]
    for place, (before, after) in enumerate(pairwise([_NOTHING, *parts, _NOTHING])):
        begins = _begins(before, after, scheme)
        if before != _NOTHING and (begins or after == _NOTHING):
            found.append(Span(start, place, before[1]))
        if begins:
            start = place
    return found


def tags_of(found: Iterable[Span], length: int, scheme: str) -> list[str]:
    """The tags of a sentence of `length` tokens with these entities, which must not overlap.

    Raises:
        ValueError: for an entity outside the sentence or one that overlaps another.
    """
    tags = [OUTSIDE] * length
    end_before, type_before = 0, ""
    for span in sorted(found):
        if not end_before <= span.start < span.end <= length:
            raise ValueError(
                f"{span} in a sentence of {length} tokens: expected entities inside the sentence "
                "that do not overlap"
            )
        touches = span.start == end_before and span.type == type_before
        prefixes = _prefixes(span.end - span.start, scheme, touches=touches)
        tags[span.start : span.end] = [f"{prefix}-{span.type}" for prefix in prefixes]
        end_before, type_before = span.end, span.type
    return tags


def convert(tags: Sequence[str], scheme: str, to: str) -> list[str]:
    """The same entities in another scheme."""
    return list(tags) if scheme == to else tags_of(spans(tags, scheme), len(tags), to)


def all_tags(types: Iterable[str], scheme: str) -> list[str]:
    """Each tag that sentences with entities of these types may need: O first, then type by type."""
    prefixes = _PREFIXES[check_scheme(scheme)]
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in sorted(types) for prefix in prefixes)]


def constraints(tags: Sequence[str], scheme: str) -> Constraints:
    """Which of these tags may come first, follow each other and come last."""
    parts = [split_tag(tag) for tag in tags]
    return Constraints(
        torch.tensor([_is_legal(_NOTHING, part, scheme) for part in parts]),
        torch.tensor([[_is_legal(before, after, scheme) for after in parts] for before in parts]),
        torch.tensor([_is_legal(part, _NOTHING, scheme) for part in parts]),
    )


def _prefixes(length: int, scheme: str, *, touches: bool) -> str:
    if scheme == "iobes":
        return "S" if length == 1 else f"B{'I' * (length - 2)}E"
    begins = scheme == "iob2" or touches
    return ("B" if begins else "I") + "I" * (length - 1)


def _begins(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    """Whether an entity begins between two tags."""
    if after == _NOTHING:
        return False
    ended = before[0] in ("E", "S") and scheme == "iobes"
    return before[1] != after[1] or after[0] in ("B", "S") or ended


def _is_legal(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    (first, kind), (second, next_kind) = before, after
    if not {first, second} <= {"O", *_PREFIXES[scheme]}:
        return False
    inside = kind == next_kind and first != "O"
    if scheme == "iob1":
        return second != "B" or inside
    if scheme == "iob2":
        return second != "I" or inside
    if first in ("B", "I"):  # the entity is open still
        return second in ("I", "E") and inside
    return second in ("O", "B", "S")


def _faults(sentences: Sequence[Sentence], scheme: str, path: object) -> list[str]:
    legal: dict[tuple[str, str], bool] = {}
    found = []
    for sentence in sentences:
        tags = (OUTSIDE, *sentence.tags, OUTSIDE)
        for place, pair in enumerate(pairwise(tags)):
            if pair not in legal:
                parts = (
                    _split_here(pair[0], sentence, place - 1, path),
                    _split_here(pair[1], sentence, place, path),
                )
                legal[pair] = _is_legal(*parts, scheme)
            if not legal[pair]:
                found.append(_fault(sentence, place, pair, scheme, path))
    return found


def _split_here(tag: str, sentence: Sentence, place: int, path: object) -> tuple[str, str]:
    try:
        return split_tag(tag)
    except DataError as error:
        raise DataError(f"{_where(sentence, place, path)}: {error}") from None


def _fault(sentence: Sentence, place: int, pair: tuple[str, str], scheme: str, path: object) -> str:
    before = "at the start of a sentence" if place == 0 else f"after {pair[0]}"
    if place == len(sentence):
        return (
            f"{_where(sentence, place - 1, path)}: {pair[0]} at the end of a sentence is illegal "
            f"in {scheme.upper()}"
        )
    return f"{_where(sentence, place, path)}: {pair[1]} {before} is illegal in {scheme.upper()}"


def _where(sentence: Sentence, place: int, path: object) -> str:
    if sentence.lines:
        return f"{path}, line {sentence.lines[place]}"
    return f"{path}, token {place + 1} of {' '.join(sentence.tokens)[:60]!r}"
