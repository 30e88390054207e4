"""The figure that a run is judged by, and which direction is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sdrop.evaluation import Evaluation
from sdrop.evaluation.perplexity import perplexity_of

Mode = Literal["min", "max"]


@dataclass(frozen=True)
class Metric:
    """A figure of `Evaluation.metrics`, or `"loss"`, and whether less or more of it is better.

    Raises:
        ValueError: for a mode other than `"min"` and `"max"`.
    """

    name: str = "perplexity"
    mode: Mode = "min"

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"Metric(mode={self.mode!r}): expected 'min' or 'max'")

    def of(self, evaluation: Evaluation) -> float:
        """This figure of an evaluation.

        Raises:
            KeyError: if the evaluation has no such figure.
        """
        if self.name == "loss":
            return evaluation.loss
        if self.name not in evaluation.metrics:
            found = ", ".join(["loss", *evaluation.metrics])
            raise KeyError(f"the evaluation has no {self.name!r}; it has: {found}")
        return evaluation.metrics[self.name]

    def of_loss(self, loss: float) -> dict[str, float]:
        """What the training loss alone says about this figure: only perplexity follows from it."""
        return {"perplexity": perplexity_of(loss)} if self.name == "perplexity" else {}

    def improves(self, value: float, best: float | None) -> bool:
        """Whether `value` is better than `best`; not a number never is."""
        if math.isnan(value):
            return False
        if best is None:
            return True
        return value < best if self.mode == "min" else value > best

    def best(self, values: Sequence[float]) -> int | None:
        """Index of the first best value; None where there is none."""
        index: int | None = None
        for i, value in enumerate(values):
            if self.improves(value, None if index is None else values[index]):
                index = i
        return index


PERPLEXITY = Metric("perplexity", "min")
LOSS = Metric("loss", "min")
BLEU = Metric("bleu", "max")
F1 = Metric("f1", "max")
