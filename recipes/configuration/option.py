"""An option of a recipe: a dataclass field that carries its own choices and range."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from .nearest import hint

TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_Bound = Callable[[Any, Any], bool]
_BOUNDS: dict[str, tuple[str, _Bound]] = {
    "at_least": ("at least", operator.ge),
    "more_than": ("more than", operator.gt),
    "below": ("below", operator.lt),
    "at_most": ("at most", operator.le),
}


def option(
    default: Any = MISSING,
    *,
    choices: tuple[str, ...] | None = None,
    at_least: float | None = None,
    more_than: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    path: bool = False,
    several: type | None = None,
) -> Any:
    """Declare an option with what may stand in it.

    Args:
        default: value where nothing is given; `MISSING` (the default) makes the option mandatory.
        choices: the only texts allowed.
        at_least, more_than, below, at_most: range of a number.
        path: names a file or folder, relative to the directory that the command runs in.
        several: one value of this type or a list of them may be given; the option's own type is
            `Any`, and what is said of a value holds for each.
    """
    rules = {
        "choices": choices,
        "at_least": at_least,
        "more_than": more_than,
        "below": below,
        "at_most": at_most,
        "path": path,
        "several": several,
        "at_least_one": default != [],
    }
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=rules)
    return dataclasses.field(default=default, metadata=rules)


def as_list(value: Any) -> list[Any]:
    """Return the values of an option that takes several, also where a single one was given."""
    return list(value) if isinstance(value, list | tuple) else [value]


def complaints(options: Any, where: str = "") -> Iterator[str]:
    """Say of every option in a dataclass instance, nested ones included, what breaks its rules.

    Args:
        options: a dataclass instance whose fields were made by `option`.
        where: dotted name of the instance, "" for the root.
    """
    for each in dataclasses.fields(options):
        value = getattr(options, each.name)
        key = f"{where}.{each.name}" if where else each.name
        if dataclasses.is_dataclass(value):
            yield from complaints(value, key)
        elif each.metadata.get("several"):
            yield from _broken_lists(key, as_list(value), dict(each.metadata))
        elif value is not None:
            yield from _broken_rules(key, value, dict(each.metadata))


def absolute_paths(options: Any) -> dict[str, str]:
    """Make the paths in a dataclass instance absolute, in place; return them by dotted name.

    `~` is the home folder. A relative path stands in its group's `root` where that has one, else
    in the working directory.
    """
    found: dict[str, str] = {}
    base = Path.cwd()
    for each in sorted(dataclasses.fields(options), key=lambda field: field.name != "root"):
        value = getattr(options, each.name)
        if dataclasses.is_dataclass(value):
            nested = absolute_paths(value)
            found |= {f"{each.name}.{name}": path for name, path in nested.items()}
        elif each.metadata.get("path") and value is not None:
            found[each.name] = str(base / Path(value).expanduser())
            setattr(options, each.name, found[each.name])
            base = Path(found[each.name]) if each.name == "root" else base
    return found


def _broken_lists(key: str, values: list[Any], rules: dict[str, Any]) -> Iterator[str]:
    for value in values:
        if type(value) is not rules["several"]:
            wanted = TYPES[rules["several"]]
            yield f"{key}={value}: wrong type. It must be {wanted}, or a list such as {key}=[a,b]."
        else:
            yield from _broken_rules(key, value, rules)
    if not values and rules["at_least_one"]:
        yield f"{key}=[]: at least one is wanted."
    if len(set(map(str, values))) < len(values):
        yield f"{key}=[{','.join(map(str, values))}]: each may be given once."


def _broken_rules(key: str, value: Any, rules: dict[str, Any]) -> Iterator[str]:
    choices = rules.get("choices")
    if choices and value not in choices:
        yield f"{key}={value}: no such choice.{hint(str(value), choices, key + '={}')}"
    bounds = {name: rules[name] for name in _BOUNDS if rules.get(name) is not None}
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{key}={value}: a finite number is wanted."
    elif any(not _BOUNDS[name][1](value, bound) for name, bound in bounds.items()):
        wanted = " and ".join(
            f"{_BOUNDS[name][0]} {_exact(bound)}" for name, bound in bounds.items()
        )
        yield f"{key}={value}: out of range. It must be {wanted}."


def _exact(bound: float) -> str:
    """A whole number with all its digits, any other in short."""
    return str(int(bound)) if bound == int(bound) else f"{bound:g}"
