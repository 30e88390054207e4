"""Compose a recipe's configuration from conf/ and a list of overrides."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import hydra
import yaml  # type: ignore[import-untyped]
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, read_write

from .registry import register_schema

# `conf` stands beside `recipes` in a checkout, in the installed package and in a copied recipe.
CONF = Path(__file__).resolve().parents[2] / "conf"
HYDRA_VERSION_BASE = "1.3"
_OF_ONE_RECIPE = ("model", "data", "experiment")


@contextmanager
def conf_folder() -> Iterator[None]:
    """Make `conf/` the place that Hydra composes from, whatever the working directory."""
    register_schema()
    with hydra.initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
        yield


def compose(recipe: str, overrides: Sequence[str] = (), *, with_hydra: bool = False) -> DictConfig:
    """Return the configuration that `python -m recipes.RECIPE OVERRIDES` runs with.

    Args:
        recipe: name of a primary config, such as `ptb`.
        overrides: as on the command line, such as `["data=ptb", "data.root=DIR"]`.
        with_hydra: keep Hydra's own node as well.
    """
    config = copy.deepcopy(_composed(recipe, tuple(overrides), with_hydra, CONF))
    if with_hydra:
        with read_write(config):
            config.hydra.runtime.cwd = str(Path.cwd())
    return config


@functools.lru_cache(maxsize=64)
def _composed(recipe: str, overrides: tuple[str, ...], with_hydra: bool, conf: Path) -> DictConfig:
    """Compose from `conf`; once, for it takes fifty times as long as a copy of the result."""
    if GlobalHydra.instance().is_initialized():
        return hydra.compose(recipe, list(overrides), return_hydra_config=with_hydra)
    with conf_folder():
        return hydra.compose(recipe, list(overrides), return_hydra_config=with_hydra)


def groups(recipe: str | None = None) -> dict[str, list[str]]:
    """Names of the groups that a recipe (or any) chooses from, and of the choices in each."""
    return {
        folder.name: sorted(
            file.stem for file in folder.glob("*.yaml") if recipe is None or _fits(file, recipe)
        )
        for folder in sorted(CONF.iterdir())
        if folder.is_dir() and (recipe is None or folder.name in _named_by(recipe))
    }


def _named_by(recipe: str) -> set[str]:
    primary = yaml.safe_load((CONF / f"{recipe}.yaml").read_text(encoding="utf-8"))
    return {str(key) for each in primary["defaults"] if isinstance(each, dict) for key in each}


def _fits(choice: Path, recipe: str) -> bool:
    """Whether a model, corpus or experiment is one of the recipe's, as its command on top says."""
    if choice.parent.name not in _OF_ONE_RECIPE or choice.stem == "none":
        return True
    return f"python -m recipes.{recipe} " in choice.read_text(encoding="utf-8")
