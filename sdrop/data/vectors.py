"""Pretrained word vectors: text files of GloVe and fastText, by torchtext's `Vectors`."""

from __future__ import annotations

import contextlib
import gzip
import io
import ssl
import tempfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor, nn

from sdrop.data.errors import DataError
from sdrop.data.lines import exists
from sdrop.data.vocabulary import torchtext_vocab


@dataclass(frozen=True)
class Coverage:
    """How many of a vocabulary's words a file of vectors has.

    Attributes:
        exact: as they are written.
        lowered: in lower case only.
        zeros: in lower case with each digit as 0 only.
        missing: in no way.
    """

    exact: int
    lowered: int
    zeros: int
    missing: int

    def __str__(self) -> str:
        total = self.exact + self.lowered + self.zeros + self.missing
        share = 1 - self.missing / total if total else 0.0
        return (
            f"vectors for {share:.1%} of {total:,} words: {self.exact:,} as written, "
            f"{self.lowered:,} in lower case, {self.zeros:,} with digits as 0, "
            f"{self.missing:,} without"
        )


class WordVectors:
    """The vectors of a file, by word.

    Args:
        path: a word a line with its numbers, three or more, parted by blanks, UTF-8; a first line
            of two numbers, as fastText writes, is left out. Ending in .gz it is unpacked.

    Raises:
        DataError: a missing or broken file, or no usable torchtext.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        if not exists(self.path) or not self.path.is_file():
            raise DataError(f"{self.path.absolute()} does not exist; expected a file of vectors")
        found = _read(self.path)
        self._places: dict[str, int] = found.stoi
        self._vectors: Tensor = found.vectors

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return self._vectors.shape[1]

    def known(self, words: Collection[str]) -> list[str]:
        """Those of the words that have a vector in some way."""
        return [word for word in words if self._place(word)[0] is not None]

    @torch.no_grad()
    def fill(self, embedding: nn.Embedding, words: Sequence[str]) -> Coverage:
        """Puts the vectors of `words`, the embedding's rows in order, into it.

        A word without one is looked for in lower case, then with its digits as 0; where that fails
        its row stays as it is.

        Raises:
            DataError: for an embedding of another size.
        """
        if embedding.embedding_dim != self.dim:
            raise DataError(
                f"{self.path} has vectors of {self.dim} numbers, the embedding "
                f"{embedding.embedding_dim}: set model.embedding_dim={self.dim}"
            )
        counts = {"exact": 0, "lowered": 0, "zeros": 0, "missing": 0}
        for row, word in enumerate(words):
            place, way = self._place(word)
            counts[way] += 1
            if place is not None:
                embedding.weight[row] = self._vectors[place]
        return Coverage(**counts)

    def _place(self, word: str) -> tuple[int | None, str]:
        lower = word.lower()
        zeros = "".join("0" if sign.isdigit() else sign for sign in lower)
        for form, way in ((word, "exact"), (lower, "lowered"), (zeros, "zeros")):
            if form in self._places:
                return self._places[form], way
        return None, "missing"

    def __len__(self) -> int:
        return len(self._places)


def _read(path: Path) -> Any:
    """torchtext's `Vectors` of a file.

    It keeps a pickle of what it read, so its cache is a folder that goes away; it turns off the
    checking of certificates for the whole process, which is turned on again; and it draws a bar.
    """
    certificates = ssl._create_default_https_context
    try:
        with _opened(path) as file:
            if not any(len(line.rstrip().split(b" ")) > 3 for line in file):
                file.seek(0)
                raise DataError(
                    f"{path} holds no word vector: expected a word and its numbers, three or more, "
                    f"a line, parted by single blanks; {_begin(file.readline())}"
                )
        with tempfile.TemporaryDirectory() as cache, contextlib.redirect_stderr(io.StringIO()):
            found = torchtext_vocab().Vectors(str(path), cache=cache)
    except (RuntimeError, TypeError, ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read as word vectors: {error}{_first_odd_line(path)}. Expected a "
            "word and its numbers a line, parted by single blanks"
        ) from None
    finally:
        ssl._create_default_https_context = certificates
    if not found.itos:
        raise DataError(f"{path} holds no word vector")
    return found


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _begin(line: bytes) -> str:
    shown = line.rstrip()[:60].decode("utf-8", "replace")
    return f"it begins with {shown!r}" if line else "it is empty"


def _first_odd_line(path: Path) -> str:
    """Where the first line stands that has another number of fields, or one that is no number."""
    if path.suffix == ".gz":
        return ""
    wanted = None
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip().split(b" ")[1:]
            if len(fields) < 2:
                continue
            wanted = wanted or len(fields)
            if len(fields) != wanted or not all(map(_is_number, fields)):
                return f" (line {number})"
    return ""


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
