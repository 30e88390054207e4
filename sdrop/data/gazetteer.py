"""The embedded tagging corpus: sentences made from patterns and from Babel's names.

Names of places, languages and currencies come from the Unicode CLDR (English), as Babel carries it;
no download and no licence to agree to. It is meant to be hard for a look-up table: half of the
names in valid and test never come in train, a name may be a place, a team or neither, an adjective
or a language, and what it is often shows far away in the sentence only.

It changes with Babel's version, so figures compare only within one signature.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence

from sdrop.data.columns import Sentence
from sdrop.data.errors import DataError
from sdrop.data.gazetteer_patterns import NAMES, NUMBERS, RULES
from sdrop.data.tags import OUTSIDE

SIZES = {"train": 3000, "valid": 500, "test": 1000}  # sentences

_SEED = 2003
_HELD_OUT = {"valid": 0.15, "test": 0.15}  # share of the names that come in this split alone
_UNSEEN = 0.5  # how often a name of valid and test is one of those
_WORD = r"[^\W\d_][\w'’.-]*"
_NAME = re.compile(rf"{_WORD}(?: {_WORD}){{0,3}}")
_PART = re.compile(r"<(\w+)(?: (\w+))?>|\{(\w+)\}|(\S+)")
# A team is called like a place, and a person's origin like a language.
_DRAWN_FROM = {"place": "PLACE", "people": "LANGUAGE", "TEAM": "PLACE"}


def read_gazetteer() -> dict[str, list[Sentence]]:
    """The sentences of each split, in IOB2, the same for one version of Babel.

    Entities are PLACE, LANGUAGE, CURRENCY and TEAM.

    Raises:
        DataError: Babel is not installed.
    """
    generator = random.Random(_SEED)
    names = _cldr_names()
    shares = {
        kind: _shared_out(names[kind], generator) for kind in ("PLACE", "LANGUAGE", "CURRENCY")
    }
    words = {"name": NAMES, "number": NUMBERS, "month": names["month"], "day": names["day"]}
    splits = {}
    for split, size in SIZES.items():
        writer = _Writer(split, shares, words, generator)
        splits[split] = [writer.sentence() for _ in range(size)]
    return splits


class _Writer:
    """Writes the sentences of one split.

    Args:
        split: whose names to take.
        shares: names of each kind in each split.
        words: other words by slot.
        generator: what everything is drawn from.
    """

    def __init__(
        self,
        split: str,
        shares: Mapping[str, Mapping[str, Sequence[str]]],
        words: Mapping[str, Sequence[str]],
        generator: random.Random,
    ) -> None:
        self.split, self.shares, self.words, self.generator = split, shares, words, generator

    def sentence(self) -> Sentence:
        """The next sentence, with a full stop."""
        parts = self._expand("sentence", "")
        tokens = [token for token, _ in parts]
        if tokens[0].islower():
            tokens[0] = tokens[0].capitalize()
        return Sentence((*tokens, "."), (*(tag for _, tag in parts), OUTSIDE))

    def _expand(self, rule: str, kind: str) -> list[tuple[str, str]]:
        """Tokens with tags of one alternative; `%s` in it stands for `kind`."""
        found: list[tuple[str, str]] = []
        for part in _PART.finditer(_choose(RULES[rule], self.generator).replace("%s", kind)):
            inner, inner_kind, slot, word = part.groups()
            if inner:
                found += self._expand(inner, inner_kind or kind)
            else:
                found += self._filled(slot) if slot else [(word, OUTSIDE)]
        return found

    def _filled(self, slot: str) -> list[tuple[str, str]]:
        if slot in self.words:
            return [(_choose(self.words[slot], self.generator), OUTSIDE)]
        name = self._name(_DRAWN_FROM.get(slot, slot)).split(" ")
        if slot.islower():
            return [(word, OUTSIDE) for word in name]
        return [(word, f"{'I' if place else 'B'}-{slot}") for place, word in enumerate(name)]

    def _name(self, kind: str) -> str:
        unseen = self.split != "train" and self.generator.random() < _UNSEEN
        return _choose(self.shares[kind][self.split if unseen else "train"], self.generator)


def _cldr_names() -> dict[str, list[str]]:
    """Names of each kind, sorted, each in one kind only."""
    try:
        from babel import Locale
    except ImportError:
        raise DataError(
            "data=gazetteer is made of the names that Babel carries: "
            "python -m pip install babel, or use files of your own with data=columns"
        ) from None
    english = Locale("en")
    zones = map(str, english.time_zones)
    cities = (zone.split("/")[-1].replace("_", " ") for zone in zones if "/" in zone)
    found = {
        "PLACE": _names([*english.territories.values(), *cities]),
        "LANGUAGE": _names(english.languages.values()),
        "CURRENCY": _names(english.currencies.values()),
    }
    twice = set(found["PLACE"]) & set(found["LANGUAGE"])
    kinds = {kind: [name for name in names if name not in twice] for kind, names in found.items()}
    months = _names(english.months["format"]["wide"].values())
    return {**kinds, "month": months, "day": _names(english.days["format"]["wide"].values())}


def _names(texts: Iterable[str]) -> list[str]:
    """Capitalised names of one to four words, without the stand-ins for names."""
    real = (text for text in texts if not text.startswith(("Unknown", "Pseudo")))
    return sorted({text for text in real if _NAME.fullmatch(text) and text[0].isupper()})


def _shared_out(names: Sequence[str], generator: random.Random) -> dict[str, list[str]]:
    """The names of each split, no name in two."""
    drawn = sorted(names, key=lambda _: generator.random())
    shares, start = {}, 0
    for split, share in _HELD_OUT.items():
        end = start + round(share * len(drawn))
        shares[split], start = drawn[start:end], end
    return {"train": drawn[start:], **shares}


def _choose(options: Sequence[str], generator: random.Random) -> str:
    # Not Random.choice: only random() is promised to give the same in every Python version.
    return options[int(generator.random() * len(options))]
