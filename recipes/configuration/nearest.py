"""The nearest right name to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name most like the given one, or None where none is much like it.

    The last part of a dotted name weighs most: `hidden_size` and `data.hidden_size` both find
    `model.hidden_size`.
    """
    names = list(known)
    tail = _tail(given)
    same_tail = [name for name in names if _tail(name) == tail]
    close_tails = difflib.get_close_matches(tail, [_tail(name) for name in names], cutoff=0.6)
    close = difflib.get_close_matches(given, names, cutoff=0.6)
    begun = [name for name in names if given and name.startswith(given)]
    candidates = same_tail or close + begun + [name for name in names if _tail(name) in close_tails]
    return max(candidates, key=lambda name: _likeness(given, name), default=None)


def hint(
    given: str, known: Iterable[str], write: str = "{}", listed: Iterable[str] | None = None
) -> str:
    """Say which name was probably meant and which there are.

    Args:
        given: what was typed.
        known: the right names.
        write: how a name is to be typed, such as `data={}`.
        listed: the names to show, where those are not `known`.
    """
    names = list(known)
    meant = nearest(given, names)
    question = f" Did you mean {write.format(meant)}?" if meant else ""
    there = ", ".join(sorted(names if listed is None else listed))
    return f"{question}\n  There are: {there}"


def _tail(name: str) -> str:
    return name.rpartition(".")[2]


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
