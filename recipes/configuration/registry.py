"""Every option of the recipes: the dataclass of each choice, and how Hydra gets to know them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from hydra.core.config_store import ConfigStore

from . import schema, tagging, translation

SCHEMAS: dict[str, dict[str, type]] = {
    "": {
        "ptb": schema.LanguageModelRun,
        "iwslt": translation.TranslationRun,
        "conll": tagging.TaggingRun,
        "bench": schema.BenchRun,
    },
    "model": {
        "lstm": schema.Model,
        "translator": translation.Translator,
        "tagger": tagging.TaggerModel,
    },
    "data": {
        "ptb": schema.Ptb,
        "pydoc": schema.Pydoc,
        "text": schema.Text,
        "gazetteer": tagging.Gazetteer,
        "conll2003": tagging.Conll2003,
        "columns": tagging.Columns,
        "dates": translation.Dates,
        "parallel": translation.ParallelFiles,
        "iwslt14_de_en": translation.Iwslt14,
        "iwslt15_en_vi": translation.Iwslt15,
    },
    "dropout": {"dropout": schema.Dropout},
    "optimizer": {"sgd": schema.Sgd, "adam": schema.Adam},
    "schedule": {
        "constant": schema.Constant,
        "decay": schema.Decay,
        "plateau": schema.Plateau,
        "inverse_time": schema.InverseTime,
    },
    "trainer": {"trainer": schema.Trainer},
    "logger": {"logger": schema.Logger},
}


def recipe_of(options: Any) -> str:
    """Return the name of the recipe whose options these are."""
    return next(name for name, node in SCHEMAS[""].items() if type(options) is node)


@functools.cache
def register_schema() -> None:
    """Give Hydra each dataclass as `GROUP/NAME_options`, for the YAML files to build upon."""
    store: Any = ConfigStore.instance()
    for group, schemas in SCHEMAS.items():
        for name, node in schemas.items():
            store.store(group=group or None, name=f"{name}_options", node=node)


def free_texts() -> set[str]:
    """Dotted names of the options that take any text, such as a path or a prompt."""
    return {
        f"{group}.{each.name}" if group else each.name
        for group, schemas in SCHEMAS.items()
        for node in schemas.values()
        for each in dataclasses.fields(node)
        if each.type in ("str", "str | None") and not each.metadata["choices"]
    } - {"experiment"}
