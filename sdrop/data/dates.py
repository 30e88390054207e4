"""The embedded parallel corpus: dates written out, from the CLDR tables that Babel carries.

    Samstag, 3. April 2021      Saturday, April 3, 2021      Thứ Bảy, 3 tháng 4, 2021

No download, and easy enough to be learnt in a minute: words change places, and a weekday, month or
era of one language is one of the other. It changes with Babel's tables, so BLEU on it compares only
within one `ParallelCorpus.signature`.
"""

from __future__ import annotations

import datetime
import functools
import random
from typing import Any

from sdrop.data.errors import DataError

DATE_LANGUAGES = ("de", "en", "vi")
MEASURED_PAIRS = 500  # of validation and of test each
_FORMATS = ("full", "long", "yMMMEd", "yMMMd", "GyMMMd", "GyMMMEd", "GyMMMMd")
_FIRST, _YEARS = datetime.date(1950, 1, 1), 100
_SEED = 0


Lines = tuple[list[str], list[str]]


def read_dates(
    source: str, target: str, train_pairs: int
) -> dict[str, tuple[list[str], list[str]]]:
    """Lines of each split, the same for one version of Babel.

    Every date comes once, so no line stands in two splits, and in one format. Formats whose source
    reads the same while their targets differ (May is its own abbreviation) are not taken.

    Args:
        source, target: two of de, en and vi.
        train_pairs: at most 35,525.

    Raises:
        DataError: for other languages or numbers, or where Babel is not installed.
    """
    for language in (source, target):
        if language not in DATE_LANGUAGES:
            known = ", ".join(DATE_LANGUAGES)
            raise DataError(f"dates are written in {known}, not in {language!r}")
    if source == target:
        raise DataError(f"dates: expected two languages, got {source!r} twice")
    days = list(range((_FIRST.replace(year=_FIRST.year + _YEARS) - _FIRST).days))
    most = len(days) - 2 * MEASURED_PAIRS
    if not 1 <= train_pairs <= most:
        raise DataError(f"dates: expected 1 to {most:,} training pairs, got {train_pairs:,}")
    drawn = random.Random(_SEED)
    drawn.shuffle(days)
    # Those to be measured come first, so they are the same whatever the number to train on.
    bounds = {"valid": (0, MEASURED_PAIRS), "test": (MEASURED_PAIRS, 2 * MEASURED_PAIRS)}
    bounds["train"] = (2 * MEASURED_PAIRS, 2 * MEASURED_PAIRS + train_pairs)
    return {
        split: _written(days[start:end], source, target, random.Random(f"{_SEED} {split}"))
        for split, (start, end) in bounds.items()
    }


def _written(days: list[int], source: str, target: str, drawn: random.Random) -> Lines:
    sides: Lines = ([], [])
    for day in days:
        date = _FIRST + datetime.timedelta(days=day)
        name = drawn.choice(_plain_formats(date.month, date.weekday(), source, target))
        for side, language in zip(sides, (source, target), strict=True):
            side.append(_format(date, name, language))
    return sides


@functools.cache
def _plain_formats(month: int, weekday: int, source: str, target: str) -> list[str]:
    """The formats that tell in their source how the target is to be written."""
    first = datetime.date(2020, month, 1)
    date = first + datetime.timedelta(days=(weekday - first.weekday()) % 7)
    pairs = {name: (_format(date, name, source), _format(date, name, target)) for name in _FORMATS}
    return [
        name
        for name, (text, written) in pairs.items()
        if all(other == written for same, other in pairs.values() if same == text)
    ]


def _format(date: datetime.date, name: str, language: str) -> str:
    dates, locale = _babel(), _locale(language)
    if name in ("full", "long"):
        text = dates.format_date(date, name, locale)
    else:
        text = dates.format_skeleton(name, date, locale=locale, fuzzy=False)
    return " ".join(str(text).split())


@functools.cache
def _locale(language: str) -> Any:
    from babel import Locale

    return Locale.parse(language)


@functools.cache
def _babel() -> Any:
    try:
        import babel.dates
    except ImportError:
        raise DataError(
            "the corpus 'dates' is made of Babel's tables, which are not installed: "
            "python -m pip install 'sdrop[translation]'"
        ) from None
    return babel.dates
