"""summary.json: what came out of a run. It is written last, so where it is the run is whole."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sdrop.training.atomic import write_atomically

_PACKAGES = ("sdrop", "torch", "lightning-fabric", "torchtext")


def write_summary(
    path: Path,
    *,
    recipe: str,
    experiment: str | None,
    metric: str,
    valid: float | None,
    test: float | None,
    seconds_train: float | None,
    seconds_total: float,
    tokens_per_second: float | None,
    steps: int | None,
    parameters: int | None,
    backend: str,
    pattern: str,
    signature: str | None,
    **extra: Any,
) -> dict[str, Any]:
    """Writes the summary, whole or not at all, and returns it.

    What a recipe has nothing to say about, such as the tokens of a benchmark, is None.

    Args:
        path: the file.
        recipe: which recipe ran, such as `"ptb"`.
        experiment: the published setting, if one was used.
        metric: name of the metric, whose value on the splits is `valid` and `test`.
        valid: best value on the validation split; None where nothing was validated.
        test: value on the test split; None where it was not evaluated.
        seconds_train: time spent training.
        seconds_total: that, and everything else.
        tokens_per_second: tokens trained on in a second of training.
        steps: optimizer steps.
        parameters: number of trained weights.
        backend: which backend computed.
        pattern: the dropout pattern, in words.
        signature: hash of data and vocabulary: figures compare only within one.
        extra: what a recipe adds, such as `bits_per_word`.
    """
    summary: dict[str, Any] = {
        "recipe": recipe,
        "experiment": experiment,
        "metric": {"name": metric, "valid": valid, "test": test},
        "seconds": {"train": seconds_train, "total": seconds_total},
        "tokens_per_second": tokens_per_second,
        "steps": steps,
        "parameters": parameters,
        "backend": backend,
        "pattern": pattern,
        "versions": versions(),
        "signature": signature,
        **extra,
    }
    write_atomically(path, json.dumps(summary, indent=2) + "\n")
    return summary


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a source tree that was never installed
            found[package] = "not installed"
    return found
