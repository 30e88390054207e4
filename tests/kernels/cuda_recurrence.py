"""Random layers for `torch.ops.sdrop.lstm_cuda`, and in which mode it runs them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from kernels_random import Layer, run_layer

from sdrop.functional import Mask
from sdrop.ops.lstm.cuda import lstm

_MULTIPROCESSORS, _EMULATED_COUNT = 0, 8
"""The attribute's place in kernels/emulation/runtime.h, and its value there."""

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def rounded(layer: Layer, dtype: torch.dtype) -> Layer:
    """The layer with all numbers rounded to `dtype`, so that errors are the kernels' alone."""

    def of(value):
        if isinstance(value, Mask):
            return value._replace(mask=of(value.mask))
        if value is None or not value.is_floating_point():
            return value
        return value.to(dtype).to(value.dtype)

    options = {
        name: value if isinstance(value, bool) else of(value)
        for name, value in layer.options.items()
    }
    return Layer(tuple(map(of, layer.tensors)), options, tuple(map(of, layer.grads)))


def on(layer: Layer, device: torch.device) -> Layer:
    """The layer with its tensors on a device; the sizes of packed steps stay on the host."""

    def move(value):
        if isinstance(value, Mask):
            return value._replace(kept=move(value.kept), mask=move(value.mask))
        return value.to(device) if isinstance(value, torch.Tensor) else value

    options = {
        name: value if name == "batch_sizes" else move(value)
        for name, value in layer.options.items()
    }
    return Layer(tuple(map(move, layer.tensors)), options, tuple(map(move, layer.grads)))


def run_on(layer: Layer, device, dtype=torch.float32) -> list[torch.Tensor]:
    """output, h_n, c_n and the gradients, by the CUDA kernels."""
    return run_layer(on(layer, device), lstm, dtype)


@contextmanager
def multiprocessors(request, device: torch.device, count: int) -> Iterator[None]:
    """Has the emulated device so many multiprocessors; a real one keeps its own."""
    if device.type == "cuda":
        yield
        return
    library = request.getfixturevalue("emulated_library")
    library.sdrop_set_device_attribute(_MULTIPROCESSORS, count)
    try:
        yield
    finally:
        library.sdrop_set_device_attribute(_MULTIPROCESSORS, _EMULATED_COUNT)
