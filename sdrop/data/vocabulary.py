"""Words and their numbers; torchtext's `Vocab` inside, plain text on disk."""

import functools
import hashlib
import importlib
import importlib.metadata
import os
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sdrop.data.errors import DataError
from sdrop.data.lines import read_lines

TORCHTEXT = "0.6.0"


class Vocabulary:
    """The known words in order; a word's number is its place, from 0.

    Args:
        tokens: distinct words without line ends in them.

    Raises:
        DataError: a word that is empty, holds a line end or comes twice, or no usable torchtext.
    """

    unknown_token = "<unk>"

    def __init__(self, tokens: Iterable[str]) -> None:
        words = list(tokens)
        fault = _fault(words)
        if fault is not None:
            raise DataError(f"word {fault[0]} of the vocabulary {fault[1]}")
        self._vocab = torchtext_vocab().Vocab(Counter(), specials=words)

    @classmethod
    def build(
        cls,
        tokens: Iterable[str],
        *,
        max_size: int | None = None,
        min_frequency: int = 1,
        specials: Sequence[str] = (unknown_token,),
    ) -> "Vocabulary":
        """The words of a text, `specials` first, then the most frequent, ties by alphabet.

        Args:
            tokens: the text's words in any order, training split only.
            max_size: at most so many words, specials included.
            min_frequency: leave out words that come less often than this.
            specials: words that are in it whatever the text holds.

        Raises:
            DataError: no word at all, or `max_size` or `min_frequency` leaves none.
        """
        counts = Counter(tokens)
        if not counts:
            raise DataError("a vocabulary of no words: expected the tokens of a training text")
        if max_size is not None and max_size <= len(specials):
            raise DataError(
                f"max_size={max_size} leaves no room for words beside {len(specials)} specials; "
                f"expected {len(specials) + 1} or more"
            )
        check_frequency(counts, min_frequency, specials)
        room = None if max_size is None else max_size - len(specials)
        vocab = torchtext_vocab().Vocab(counts, room, min_frequency, specials=list(specials))
        return cls(vocab.itos)

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Read what `save` wrote: one word a line.

        Raises:
            DataError: an unreadable or empty file, an empty line or a repeated word (with line).
        """
        words = read_lines(Path(path))
        if not words:
            raise DataError(f"{path} is empty: expected a vocabulary, one word a line")
        fault = _fault(words)
        if fault is not None:
            raise DataError(f"{path}, line {fault[0]}: the word {fault[1]}")
        return cls(words)

    def save(self, path: str | Path) -> None:
        """Write one word a line, UTF-8; the file appears whole or not at all."""
        part = Path(f"{path}.{os.getpid()}.part")
        part.write_text("".join(f"{word}\n" for word in self.tokens), "utf-8", newline="\n")
        part.replace(path)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All words in order."""
        return tuple(self._vocab.itos)

    @functools.cached_property
    def signature(self) -> str:
        """Short hash of the words in order: two vocabularies with one signature agree."""
        return hashlib.sha256("\n".join(self.tokens).encode()).hexdigest()[:12]

    def encode(self, tokens: Iterable[str]) -> Tensor:
        """Numbers of words, int64 (N,); an unknown word gets that of `<unk>`.

        Raises:
            DataError: an unknown word and no `<unk>`, or a string in place of a list of words.
        """
        if isinstance(tokens, str):
            raise DataError(f"expected a list of words, got the string {tokens[:40]!r}: split it")
        words = list(tokens)
        number = self._vocab.stoi.get  # not stoi[word]: a defaultdict, which would insert it
        unknown = number(self.unknown_token)
        numbers = [number(word, unknown) for word in words]
        if unknown is None and None in numbers:
            word = words[numbers.index(None)]
            raise DataError(
                f"{word!r} is not in the vocabulary, which has no {self.unknown_token} to stand "
                f"for it; build it with specials=({self.unknown_token!r},), or from a text with it"
            )
        return torch.tensor(numbers, dtype=torch.int64)

    def decode(self, ids: Tensor | Iterable[int]) -> list[str]:
        """Words of numbers (N,).

        Raises:
            DataError: a number outside [0, len), or more than one axis.
        """
        if isinstance(ids, Tensor) and ids.dim() != 1:
            raise DataError(f"expected numbers of shape (N,), got {tuple(ids.shape)}")
        numbers = [int(number) for number in (ids.tolist() if isinstance(ids, Tensor) else ids)]
        for number in numbers:
            if not 0 <= number < len(self):
                raise DataError(f"no word has the number {number}: expected 0 to {len(self) - 1}")
        return [self._vocab.itos[number] for number in numbers]

    def __len__(self) -> int:
        return len(self._vocab.itos)

    def __contains__(self, token: object) -> bool:
        return token in self._vocab.stoi

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words, signature={self.signature})"


def check_frequency(
    counts: Mapping[str, int], min_frequency: int, specials: Collection[str]
) -> None:
    """Refuses a least frequency that no word has, specials aside.

    Raises:
        DataError: with the most frequent word.
    """
    words = {word: count for word, count in counts.items() if word not in specials}
    if not words:
        raise DataError(
            f"no word beside {', '.join(specials)}: expected the tokens of a training text"
        )
    word = max(words, key=lambda each: words[each])
    if words[word] < min_frequency:
        raise DataError(
            f"min_frequency={min_frequency} leaves no word of the text: the most frequent, "
            f"{word!r}, stands in it {words[word]:,} times; expected {words[word]} or less"
        )


def _fault(words: Sequence[str]) -> tuple[int, str] | None:
    """The first word that cannot be in a vocabulary: its place from 1, and why."""
    places: dict[str, int] = {}
    for place, word in enumerate(words, start=1):
        if not word:
            return place, "is empty"
        if "\n" in word or "\r" in word:
            return place, f"holds a line end: {word!r}"
        if word in places:
            return place, f"{word!r} stands at {places[word]} already"
        places[word] = place
    return None


@functools.cache
def torchtext_vocab() -> Any:
    """The module torchtext.vocab, imported when it is first needed."""
    remedy = (
        f"sdrop needs torchtext {TORCHTEXT}, the last release in pure Python: later ones carry "
        "code compiled for one old torch and fail at import beside any current one. "
        f"Install it: python -m pip install torchtext=={TORCHTEXT}"
    )
    try:
        version = importlib.metadata.version("torchtext")
    except importlib.metadata.PackageNotFoundError:
        raise DataError(f"torchtext is not installed. {remedy}") from None
    if version != TORCHTEXT:
        raise DataError(f"torchtext {version} is installed. {remedy}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old code: invalid escapes, and what requests finds
            return importlib.import_module("torchtext.vocab")
    except (ImportError, OSError, AttributeError) as error:
        raise DataError(f"torchtext {version} fails at import ({error}). {remedy}") from None
