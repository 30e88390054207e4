"""Train the ptb recipe's model twice, with today's dropout and with structured dropout.

    make demo
    python -m recipes.demo                       # the same, in under five minutes on two cores
    python -m recipes.demo model.hidden_size=512 # any option of the ptb recipe, for both runs

Standard dropout drops outside the recurrence only and runs torch's own LSTM and linear layers, as
people train today; structured dropout drops in the recurrence as well. The rates are the same. What
comes out goes to the screen and to runs/demo/.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from sdrop.training import PERPLEXITY, keep_freed_memory, read_metrics

from .configuration import as_options, compose, find_mistakes, interruptible
from .ptb import Result, run
from .training import whole

ARMS = ("standard", "structured")
NOT_FOR_TWO = ("mode", "resume", "checkpoint", "dropout", "hydra.run.dir")


def main(overrides: Sequence[str]) -> None:
    """Train both arms, print the table, draw the picture."""
    if "--help" in overrides:
        print(__doc__)
        return
    refused = [each for each in overrides if each.partition("=")[0] in NOT_FOR_TWO]
    if refused:
        sys.exit(f"{refused[0]}: the demo always trains both arms anew; see recipes.ptb")
    mistakes = [each for arm in ARMS for each in find_mistakes("ptb", _command(arm, overrides))]
    if mistakes:
        sys.exit("\n".join(dict.fromkeys(mistakes)))
    folder = Path("runs/demo") / time.strftime("%Y-%m-%d_%H-%M-%S")
    results = train_arms(overrides, folder)
    picture = folder / "curves.png"
    draw_curves(results, picture)
    console = Console()
    console.print(comparison(results))
    for arm, result in results.items():
        console.print(f"{arm}: {result.folder}", soft_wrap=True)
    console.print(f"picture: {picture}", soft_wrap=True)


def train_arms(overrides: Sequence[str], folder: Path) -> dict[str, Result]:
    """Train one model a preset, all other options the same."""
    results = {}
    for arm in ARMS:
        command = _command(arm, overrides)
        print(f"\npython -m recipes.ptb {' '.join(command)}")
        results[arm] = whole(run(as_options(compose("ptb", command)), folder / arm, command))
    return results


def comparison(results: dict[str, Result]) -> Table:
    """Perplexities and seconds an epoch; the ratio is how much faster than the first arm."""
    table = Table("dropout", "valid perplexity", "test perplexity", "seconds an epoch", "ratio")
    baseline = seconds_an_epoch(next(iter(results.values())))
    for arm, result in results.items():
        seconds = seconds_an_epoch(result)
        figures = (result.valid, result.test, seconds, baseline / seconds)
        table.add_row(arm, *(f"{figure:.2f}" for figure in figures))
    return table


def seconds_an_epoch(result: Result) -> float:
    """Training time of an epoch, validation left out."""
    assert result.fit is not None
    return result.fit.seconds_train / max(1, result.fit.epochs)


def draw_curves(results: dict[str, Result], picture: Path) -> None:
    """Draw the validation perplexity of each arm over the epochs into one PNG."""
    # Figure and not pyplot: no window opens, and the user's backend stays as it is.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), dpi=120, layout="constrained")
    axes = figure.subplots()
    for arm, result in results.items():
        reports = read_metrics(result.folder / "metrics.jsonl")
        valid = [each for each in reports if each["split"] == "valid"]
        epochs = [each["epoch"] for each in valid]
        axes.plot(epochs, [each[PERPLEXITY.name] for each in valid], marker="o", label=arm)
    axes.set(xlabel="epoch", ylabel="validation perplexity", yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.legend(title="dropout")
    figure.savefig(picture)


def _command(arm: str, overrides: Sequence[str]) -> list[str]:
    """On a GPU both run by sdrop's kernels: cuDNN's want `torch.nn.LSTM` itself."""
    stock = arm == "standard" and not torch.cuda.is_available()
    return [f"dropout={arm}", *(["backend=torch"] if stock else []), *overrides]


if __name__ == "__main__":
    with interruptible():
        keep_freed_memory()
        main(sys.argv[1:])
