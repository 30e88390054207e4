"""Let a run that goes on, or is looked at again, keep the options that it was started with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException

from .compose import groups
from .mistakes import Mistake
from .option import absolute_paths
from .registry import recipe_of

CONFIG_FILE = "config.yaml"
_COMMAND = "overrides"  # the key in CONFIG_FILE that holds the command line
_RECIPE = "recipe"  # and the one that says whose options they are
# Said anew with each command: what to do now and where to stop, not what the run is.
_OF_ONE_COMMAND = (
    *("mode", "resume", "checkpoint", "prompt", "length", "temperature"),
    *("input", "output", "text", "output_format", "ensemble", "average", "detokenize"),
    "trainer.max_steps",
)


def with_recalled(recipe: str, overrides: Sequence[str]) -> list[str]:
    """Put the options of the run that `resume=` or `checkpoint=` names before the given ones.

    An option on the command line wins over the recalled one, and a choice (`data=text`) over all
    that was recalled of its group. Where `resume=` names a run folder or a checkpoint, the run goes
    on in that folder unless `hydra.run.dir=` says otherwise.

    Raises:
        Mistake: `resume=auto` without `hydra.run.dir=`, a run of another recipe, or one whose
            config.yaml cannot be read.
    """
    try:
        given = {each.get_key_element(): each for each in _parsed(overrides)}
    except HydraException:  # a slip of the pen, told when the options are checked
        return list(overrides)
    folder = _run_that_is_named(given)
    if folder is None or not (folder / CONFIG_FILE).exists():
        return list(overrides)
    chosen = {key for key in given if key in groups()}
    if "checkpoint" in given:
        chosen.add("debug")
    options = _read(folder / CONFIG_FILE)
    if (written_by := options.get(_RECIPE, recipe)) != recipe:
        raise Mistake(f"{folder}: a run of the recipe {written_by}, and this is {recipe}.")
    recalled = [
        each.input_line or ""
        for each in _parsed(options.get(_COMMAND, []))
        if each.get_key_element() not in given and each.key_or_group.partition(".")[0] not in chosen
    ]
    goes_on = "resume" in given and "hydra.run.dir" not in given
    place = [f"hydra.run.dir={quoted(str(folder))}"] if goes_on else []
    return [*recalled, *overrides, *place]


def run_folder_of(name: str | Path) -> Path:
    """Return the run folder that is named itself, or through one of its checkpoints."""
    path = Path(name)
    if path.parent.name == "checkpoints":
        return path.parent.parent
    return path.parent if path.name == "checkpoints" else path


def write_config(options: Any, overrides: Sequence[str], file: Path) -> None:
    """Write the options of a run, with the command line that chose them on top.

    Args:
        options: a dataclass of `schema`.
        overrides: the command line. Paths in it are written absolute, and what was said for this
            one command is left out.
        file: where to.
    """
    paths = absolute_paths(options)
    command = [
        f"{each.key_or_group}={quoted(paths[each.key_or_group])}"
        if each.key_or_group in paths
        else each.input_line
        for each in _parsed(overrides)
        if each.key_or_group not in _OF_ONE_COMMAND
    ]
    about = {_RECIPE: recipe_of(options), _COMMAND: command}
    text = yaml.safe_dump({**about, **dataclasses.asdict(options)}, sort_keys=False)
    file.write_text(text, encoding="utf-8")


def read_config(folder: Path) -> dict[str, Any]:
    """Return the options in a run folder's config.yaml as plain values, and nothing else of it."""
    found = _read(folder / CONFIG_FILE)
    return {key: each for key, each in found.items() if key not in (_RECIPE, _COMMAND)}


def changes(before: dict[str, Any], after: dict[str, Any], where: str = "") -> list[str]:
    """Name each option that differs, as `optimizer.lr: 1.0 -> 0.5`."""
    found: list[str] = []
    for key in [*before, *(after.keys() - before.keys())]:
        name, old, new = f"{where}{key}", before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += changes(old, new, f"{name}.")
        elif old != new and name not in _OF_ONE_COMMAND:
            found.append(f"{name}: {old} -> {new}")
    return found


def quoted(value: str) -> str:
    """Quote a text so that Hydra reads it back as it is."""
    return QuotedString(value, Quote.single).with_quotes()


def _run_that_is_named(given: dict[str, Override]) -> Path | None:
    if "resume" in given and given["resume"].value() == "auto":
        if "hydra.run.dir" not in given:
            raise Mistake(
                "resume=auto: goes on with what is in the run folder, so say which that is: "
                "add hydra.run.dir=DIR."
            )
        return Path(str(given["hydra.run.dir"].value()))
    named = given.get("resume") or given.get("checkpoint")
    return run_folder_of(str(named.value())) if named and named.value() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        options = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Mistake(f"{file}: cannot be read as the options of a run ({error}).") from error
    if not isinstance(options, dict):
        raise Mistake(f"{file}: not the options of a run; they are written as `key: value` lines.")
    return options


def _parsed(overrides: Sequence[str]) -> list[Override]:
    return OverridesParser.create().parse_overrides(list(overrides))
