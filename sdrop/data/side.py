"""One language of a translator: how lines become numbers, and numbers lines again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from sdrop.data.errors import DataError
from sdrop.data.moses import MosesText
from sdrop.data.vocabulary import Vocabulary

BEGIN, END = "<s>", "</s>"
MARKS = (Vocabulary.unknown_token, BEGIN, END)


class Subwords(Protocol):
    """Words as pieces that a small vocabulary holds."""

    def split(self, words: Sequence[str]) -> list[str]:
        """Pieces of the words of a line."""

    def join(self, pieces: Sequence[str]) -> list[str]:
        """Words of the pieces of a line."""


@dataclass(frozen=True)
class Side:
    """The words of one language.

    Attributes:
        text: how lines are parted into words and put together.
        vocabulary: its words (or pieces of words), marks included.
        subwords: how words are parted into pieces; None for whole words.
    """

    text: MosesText
    vocabulary: Vocabulary
    subwords: Subwords | None = None

    def split(self, line: str) -> list[str]:
        """Words or pieces of a line, as the vocabulary has them."""
        return split(line, self.text, self.subwords)

    def numbers(self, line: str) -> Tensor:
        """Numbers of a line's words, int64 (N,); without marks."""
        return self.vocabulary.encode(self.split(line))

    def words(self, pieces: Sequence[str]) -> list[str]:
        """Whole words of what `split` gives."""
        return list(pieces) if self.subwords is None else self.subwords.join(pieces)

    def mark(self, name: str) -> int:
        """The number of a mark."""
        return int(self.vocabulary.encode([name]))


def split(line: str, text: MosesText, subwords: Subwords | None) -> list[str]:
    """Words of a line, or their pieces."""
    words = text.tokenize(line)
    return words if subwords is None else subwords.split(words)


def build_vocabulary(
    sentences: Iterable[Sequence[str]], *, max_size: int | None, min_frequency: int
) -> Vocabulary:
    """The marks, then the words of the training text by frequency.

    Raises:
        DataError: for a text without words, or a size or least frequency that leaves none.
    """
    words = (word for sentence in sentences for word in sentence)
    return Vocabulary.build(words, max_size=max_size, min_frequency=min_frequency, specials=MARKS)


def load_vocabulary(path: Path) -> Vocabulary:
    """A given vocabulary, one word a line.

    Raises:
        DataError: for what `Vocabulary.load` refuses, and where a mark is missing.
    """
    vocabulary = Vocabulary.load(path)
    missing = [mark for mark in MARKS if mark not in vocabulary]
    if missing:
        raise DataError(
            f"{path} lacks {' and '.join(missing)}: expected the marks {', '.join(MARKS)} among "
            "the words, a line each. Add them on top, or leave the vocabulary to be built"
        )
    return vocabulary
