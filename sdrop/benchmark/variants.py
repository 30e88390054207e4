"""The dropouts that are compared, under the names of the recipes' `dropout=` presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdrop.benchmark.shapes import Shape
from sdrop.models import DropoutRates
from sdrop.pattern import DropoutPattern, kept_count


@dataclass(frozen=True)
class Variant:
    """What is dropped where.

    Attributes:
        name: as in `dropout=`.
        pattern: how masks are shared.
        non_recurrent: whether the layers' inputs (and in a step the decoder's) are dropped.
        recurrent: whether h_{t-1} is.
    """

    name: str
    pattern: DropoutPattern
    non_recurrent: bool = True
    recurrent: bool = True

    def rates(self, shape: Shape) -> DropoutRates:
        """The rate of each site of a language model."""
        outer = shape.rate if self.non_recurrent else 0.0
        inner = shape.rate if self.recurrent else 0.0
        return DropoutRates(input=outer, between=outer, recurrent=inner, output=outer)

    def layer_options(self, shape: Shape) -> dict[str, Any]:
        """The arguments of one `sdrop.LSTM` layer."""
        rates = self.rates(shape)
        return {
            "input_dropout": rates.input,
            "recurrent_dropout": rates.recurrent,
            "pattern": self.pattern,
        }


_CONSTANT = DropoutPattern(time="constant")
VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("none", DropoutPattern(), non_recurrent=False, recurrent=False),
        Variant("structured_nr", DropoutPattern(), recurrent=False),
        Variant("structured", DropoutPattern()),
        Variant("structured_constant", _CONSTANT),
    )
}
UNROLLED = "unrolled"
"""Random dropout in the recurrence by a loop over time in plain PyTorch: see `unrolled.py`."""


def live(size: int, rate: float) -> int:
    """How many of `size` neurons a step multiplies with."""
    return kept_count(size, rate) if rate > 0.0 else size
