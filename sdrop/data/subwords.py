"""Words as pieces: sentencepiece, trained here, or a given table of BPE merges."""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sdrop.data.errors import DataError
from sdrop.data.lines import read_lines
from sdrop.data.side import Subwords

_JOINED = "@@"  # ends a piece that the next one belongs to
_WORD_END = "</w>"


class SentencePieces:
    """Pieces of a sentencepiece model (Kudo & Richardson 2018).

    Args:
        model: the model's bytes.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = _sentencepiece().SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(cls, lines: Iterable[str], size: int) -> SentencePieces:
        """A model of at most `size` unigram pieces for lines of words parted by blanks.

        Raises:
            DataError: for more pieces than the text has, or fewer than its letters need.
        """
        written = io.BytesIO()
        try:
            _sentencepiece().SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=written,
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=1.0,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise DataError(f"sentencepiece, {size} pieces: {error}") from None
        return cls(written.getvalue())

    def split(self, words: Sequence[str]) -> list[str]:
        """Pieces of the words of a line."""
        pieces: list[str] = self._processor.encode(" ".join(words), out_type=str)
        return pieces

    def join(self, pieces: Sequence[str]) -> list[str]:
        """Words of the pieces of a line."""
        return "".join(pieces).replace("\u2581", " ").split()

    def save(self, path: Path) -> None:
        """Writes the model."""
        path.write_bytes(self.model)


class BytePairs:
    """Pieces by a table of merges (Sennrich, Haddow & Birch 2016), as subword-nmt writes it.

    Args:
        merges: pairs of pieces, the first the most urgent; a word's last piece ends in `</w>`.
    """

    def __init__(self, merges: Sequence[tuple[str, str]]) -> None:
        self.merges = list(merges)
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
        self._split_word = functools.lru_cache(maxsize=2**16)(self._merged)

    @classmethod
    def load(cls, path: Path) -> BytePairs:
        """Reads a table: a pair a line, a first line `#version: 0.2`.

        Raises:
            DataError: for a file that cannot be read, or a line that is no pair.
        """
        merges = []
        for number, line in enumerate(read_lines(path), start=1):
            parts = line.split()
            if number == 1 and line.startswith("#version"):
                continue
            if len(parts) != 2:
                raise DataError(
                    f"{path}, line {number}: expected two pieces to merge, got {line!r}"
                )
            merges.append((parts[0], parts[1]))
        return cls(merges)

    def split(self, words: Sequence[str]) -> list[str]:
        """Pieces of the words of a line; all but a word's last end in `@@`."""
        return [piece for word in words for piece in self._split_word(word)]

    def join(self, pieces: Sequence[str]) -> list[str]:
        """Words of the pieces of a line."""
        return f"{' '.join(pieces)} ".replace(f"{_JOINED} ", "").split()

    def save(self, path: Path) -> None:
        """Writes the table."""
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def _merged(self, word: str) -> list[str]:
        pieces = [*word[:-1], word[-1] + _WORD_END]
        while len(pieces) > 1:
            pairs = list(itertools.pairwise(pieces))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            pieces = _with_merged(pieces, best)
        last = pieces[-1].removesuffix(_WORD_END)
        return [f"{piece}{_JOINED}" for piece in pieces[:-1]] + [last]


def make_subwords(
    kind: str, lines: Iterable[str], *, size: int, codes: Path | None
) -> Subwords | None:
    """What parts the words of a language.

    Args:
        kind: `"none"`, `"sentencepiece"` (trained on `lines`) or `"bpe"` (read from `codes`).
        lines: the training text, words parted by blanks.
        size: pieces of a sentencepiece model.
        codes: the table of merges.

    Raises:
        DataError: where the model cannot be trained or read.
    """
    if kind == "sentencepiece":
        return SentencePieces.train(lines, size)
    return BytePairs.load(codes) if kind == "bpe" and codes is not None else None


def save_subwords(subwords: Subwords | None, path: Path) -> None:
    """Keeps a model for `load_subwords`; nothing where there is none."""
    if isinstance(subwords, SentencePieces | BytePairs):
        subwords.save(path)


def load_subwords(kind: str, path: Path) -> Subwords | None:
    """What `save_subwords` wrote.

    Raises:
        DataError: where it is missing or cannot be read.
    """
    if kind == "none":
        return None
    if not path.is_file():
        raise DataError(f"{path} is missing: expected the {kind} model of the run")
    return SentencePieces(path.read_bytes()) if kind == "sentencepiece" else BytePairs.load(path)


def _with_merged(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for piece in pieces:
        if merged and (merged[-1], piece) == pair:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def _sentencepiece() -> Any:
    import sentencepiece  # torchtext brings it

    return sentencepiece
