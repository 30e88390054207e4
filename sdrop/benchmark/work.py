"""How much arithmetic a training step needs, with everything and with what is kept alone.

Each of the three GEMMs of training (forward, backward data, backward weight) shrinks to the kept
share of its input neurons, so the speed-up that arithmetic allows, the FLOP limit, is dense work
over live work. Masks, gates, loss and optimizer are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.variants import live
from sdrop.models import DropoutRates

STEP_LAYERS = 2
_GATES = 4
_PHASES = 3
_FLOP_A_MULTIPLY_ADD = 2


@dataclass(frozen=True)
class Work:
    """FLOP of one run, by the baseline and with the kept neurons alone."""

    dense: float
    live: float

    @property
    def limit(self) -> float:
        """The speed-up at which live FLOP run as fast as dense ones."""
        return self.dense / self.live

    def __add__(self, other: Work) -> Work:
        return Work(self.dense + other.dense, self.live + other.live)


def gemm_work(rows: int, inputs: int, outputs: int, rate: float, phases: int = 1) -> Work:
    """Work of a linear layer on `rows` rows whose input is dropped at `rate`.

    A fraction of the neurons counts as `kept_count` rounds it.
    """
    flop = _FLOP_A_MULTIPLY_ADD * phases * rows * outputs
    return Work(flop * inputs, flop * live(inputs, rate))


def layer_work(
    shape: Shape, rates: DropoutRates, *, input_size: int | None = None, input_rate: float = -1.0
) -> Work:
    """Work of one LSTM layer, all phases that the shape asks for.

    Args:
        shape: sizes.
        rates: `input` and `recurrent` act.
        input_size: another one than the shape's.
        input_rate: another one than `rates.input`, where not negative.
    """
    rows, phases = shape.steps * shape.batch, _PHASES if shape.training else 1
    inputs = shape.input_size if input_size is None else input_size
    rate = rates.input if input_rate < 0 else input_rate
    gates = _GATES * shape.hidden_size
    return gemm_work(rows, inputs, gates, rate, phases) + gemm_work(
        rows, shape.hidden_size, gates, rates.recurrent, phases
    )


def step_work(shape: Shape, rates: DropoutRates, layers: int = STEP_LAYERS) -> Work:
    """Work of a language model's training step: LSTM layers and the decoder."""
    total = layer_work(shape, rates)
    for _ in range(layers - 1):
        total += layer_work(shape, rates, input_size=shape.hidden_size, input_rate=rates.between)
    rows = shape.steps * shape.batch
    return total + gemm_work(rows, shape.hidden_size, shape.vocabulary_size, rates.output, _PHASES)
