"""Cases for sanitize/driver.cpp: a layer's arguments and its results in float64, a file each.

The arguments are those of kernels/cpu/interface.h; what a `Mask` becomes there follows
`SiteArgument` in kernels/cpu/arguments.h.
"""

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from kernels_random import PATTERNS, Layer, draw, in_float64, k_major, random_layer, uniform
from torch import Tensor

from sdrop.functional import Mask
from sdrop.ops.linear import linear_equation

Arrays = dict[str, np.ndarray]
TYPES = {"float32": b"f", "float64": b"d", "int32": b"i", "int64": b"q"}

LSTM_RESULTS = (
    *("output", "h_n", "c_n", "grad_input", "grad_h_0", "grad_c_0"),
    *("grad_weight_ih", "grad_weight_hh", "grad_bias"),
)


class Case(NamedTuple):
    name: str
    arrays: Arrays


def write(case: Case, folder: Path) -> Path:
    """Writes the file that sanitize/case_file.h reads."""
    path = folder / f"{case.name}.case"
    with path.open("wb") as file:
        for name, array in case.arrays.items():
            file.write(struct.pack("=i", len(name)) + name.encode() + TYPES[array.dtype.name])
            file.write(struct.pack("=q", array.size) + np.ascontiguousarray(array).tobytes())
    return path


def lstm_case(
    name: str, layer: Layer, needs_input_grad: bool = True, *, bfloat16: bool = False
) -> Case:
    if bfloat16:
        tensors = list(layer.tensors)
        tensors[3:5] = [weight.bfloat16().float() for weight in tensors[3:5]]
        layer = layer._replace(tensors=tuple(tensors))
    x, h_0, c_0, weight_ih, weight_hh, bias = layer.tensors
    sizes = _sizes(x, layer.options["batch_sizes"])
    arrays = {"sizes": sizes, "reverse": _indices(layer.options["reverse"])}
    arrays |= _site("input", layer.options["input_mask"], weight_ih)
    arrays |= _site("hidden", layer.options["hidden_mask"], weight_hh)
    arrays |= _floats(x=x, h_0=h_0, c_0=c_0, bias=bias)
    grad_output, grad_h_n, grad_c_n = layer.grads
    arrays |= _floats(grad_output=grad_output, grad_h_n=grad_h_n, grad_c_n=grad_c_n)
    # Without a bias its gradient is missing at the end.
    results = dict(zip(LSTM_RESULTS, in_float64(layer), strict=False))
    arrays |= {"bfloat16": _indices(1)} if bfloat16 else {}
    return Case(name, arrays | _expected(results, needs_input_grad))


def linear_case(
    name: str,
    x: Tensor,
    features: int,
    mask: Mask,
    *,
    bias: bool = True,
    batch_sizes=None,
    bfloat16: bool = False,
) -> Case:
    weight = k_major(uniform(x.shape[-1] ** -0.5, features, x.shape[-1]))
    weight = weight.bfloat16().float() if bfloat16 else weight
    tensors = (x, weight, torch.randn(features) if bias else None)
    grad = torch.randn(*x.shape[:-1], features)
    arrays = {
        "sizes": _sizes(x, batch_sizes),
        "reverse": _indices(0),
        "columns": _indices(features),
    }
    arrays |= _site("input", mask, weight)
    arrays |= _floats(x=x, bias=tensors[2], grad_output=grad)
    leaves = [t if t is None else t.double().requires_grad_() for t in tensors]
    wide = mask if mask.mask is None else mask._replace(mask=mask.mask.double())
    output = linear_equation(*leaves, wide, batch_sizes)
    output.backward(grad.double())
    names = ("grad_input", "grad_weight", "grad_bias")
    results = {"output": output.detach()}
    results |= {n: t.grad for n, t in zip(names, leaves, strict=True) if t is not None}
    arrays |= {"bfloat16": _indices(1)} if bfloat16 else {}
    return Case(name, arrays | _expected(results))


def few_cases() -> Iterator[Case]:
    """Small layers that reach every path: some seconds under a sanitizer."""
    for i, patterns in enumerate(itertools.product(PATTERNS, repeat=2)):
        if i % 3 == 0:
            yield lstm_case(f"pair {patterns}", random_layer(3, 5, 11, 18, patterns))
    for pattern in PATTERNS:
        options = {"packed": True, "reverse": True, "bias": False}
        layer = random_layer(4, 9, 20, 21, (pattern, pattern), **options)
        yield lstm_case(f"packed and reverse, {pattern}", layer)
        yield linear_case(
            f"linear, {pattern}", torch.randn(3, 20, 17), 71, draw(pattern, 3, 20, 17)
        )
    yield lstm_case("one of each", random_layer(1, 1, 1, 1, ("all", "all")))
    yield lstm_case("a wide batch", random_layer(2, 65, 7, 33, ("III", "III")))
    # Columns of gradients that share vectors: four all of them, behind whole ones too, or two a
    # half one; and blocks of such columns.
    for batch in (3, 10, 12, 20, 44):
        yield lstm_case(f"shared, B={batch}", random_layer(2, batch, 7, 33, ("III", "III")))
        mask = draw("III", 2, batch, 9)
        yield linear_case(f"shared, linear, B={batch}", torch.randn(2, batch, 9), 37, mask)
    # Few rows: weights in place and packed, stripes of 512 columns, and ends within a vector.
    for batch in (2, 31):
        yield lstm_case(f"few rows, B={batch}", random_layer(1, batch, 9, 37, ("III", "III")))
        mask = draw("III", 1, batch, 19)
        yield linear_case(f"few rows, linear, B={batch}", torch.randn(1, batch, 19), 553, mask)
    yield lstm_case("shared in blocks", random_layer(2, 10, 5, 170, ("III", "III")))
    yield from _extremes()
    yield from _bfloat16()


def _bfloat16() -> Iterator[Case]:
    """Odd numbers of rows and of kept neurons, in all chunks of a batch."""
    for pattern in PATTERNS:
        options = {"packed": True, "reverse": True, "bias": False}
        layer = random_layer(4, 9, 21, 22, (pattern, pattern), **options)
        yield lstm_case(f"bfloat16, packed, {pattern}", layer, bfloat16=True)
        mask = draw(pattern, 3, 7, 17)
        yield linear_case(
            f"bfloat16, linear, {pattern}", torch.randn(3, 7, 17), 70, mask, bfloat16=True
        )
    for batch in (3, 12, 20, 44, 65):
        layer = random_layer(2, batch, 9, 170, ("III", "III"))
        yield lstm_case(f"bfloat16, B={batch}", layer, bfloat16=True)


def many_cases() -> Iterator[Case]:
    """All sizes that the kernels' other tests have, with the patterns in turn."""
    pairs = itertools.cycle(itertools.product(PATTERNS, repeat=2))
    for steps, batch, hidden in itertools.product((1, 7, 63), (1, 3, 20, 65), (1, 17, 100)):
        patterns, width = next(pairs), 1 + (steps + batch + hidden) % 40
        name = f"T={steps} B={batch} K={width} H={hidden} {patterns}"
        # Tall and wide at once is slow here, and shows nothing that neither does alone.
        if steps * batch * hidden < 63 * 20 * 100:
            yield lstm_case(name, random_layer(steps, batch, width, hidden, patterns))
    for pattern, packed, reverse, bias in itertools.product(PATTERNS, *[(False, True)] * 3):
        options = {"packed": packed, "reverse": reverse, "bias": bias}
        layer = random_layer(5, 6, 23, 18, (pattern, pattern), **options)
        yield lstm_case(f"{pattern} {options}", layer, needs_input_grad=bias)
    yield lstm_case("a large layer", random_layer(2, 20, 65, 650, ("III", "III")))
    # From 192 kept neurons on a sum takes two blocks, with AVX-512 too; 384 of bfloat16.
    for steps, batch in ((5, 2), (2, 3), (5, 7)):
        layer = random_layer(steps, batch, 500, 500, ("all", "all"))
        yield lstm_case(f"two blocks, T={steps} B={batch}", layer)
    yield linear_case("two blocks", torch.randn(2, 20, 500), 33, draw("all", 2, 20, 500))
    for pattern, size in itertools.product(PATTERNS, (1, 17, 100)):
        for steps, batch, features in ((1, 1, 1), (7, 3, 33), (5, 20, 257), (2, 65, 31)):
            name = f"linear, T={steps} B={batch} K={size} N={features} {pattern}"
            mask = draw(pattern, steps, batch, size)
            yield linear_case(name, torch.randn(steps, batch, size), features, mask)
        sizes = torch.tensor([6, 6, 3, 1])
        mask = draw(pattern, 4, 6, size)
        options = {"bias": False, "batch_sizes": sizes}
        yield linear_case(f"packed, K={size} {pattern}", torch.randn(16, size), 45, mask, **options)
    yield linear_case("a vocabulary", torch.randn(2, 3, 40), 10_000, draw("III", 2, 3, 40))


def _extremes() -> Iterator[Case]:
    """Kept sets of one neuron, of all, and of none."""
    some_steps = torch.tensor([2.0, 0.0, 2.0])[:, None, None]
    one_sequence = torch.tensor([2.0, 0.0])[None, :, None]
    masks = {
        "one": Mask(kept=torch.tensor([[7], [0], [9]]), scale=10.0),
        "all": Mask(kept=torch.arange(10).expand(3, 10), scale=1.0),
        "none": Mask(mask=torch.zeros(3, 1, 10)),
        "none in one step": Mask(mask=some_steps.expand(3, 1, 10)),
        "none of one sequence": Mask(mask=one_sequence.expand(1, 2, 10)),
    }
    for name, mask in masks.items():
        layer = random_layer(3, 2, 10, 10, ("all", "all"))
        options = layer.options | {"input_mask": mask, "hidden_mask": mask}
        yield lstm_case(f"keeps {name}", layer._replace(options=options))
        yield linear_case(f"linear keeps {name}", torch.randn(3, 2, 10), 19, mask)


def _site(name: str, mask: Mask, weight: Tensor) -> Arrays:
    size = weight.shape[1]
    arrays = _floats(weight=weight.t(), scale=torch.tensor(mask.scale))
    sets = [torch.arange(size)]
    if mask.kept is not None:
        sets = list(mask.kept)
    if mask.mask is not None:
        steps, columns, _ = mask.mask.shape
        arrays |= _floats(factor=mask.mask)
        strides = (columns * size if steps > 1 else 0, size if columns > 1 else 0)
        arrays["factor_strides"] = _indices(*strides)
        if columns == 1:
            sets = [row.nonzero().flatten() for row in mask.mask[:, 0]]
    arrays["size"] = _indices(size)
    arrays["kept"] = torch.cat(sets).to(torch.int32).numpy()
    arrays["set_starts"] = np.cumsum([0, *map(len, sets)])
    return {f"{name}.{key}": array for key, array in arrays.items()}


def _expected(results: dict[str, Tensor], needs_input_grad: bool = True) -> Arrays:
    """Gradients of weights lie in memory as the kernels write them: (K, N)."""
    found = {"needs_input_grad": _indices(needs_input_grad)}
    for name, result in results.items():
        if needs_input_grad or name != "grad_input":
            found[name] = (result.t() if "weight" in name else result).contiguous().numpy()
    return found


def _sizes(x: Tensor, batch_sizes: Tensor | None) -> np.ndarray:
    return _indices(*[x.shape[1]] * x.shape[0]) if batch_sizes is None else batch_sizes.numpy()


def _indices(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _floats(**tensors: Tensor | None) -> Arrays:
    return {name: t.contiguous().numpy() for name, t in tensors.items() if t is not None}
