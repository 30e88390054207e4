"""Word forms as numbers: the word that the vocabulary knows, the characters, the capitals.

All that a tagger sees of a token follows from its written form. So each distinct form is looked at
once, and a sentence is a row of forms' numbers, from which a batch takes everything by index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sdrop.data.vocabulary import Vocabulary, check_frequency

CAPITALS = ("lower", "first", "all", "some", "digits", "letters and digits", "other")
"""How a form is written: letters all lower, the first one capital, all, or others; digits alone;
letters and digits; neither."""

PADDING = "<pad>"
_HALF = 20  # of a longer form the first and last so many characters are looked at


@dataclass(frozen=True)
class Forms:
    """What is known of each distinct form, F of them.

    Attributes:
        words: number in the vocabulary of words. # shape: (F,)
        capitals: index into `CAPITALS`. # shape: (F,)
        characters: numbers in the vocabulary of characters, padded by 0. # shape: (F, L)
        lengths: of each form in characters. # shape: (F,)
        rare: whether the training text has the form's word once only. # shape: (F,), bool
    """

    words: Tensor
    capitals: Tensor
    characters: Tensor
    lengths: Tensor
    rare: Tensor


@dataclass(frozen=True)
class FormEncoder:
    """Looks forms up.

    Args:
        words: the known words, with `<unk>`.
        characters: the known characters, `<pad>` first, with `<unk>`.
        rare: words that the training text has once.
    """

    words: Vocabulary
    characters: Vocabulary
    rare: frozenset[str] = frozenset()

    @staticmethod
    def build(
        sentences: Iterable[Sequence[str]],
        *,
        min_frequency: int = 1,
        lower: bool = True,
        also: Collection[str] = (),
    ) -> FormEncoder:
        """From the training text.

        Args:
            sentences: the training tokens.
            min_frequency: rarer words are `<unk>`; their characters are looked at all the same.
            lower: know words by their lower-cased form alone.
            also: more words to know, such as those that have a pretrained vector.

        Raises:
            DataError: where `min_frequency` leaves no word.
        """
        counts: dict[str, int] = {}
        for sentence in sentences:
            for token in sentence:
                counts[token] = counts.get(token, 0) + 1
        signs = sorted({sign for token in counts for sign in token})
        known = _folded(counts) if lower else counts
        if known and not also:
            check_frequency(known, min_frequency, (Vocabulary.unknown_token,))
        kept = sorted(word for word, count in known.items() if count >= min_frequency)
        unknown = Vocabulary.unknown_token
        more = sorted(set(also) - set(kept))
        words = [word for word in (*kept, *more) if word != unknown]
        return FormEncoder(
            Vocabulary([unknown, *words]),
            Vocabulary([PADDING, unknown, *(sign for sign in signs if sign.strip())]),
            frozenset(word for word, count in known.items() if count == 1) - {unknown},
        )

    def word(self, form: str) -> str:
        """The form itself where it is known, else its lower case, else that with digits as 0."""
        if form in self.words:
            return form
        lower = form.lower()
        if lower in self.words:
            return lower
        zeros = "".join("0" if sign.isdigit() else sign for sign in lower)
        return zeros if zeros in self.words else Vocabulary.unknown_token

    def __call__(self, forms: Sequence[str]) -> Forms:
        """The table of these forms."""
        words = [self.word(form) for form in forms]
        spelt = [_shortened(form) for form in forms]
        lengths = torch.tensor([len(each) for each in spelt], dtype=torch.int64)
        longest = max((len(each) for each in spelt), default=1)
        characters = torch.zeros(len(forms), longest, dtype=torch.int64)
        filled = torch.arange(longest) < lengths.unsqueeze(1)
        characters[filled] = self.characters.encode([sign for each in spelt for sign in each])
        capitals = [CAPITALS.index(written(form)) for form in forms]
        rare = [word in self.rare for word in words]
        return Forms(
            self.words.encode(words),
            torch.tensor(capitals, dtype=torch.int64),
            characters,
            lengths,
            torch.tensor(rare, dtype=torch.bool),
        )


def written(form: str) -> str:
    """Which of `CAPITALS` a form is."""
    letters = [sign for sign in form if sign.isalpha()]
    digits = any(sign.isdigit() for sign in form)
    if not letters:
        return "digits" if digits else "other"
    if digits:
        return "letters and digits"
    capital = [sign.isupper() for sign in letters]
    if not any(capital):
        return "lower"
    if all(capital) and len(letters) > 1:
        return "all"
    return "first" if capital[0] and not any(capital[1:]) else "some"


def _folded(counts: Mapping[str, int]) -> dict[str, int]:
    folded: dict[str, int] = {}
    for word, count in counts.items():
        folded[word.lower()] = folded.get(word.lower(), 0) + count
    return folded


def _shortened(form: str) -> str:
    return form if len(form) <= 2 * _HALF else form[:_HALF] + form[-_HALF:]
