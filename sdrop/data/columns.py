"""CoNLL column files: a token a line, its fields parted by blanks or tabs, a blank line after each
sentence.

Sang & De Meulder 2003 (four columns, the tag last), Sang & Buchholz 2000 (three) and two-column
sets are all of this form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdrop.data.errors import DataError
from sdrop.data.lines import read_lines

DOCUMENT_MARK = "-DOCSTART-"

_BLANKS = re.compile(r"[ \t]+")  # str.split() would part tokens at no-break spaces, too


@dataclass(frozen=True)
class Sentence:
    """A sentence's tokens and tags, and the lines that they stand in.

    Attributes:
        tokens: the words.
        tags: one a token, such as `B-PER`.
        lines: number of each token's line in the file, from 1; empty where there is no file.
        is_mark: whether this is a document mark and no sentence.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    lines: Sequence[int] = ()
    is_mark: bool = False

    def __len__(self) -> int:
        return len(self.tokens)


def read_columns(
    path: str | Path,
    *,
    token_column: int = 0,
    tag_column: int = -1,
    keep_marks: bool = False,
) -> list[Sentence]:
    """The sentences of a column file.

    Blanks and tabs part columns, any number of them; blanks at a line's ends are nothing. CRLF, a
    missing last newline and several blank lines are read as meant. A line that begins with
    `-DOCSTART-` marks a document wherever it stands and ends the sentence before it.

    Args:
        path: the file, UTF-8.
        token_column: number of the token's column from 0; negative ones count from the end.
        tag_column: of the tag's, likewise.
        keep_marks: also give document marks, each as a `Sentence` of its own.

    Raises:
        DataError: a line with another number of columns than the first one or too few for the
            columns asked for (with file and line), an unreadable file, or no sentence in it.
    """
    path = Path(path)
    sentences = [
        each
        for each in _sentences(path, token_column, tag_column)
        if keep_marks or not each.is_mark
    ]
    if not any(not each.is_mark for each in sentences):
        raise DataError(f"{path} holds no sentence: expected a token a line, with its tag")
    return sentences


def _sentences(path: Path, token_column: int, tag_column: int) -> Iterator[Sentence]:
    columns: tuple[int, int] | None = None  # how many, and in which line that was seen
    rows: list[tuple[str, str, int]] = []
    for number, line in enumerate(read_lines(path), start=1):
        fields = _BLANKS.split(line.strip(" \t"))
        is_mark = fields[0].startswith(DOCUMENT_MARK)
        if (fields == [""] or is_mark) and rows:
            yield _sentence(rows)
            rows = []
        if is_mark:
            yield Sentence((DOCUMENT_MARK,), ("O",), (number,), is_mark=True)
        elif fields != [""]:
            if columns is None:
                columns = len(fields), number
                _check_columns(path, number, len(fields), token_column, tag_column)
            if len(fields) != columns[0]:
                raise DataError(
                    f"{path}, line {number}: {_count(len(fields))}, expected {columns[0]} as in "
                    f"line {columns[1]}: {line[:60]!r}"
                )
            rows.append((fields[token_column], fields[tag_column], number))
    if rows:
        yield _sentence(rows)


def _sentence(rows: Sequence[tuple[str, str, int]]) -> Sentence:
    tokens, tags, lines = zip(*rows, strict=True)
    return Sentence(tokens, tags, lines)


def _check_columns(path: Path, line: int, count: int, token_column: int, tag_column: int) -> None:
    for name, column in (("token_column", token_column), ("tag_column", tag_column)):
        if not -count <= column < count:
            raise DataError(
                f"{path}, line {line}: {_count(count)}, so {name}={column} is none of them; "
                f"expected {name} of {-count} to {count - 1}"
            )
    if token_column % count == tag_column % count:
        raise DataError(
            f"{path}, line {line}: {_count(count)}, and token_column={token_column} is the same as "
            f"tag_column={tag_column}; tokens and tags stand in columns of their own"
        )


def _count(columns: int) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"
