"""Suite `layer`: one LSTM layer, forward and backward, with the dropout in front of it.

What a user pays: drawing masks is timed, and the input has a gradient. A shape that is not
trained (`generation`) runs forward in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import sdrop
from sdrop.benchmark.comparison import Comparison, dtype_of, forgets_gradients
from sdrop.benchmark.rows import Pair, Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.timing import Candidate
from sdrop.benchmark.unrolled import UnrolledLSTM
from sdrop.benchmark.variants import UNROLLED, VARIANTS
from sdrop.benchmark.work import layer_work
from sdrop.models import DropoutRates

PLAIN, DROPPED = "nn.LSTM", "nn.Dropout + nn.LSTM"
_FLOAT32 = " in float32"


def layer_comparison(shape: Shape, variants: Sequence[str], setting: Setting) -> Comparison | None:
    """Each variant against `nn.LSTM`, with `nn.Dropout` in front where the variant drops.

    In another precision than float32 against both in float32, too. Without training only `none`
    differs from nothing; None where that is not asked for.
    """
    chosen = [name for name in variants if shape.training or name == "none"]
    if not chosen:
        return None
    dtypes = {"": dtype_of(setting)}
    if setting.dtype != "float32":
        dtypes[_FLOAT32] = torch.float32
    candidates: dict[str, Candidate] = {}
    pairs = []
    for name in chosen:
        drops = name != "none"
        rates = VARIANTS[name].rates(shape) if name in VARIANTS else DropoutRates()
        for suffix, dtype in dtypes.items():
            baseline = (DROPPED if drops else PLAIN) + suffix
            if baseline not in candidates:
                candidates[baseline] = _candidate(_stock(shape, drops=drops), shape, setting, dtype)
            phase = "total" if shape.training else "forward"
            pairs.append(Pair(name, baseline, layer_work(shape, rates), phase))
        module = _make(name, shape, setting)
        candidates[name] = _candidate(module, shape, setting, dtype_of(setting))
    return Comparison("layer", shape.name, shape.described, candidates, pairs)


def _stock(shape: Shape, *, drops: bool) -> nn.Module:
    lstm = nn.LSTM(shape.input_size, shape.hidden_size)
    return nn.Sequential(nn.Dropout(shape.rate), lstm) if drops else lstm


def _make(name: str, shape: Shape, setting: Setting) -> nn.Module:
    if name == UNROLLED:
        return UnrolledLSTM(shape.input_size, shape.hidden_size, shape.rate)
    options = VARIANTS[name].layer_options(shape)
    return sdrop.LSTM(shape.input_size, shape.hidden_size, backend=setting.backend, **options)


def _candidate(module: nn.Module, shape: Shape, setting: Setting, dtype: torch.dtype) -> Candidate:
    module.to(device=setting.device, dtype=dtype).train(shape.training)
    options: dict[str, Any] = {"device": setting.device, "dtype": dtype}
    input = torch.randn(shape.steps, shape.batch, shape.input_size, **options)
    if not shape.training:
        return Candidate(_evaluating(module, input))
    input.requires_grad_()
    grad = torch.randn(shape.steps, shape.batch, shape.hidden_size, **options)

    def run() -> None:
        output = module(input)
        (output if isinstance(output, Tensor) else output[0]).backward(grad)

    return Candidate(run, forgets_gradients(module, input))


def _evaluating(module: nn.Module, input: Tensor) -> Callable[[], None]:
    @torch.no_grad()
    def run() -> None:
        module(input)

    return run
