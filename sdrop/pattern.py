"""Which neurons a dropout drops: the four cases, how many are kept, and how the rest is scaled.

"Structured in space" drops the same neurons for every sequence of the batch; "varying in time"
draws new ones at each time step (Sarma et al., NeurIPS 2021, arXiv 2106.12089, figure 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Space = Literal["structured", "random"]
Time = Literal["varying", "constant"]
Keep = Literal["count", "bernoulli"]


@dataclass(frozen=True)
class DropoutPattern:
    """How the masks of a dropout are shared over the batch and over time.

    | case | space      | time     | known from                                         |
    |------|------------|----------|----------------------------------------------------|
    | I    | random     | varying  | `torch.nn.Dropout`, Zaremba et al. 2014            |
    | II   | random     | constant | Gal & Ghahramani 2016, LockedDropout               |
    | III  | structured | varying  | Sarma et al. 2021: the default                     |
    | IV   | structured | constant | the cheapest to pack                               |

    Args:
        space: `"structured"` drops the same neurons for the whole batch, `"random"` draws each
            element on its own.
        time: `"varying"` draws anew at each time step, `"constant"` once a forward call.
        keep: how a structured pattern draws. `"count"` keeps exactly
            `k = max(1, floor((1 - p) * size + 0.5))` neurons, scaled by `size / k`;
            `"bernoulli"` draws each neuron on its own, scales by `1 / (1 - p)`, and may keep
            none. A random pattern is always Bernoulli, as `torch.nn.Dropout` is.

    Raises:
        ValueError: for any other word.
    """

    space: Space = "structured"
    time: Time = "varying"
    keep: Keep = "count"

    def __post_init__(self) -> None:
        for field, choices in (("space", Space), ("time", Time), ("keep", Keep)):
            value = getattr(self, field)
            if value not in get_args(choices):
                expected = " or ".join(repr(choice) for choice in get_args(choices))
                raise ValueError(f"DropoutPattern({field}={value!r}): expected {expected}")

    @property
    def case(self) -> str:
        """The Roman numeral under which the paper lists this pattern."""
        cases = {
            ("random", "varying"): "I",
            ("random", "constant"): "II",
            ("structured", "varying"): "III",
            ("structured", "constant"): "IV",
        }
        return cases[self.space, self.time]

    @property
    def counts(self) -> bool:
        """Whether each step keeps the same number of neurons, so that shapes are static."""
        return self.space == "structured" and self.keep == "count"

    def __str__(self) -> str:
        drawn = f", {self.keep}" if self.space == "structured" else ""
        return f"case {self.case} ({self.space} in space, {self.time} in time{drawn})"


def kept_count(size: int, rate: float) -> int:
    """The number of neurons, of `size`, that a `"count"` pattern keeps at dropout rate `rate`.

    Rounded half up rather than to even, so that it grows evenly with `size`; never zero.
    """
    return max(1, math.floor((1.0 - rate) * size + 0.5))


def check_rate(name: str, rate: object) -> float:
    """Returns `rate` as a float, or says what is wrong with it.

    Raises:
        TypeError: if it is not a number (a bool is not one).
        ValueError: if it is outside [0, 1).
    """
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise TypeError(f"{name}={rate!r}: expected a number in [0, 1), got {type(rate).__name__}")
    if not 0.0 <= rate < 1.0:
        raise ValueError(
            f"{name}={rate!r}: expected a dropout rate in [0, 1); "
            "it is the share of neurons that is dropped"
        )
    return float(rate)
