"""The suites by name. A recipe adds the training step of its own model by `register_step`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sdrop.benchmark.comparison import Comparison
from sdrop.benchmark.gemm import gemm_comparison
from sdrop.benchmark.layer import layer_comparison
from sdrop.benchmark.rows import Setting
from sdrop.benchmark.scaling import scaling_comparison
from sdrop.benchmark.shapes import Shape, parse_shape
from sdrop.benchmark.step import step_comparison
from sdrop.benchmark.tagger import tagger_comparison

MakeComparison = Callable[[Shape, Sequence[str], Setting], Comparison | None]
MakeStep = Callable[[Sequence[str], Setting], Comparison]

SUITES: dict[str, MakeComparison] = {
    "gemm": gemm_comparison,
    "layer": layer_comparison,
    "step": step_comparison,
    "scaling": scaling_comparison,
}
_STEPS: dict[str, MakeStep] = {"tagger": tagger_comparison}


def register_step(name: str, make: MakeStep) -> None:
    """Makes `shape=NAME` a training step of the suite `step`.

    Args:
        name: such as `"translator"`.
        make: from names of variants and a setting, the comparison with suite `"step"` and this
            shape.

    Raises:
        ValueError: where the name is taken.
    """
    if name in _STEPS:
        raise ValueError(f"register_step: {name!r} is registered already")
    _STEPS[name] = make


def registered_steps() -> list[str]:
    """The names that `register_step` was given."""
    return list(_STEPS)


def comparisons(
    suites: Sequence[str], shapes: Sequence[str], variants: Sequence[str], setting: Setting
) -> Iterator[Callable[[], Comparison | None]]:
    """What makes each comparison, suite by suite; it allocates when it is called."""
    for suite in suites:
        for name in shapes:
            if name in _STEPS:
                if suite == "step":
                    yield lambda name=name: _STEPS[name](variants, setting)  # type: ignore[misc]
            else:
                make, shape = SUITES[suite], parse_shape(name)
                yield lambda make=make, shape=shape: make(shape, variants, setting)  # type: ignore[misc]
