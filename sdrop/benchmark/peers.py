"""The suite `layer` in other frameworks that the user has installed, a process each.

    python -m sdrop.benchmark.peers ptb_medium jax

An LSTM layer with `nn.Dropout`'s kind of dropout on its input, forward and backward, compiled by
the framework. Its process has just the cores that are asked for. It does not take turns with the
baseline, so its ratio is worth less than the others: the row says "own process".
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from sdrop.benchmark.layer import DROPPED, PLAIN
from sdrop.benchmark.process import in_a_process_of_its_own
from sdrop.benchmark.rows import Pair, Row, Setting, make_row
from sdrop.benchmark.shapes import Shape, parse_shape
from sdrop.benchmark.timing import Candidate, clock_for, time_in_turn
from sdrop.benchmark.work import layer_work
from sdrop.models import DropoutRates

Step = Callable[[], object]
Array = NDArray[numpy.float32]


def peer_rows(
    shape: Shape, peers: Sequence[str], setting: Setting, rows: Sequence[Row]
) -> list[Row]:
    """A row a peer, over the baseline of the layer suite's `rows` at this shape.

    Raises:
        RuntimeError: where a peer fails, with what it said, or cannot run on this device.
    """
    stock = [row for row in rows if row.baseline == DROPPED]
    stock = stock or [row for row in rows if row.baseline == PLAIN]
    if not stock or not shape.training:
        return []
    if setting.device != "cpu" or setting.dtype != "float32":
        raise RuntimeError("peers= run on the CPU in float32: leave device= and dtype= out")
    baseline = stock[0]
    rate = shape.rate if baseline.baseline == DROPPED else 0.0
    found = []
    for peer in peers:
        options = json.dumps({"rounds": baseline.rounds, "rate": rate})
        told = in_a_process_of_its_own("sdrop.benchmark.peers", shape.name, peer, setting, options)
        name = f"{told['name']}, own process"
        times = {
            name: told["milliseconds"],
            baseline.baseline: baseline.baseline_milliseconds_by_round,
        }
        pair = Pair(name, baseline.baseline, layer_work(shape, DropoutRates()))
        row = make_row("layer", shape.name, pair, times, setting, machine=baseline.machine)
        found.append(_with_peak(row, baseline))
    return found


def _with_peak(row: Row, measured: Row) -> Row:
    """The fraction of the peak that `measured` is a fraction of."""
    if not (row.gflops and measured.gflops and measured.fraction_of_peak):
        return row
    peak = measured.gflops / measured.fraction_of_peak
    return dataclasses.replace(row, fraction_of_peak=row.gflops / peak)


def jax_step(shape: Shape, rate: float) -> tuple[str, Step]:
    """The name and a call of the layer's gradients by JAX: one `lax.scan`, compiled."""
    import jax
    from jax import numpy as jnp

    inputs, hidden = shape.input_size, shape.hidden_size
    weights = tuple(map(jnp.asarray, _uniform((inputs, 4 * hidden), (hidden, 4 * hidden))))
    input, grad = map(jnp.asarray, _normal(shape))
    start = jnp.zeros((shape.batch, hidden))

    def loss(weights: Any, input: Any, key: Any) -> Any:
        weight_ih, weight_hh = weights
        kept = jax.random.bernoulli(key, 1.0 - rate, input.shape)
        gates_of_input = jnp.where(kept, input / (1.0 - rate), 0.0) @ weight_ih

        def step(state: Any, gates_x: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(gates_x + h @ weight_hh, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return (jax.lax.scan(step, (start, start), gates_of_input)[1] * grad).sum()

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))
    keys = iter(range(10**9))

    def run() -> None:
        jax.block_until_ready(gradients(weights, input, jax.random.key(next(keys))))

    return "jax", run


def keras_step(shape: Shape, rate: float) -> tuple[str, Step]:
    """The name and a call of `train_on_batch` by Keras on its own backend.

    A trained shift in front makes the input's gradient part of it; the update by SGD is, too.
    """
    import keras

    class Shift(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.shift = self.add_weight(shape=(shape[-1],), initializer="zeros")

        def call(self, input: Any) -> Any:
            return input + self.shift

    model = keras.Sequential(
        [
            keras.Input((shape.steps, shape.input_size), batch_size=shape.batch),
            Shift(),
            keras.layers.Dropout(rate),
            keras.layers.LSTM(shape.hidden_size, return_sequences=True),
        ]
    )
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mean_squared_error")
    input, target = (each.swapaxes(0, 1) for each in _normal(shape))
    name = f"keras on {keras.backend.backend()}"
    return name, lambda: model.train_on_batch(input, target)


PEERS: dict[str, Callable[[Shape, float], tuple[str, Step]]] = {
    "jax": jax_step,
    "keras": keras_step,
}


def _normal(shape: Shape) -> tuple[Array, Array]:
    """The input (T, B, in) and something of the output's shape (T, B, H)."""
    generator = numpy.random.default_rng(1)
    sizes = (shape.input_size, shape.hidden_size)
    input, output = (
        generator.standard_normal((shape.steps, shape.batch, size), dtype=numpy.float32)
        for size in sizes
    )
    return input, output


def _uniform(*sizes: tuple[int, int]) -> list[Array]:
    generator = numpy.random.default_rng(2)
    bound = (sizes[0][1] // 4) ** -0.5
    return [generator.uniform(-bound, bound, size).astype(numpy.float32) for size in sizes]


def main(arguments: Sequence[str]) -> None:
    """Time a peer and print its times as JSON."""
    name, peer, *rest = arguments
    setting = Setting(**json.loads(rest[0])) if rest else Setting()
    options: dict[str, Any] = json.loads(rest[1]) if len(rest) > 1 else {"rounds": 5, "rate": 0.5}
    _use_cores(setting.threads)
    shown, run = PEERS[peer](parse_shape(name), options["rate"])
    clock = clock_for("cpu", setting.threads)
    times = time_in_turn({shown: Candidate(run)}, clock, rounds=options["rounds"])
    print(json.dumps({"name": shown, "milliseconds": times[shown]}))


def _use_cores(count: int) -> None:
    """Frameworks start a thread for each core that they may run on."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


if __name__ == "__main__":
    main(sys.argv[1:])
