"""Number formats: Fabric's own, but for what they would round on the way in and out.

Fabric casts whatever goes into a wrapped model to the precision's type and whatever comes out to
float32. A hidden state goes in and out at each window, so that would round it: to bfloat16 under
mixed precision, to float32 in double precision.
"""

from __future__ import annotations

from typing import Any, Literal

from lightning_fabric.plugins.precision import (
    DoublePrecision,
    HalfPrecision,
    MixedPrecision,
    Precision,
)

PRECISIONS = ("32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true")


class FloatingDouble(DoublePrecision):
    """float64 throughout, results included."""

    def convert_output(self, data: Any) -> Any:
        return data


class Autocast(MixedPrecision):
    """`torch.autocast`, which casts what each operation needs; arguments stay as they are."""

    def convert_input(self, data: Any) -> Any:
        return data

    def convert_output(self, data: Any) -> Any:
        return data


def make_precision(name: str, device: str) -> Precision:
    """The plugin for one of `PRECISIONS` on `"cpu"` or `"cuda"`.

    Raises:
        ValueError: for another name, or for `"16-mixed"` on a CPU.
    """
    if name not in PRECISIONS:
        raise ValueError(f"precision={name!r}: expected one of {', '.join(PRECISIONS)}")
    if name == "16-mixed" and device == "cpu":
        raise ValueError("precision='16-mixed' needs a GPU: on a CPU use 'bf16-mixed'")
    if name == "64-true":
        return FloatingDouble()
    if name == "bf16-true":
        return HalfPrecision("bf16-true")
    if name in ("bf16-mixed", "16-mixed"):
        kind: Literal["bf16-mixed", "16-mixed"] = "16-mixed" if name == "16-mixed" else "bf16-mixed"
        return Autocast(kind, device)
    return Precision()
