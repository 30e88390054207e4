"""Sentences to tag, read from a stream and written to one, a sentence at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Literal, get_args

from sdrop.data.columns import DOCUMENT_MARK
from sdrop.data.lines import stream_lines
from sdrop.data.tags import spans

Text = Literal["raw", "tokens", "columns"]

# Abbreviations with full stops inside, contractions and their endings, numbers, words with hyphens,
# runs of dots and dashes, and any other sign for itself.
_TOKEN = re.compile(
    r"(?:[^\W\d_]\.){2,}"
    r"|n't\b|'(?:s|t|re|ll|ve|d|m)\b"
    r"|[^\W\d_]+(?=n't\b)"
    r"|\d+(?:[.,:/-]\d+)*(?:[^\W_]+)?"
    r"|[^\W_]+(?:[-&][^\W_]+)*"
    r"|\.{2,}|-{2,}|\S",
    re.IGNORECASE,
)


def split_tokens(text: str) -> list[str]:
    """Words, numbers and signs of raw text, about as the CoNLL-2003 files part them."""
    return _TOKEN.findall(text.replace("’", "'"))


def read_sentences(stream: BinaryIO, text: str, name: str) -> Iterator[list[str]]:
    """The tokens of each sentence of a stream, which is read no further than needed.

    Args:
        stream: UTF-8; LF or CRLF.
        text: "raw", a sentence a line, which is parted into tokens; "tokens", a sentence a line,
            its tokens parted by blanks; "columns", a token a line in the first column and a blank
            line after each sentence, document marks being sentences of their own. An empty line of
            "raw" and "tokens" is a sentence without tokens.
        name: of the stream, for errors.

    Raises:
        DataError: for bytes that are no UTF-8, with their line.
        ValueError: for another kind of text.
    """
    if text not in get_args(Text):
        raise ValueError(f"text={text!r}: expected one of {', '.join(get_args(Text))}")
    lines = stream_lines(stream, name)
    if text == "columns":
        yield from _column_sentences(lines)
        return
    for line in lines:
        yield split_tokens(line) if text == "raw" else line.split()


def written_sentence(
    tokens: Sequence[str], tags: Sequence[str], scheme: str, output_format: str
) -> str:
    """A sentence with its tags.

    Args:
        tokens, tags: of the sentence.
        scheme: of the tags.
        output_format: "conll", a token and its tag a line and a blank line, or "jsonl", an object
            with tokens, tags and entities on a line.
    """
    if output_format == "conll":
        rows = [f"{token} {tag}\n" for token, tag in zip(tokens, tags, strict=True)]
        return "".join(rows) + "\n"
    entities = [
        {"start": start, "end": end, "type": kind, "text": " ".join(tokens[start:end])}
        for start, end, kind in spans(tags, scheme)
    ]
    found = {"tokens": list(tokens), "tags": list(tags), "entities": entities}
    return json.dumps(found, ensure_ascii=False) + "\n"


def scored_sentences(
    tokens: Iterable[Sequence[str]], truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]
) -> Iterator[str]:
    """Lines of a predictions.txt as conlleval reads it: token, right tag, found tag."""
    for row in zip(tokens, truth, found, strict=True):
        yield from (" ".join(fields) + "\n" for fields in zip(*row, strict=True))
        yield "\n"


def _column_sentences(lines: Iterable[str]) -> Iterator[list[str]]:
    tokens: list[str] = []
    for line in lines:
        fields = re.split(r"[ \t]+", line.strip(" \t"))
        is_mark = fields[0].startswith(DOCUMENT_MARK)
        if (fields == [""] or is_mark) and tokens:
            yield tokens
            tokens = []
        if is_mark:
            yield [DOCUMENT_MARK]
        elif fields != [""]:
            tokens.append(fields[0])
    if tokens:
        yield tokens
