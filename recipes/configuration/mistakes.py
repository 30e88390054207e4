"""Find the mistakes in a recipe's command line, and say each with the nearest right name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, Node, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from .checks import contradictions
from .compose import compose, conf_folder, groups
from .nearest import hint
from .option import TYPES, absolute_paths, complaints
from .registry import SCHEMAS

_JOBS_CHECKED = 100  # of a sweep: composing one takes some 50 ms


class Mistake(Exception):
    """Something that the user can put right; the text says what and how, in a screen at most."""


def find_mistakes(recipe: str, overrides: Sequence[str], *, sweep: bool = False) -> list[str]:
    """Return what is wrong with a command line, one text a mistake; nothing is written.

    Args:
        recipe: name of the primary config.
        overrides: what was typed after the recipe's name.
        sweep: whether several values of an option stand for several runs (`-m`).
    """
    try:
        given = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        return [_bad_syntax(overrides, error)]
    several = [each for each in given if each.is_sweep_override()]
    if several and not sweep:
        return [_several_values(each) for each in several]
    with conf_folder():
        found = [
            text
            for job in islice(_jobs(given), _JOBS_CHECKED)
            for text in _mistakes_of_one_run(recipe, job)
        ]
    return list(dict.fromkeys(found))


def _jobs(given: list[Override]) -> list[list[Override]]:
    """Return the overrides of each run of a sweep; those of the one run where nothing is swept."""
    if not any(each.is_sweep_override() for each in given):
        return [given]
    parser = OverridesParser.create(GlobalHydra.instance().config_loader())
    given = parser.parse_overrides([each.input_line or "" for each in given])  # globs need conf/
    listed = [each for each in given if not each.is_interval_sweep()]  # a sweeper draws from those
    (jobs,) = BasicSweeper.split_arguments(listed, None)
    return [parser.parse_overrides(job) for job in jobs]


def _mistakes_of_one_run(recipe: str, given: list[Override]) -> list[str]:
    available = groups(recipe)
    choices = [each for each in given if each.key_or_group in available or _is_group_of_hydra(each)]
    values = [part for each in given if each not in choices for part in _parts(each)]
    found = [text for each in choices for text in _wrong_choice(each, available)]
    if found:  # nothing can be composed without a choice in each group
        return found
    try:
        config = compose(recipe, [each.input_line or "" for each in choices], with_hydra=True)
        chosen = dict(config.hydra.runtime.choices)
        found = [text for each in values for text in _wrong_value(each, config, chosen)]
        return found or check(config)
    except (HydraException, OmegaConfBaseException) as error:
        return [f"The configuration in conf/ cannot be put together.\n  {_last_words(error)}"]


def check(config: DictConfig) -> list[str]:
    """Return what is missing from a composed configuration, or out of range in it."""
    plain = config.copy()
    with open_dict(plain):
        plain.pop("hydra", None)
    absent = sorted(OmegaConf.missing_keys(plain))
    if absent:
        return [f"{key} has no value, and needs one: add {key}=…" for key in absent]
    options = as_options(plain)
    return list(complaints(options)) or list(contradictions(options))


def as_options(config: DictConfig) -> Any:
    """Return the dataclasses of `schema` that a composed configuration stands for.

    Relative paths become absolute, so the options mean the same in any working directory.
    """
    options = OmegaConf.to_object(config)
    absolute_paths(options)
    return options


def _parts(override: Override) -> Iterator[Override]:
    """Yield `a.b=1` for `a={b:1}`, and what sets a single value as it is."""
    value = override.value()
    if not isinstance(value, dict) or override.key_or_group.startswith("hydra."):
        yield override
        return
    for name, inner in value.items():
        key = f"{override.key_or_group}.{name}"
        line = f"{key}={inner}"
        part = dataclasses.replace(override, key_or_group=key, _value=inner, input_line=line)
        yield from _parts(part)


def _wrong_choice(override: Override, groups: dict[str, list[str]]) -> Iterator[str]:
    group, line = override.key_or_group, override.input_line
    if _is_group_of_hydra(override):
        return
    available = groups[group]
    value = override.value()
    if override.package or not (isinstance(value, str) or value is None):
        yield f"{line}: one choice is wanted, as in {group}={available[0]}."
    elif override.is_add() or override.is_force_add() or override.is_delete():
        yield f"{line}: the choice is made already; write {group}={value or available[0]}."
    elif value not in available:
        meant = "none" if value is None else str(value)
        yield f"{line}: no such choice.{hint(meant, available, group + '={}')}"


def _wrong_value(override: Override, config: DictConfig, chosen: dict[str, str]) -> Iterator[str]:
    """Say what is wrong with one `key=value`; set it in `config` where nothing is."""
    key, line = override.key_or_group, override.input_line or ""
    if key.startswith("hydra.") and (override.is_add() or override.is_force_add()):
        return
    group, _, name = key.rpartition(".")
    if name == "name" and group in chosen:
        yield f"{line}: the choice of {group} sets it; write {group}={override.value()}."
    elif override.package or not _stands_in(config, key):
        yield f"{line}: there is no such option.{_where_it_may_be(key, config, chosen)}"
    elif override.is_add():
        yield f"{line}: the option is there already; leave out the +."
    elif override.is_delete():
        yield f"{line}: an option cannot be taken away; give it a value, or null where that is one."
    else:
        yield from _wrong_type(key, override.value(), config)


def _wrong_type(key: str, value: Any, config: DictConfig) -> Iterator[str]:
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(config, parent) if parent else config
    if OmegaConf.is_dict(_child(node, name)):
        parts = ", ".join(f"{key}.{part}" for part in node[name])
        yield f"{key}={value}: this has parts; set one of them.\n  There are: {parts}"
        return
    try:
        OmegaConf.update(config, key, value, merge=True)
    except OmegaConfBaseException:
        child = _child(node, name)
        wanted = TYPES.get(child._metadata.ref_type, "another kind of value")
        empty = ", or null" if child._metadata.optional else ""
        shown = "null" if value is None else value
        yield f"{key}={shown}: wrong type. It must be {wanted}{empty}."


def _stands_in(config: DictConfig, key: str) -> bool:
    node: Any = config
    for part in key.split("."):
        if not OmegaConf.is_dict(node) or part not in node.keys():  # noqa: SIM118 - `in` hides ???
            return False
        node = _child(node, part)
    return True


def _child(node: DictConfig, name: str) -> Node:
    """Return the node itself, also where it has no value or refers to another."""
    child = node._get_node(name)
    assert isinstance(child, Node)
    return child


def _where_it_may_be(key: str, config: DictConfig, chosen: dict[str, str]) -> str:
    group, _, name = key.rpartition(".")
    elsewhere = [
        choice
        for choice, node in SCHEMAS.get(group, {}).items()
        if name in {each.name for each in dataclasses.fields(node)}
    ]
    if group and elsewhere:
        owners = " or ".join(f"{group}={choice}" for choice in elsewhere)
        return f" It belongs to {owners}, and {group}={chosen[group]} is chosen."
    of_hydra = key.startswith("hydra.")
    known = [each for each in _leaves(config) if each.startswith("hydra.") == of_hydra]
    while group and not (
        _stands_in(config, group) and OmegaConf.is_dict(OmegaConf.select(config, group))
    ):
        group = group.rpartition(".")[0]
    siblings = OmegaConf.select(config, group) if group else config
    there = [str(each) for each in siblings if each != "hydra"]
    return hint(key, [*known, *(each for each in chosen if "/" not in each)], listed=there)


def _leaves(node: DictConfig, prefix: str = "") -> Iterator[str]:
    for name in node.keys():  # noqa: SIM118 - items() stops at an option without a value
        child = _child(node, str(name))
        if isinstance(child, DictConfig) and not child._is_none() and not child._is_missing():
            yield from _leaves(child, f"{prefix}{name!s}.")
        else:
            yield f"{prefix}{name!s}"


def _is_group_of_hydra(override: Override) -> bool:
    return override.key_or_group.startswith("hydra/")


def _several_values(override: Override) -> str:
    return (
        f"{override.input_line}: several values for one run. Add -m to run each of them, or "
        f"quote the value: \"{override.key_or_group}='…'\"."
    )


def _bad_syntax(overrides: Sequence[str], error: HydraException) -> str:
    line = getattr(error, "override", None) or " ".join(overrides)
    if "=" not in line:
        return f"{line}: not an option. Options are written key=value, such as seed=2."
    return (
        f"{line}: cannot be read. Quote a value that has commas, quotes, braces or equals signs "
        f"in it, as in \"key='value'\"."
    )


def _last_words(error: BaseException) -> str:
    """What is said at the root of an error: two lines of it, for Hydra puts the key second."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    return "\n  ".join(line for each in causes for line in str(each).splitlines()[:2])
