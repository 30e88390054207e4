"""Suite `gemm`: the three GEMMs of a layer's input, apart, against dense `torch.mm`.

A weight (4H, in) meets the T·B rows of a sequence. The baseline multiplies all of them at once,
without dropout; what sdrop takes includes drawing the kept sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sdrop import functional
from sdrop.benchmark.comparison import Comparison, dtype_of
from sdrop.benchmark.rows import Pair, Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.timing import Candidate, Times
from sdrop.benchmark.variants import VARIANTS, Variant
from sdrop.benchmark.work import Work, gemm_work
from sdrop.ops.choice import choose_path

BASELINE = "torch.mm"
_FORWARD, _DATA, _WEIGHT, _BACKWARD = "forward", "backward_data", "backward_weight", "backward"
_LEAST_SHARE = 0.01  # of a difference of two times, which noise could make negative


class _Operands:
    """The tensors of one GEMM, in both memory layouts of the weight."""

    def __init__(self, shape: Shape, setting: Setting) -> None:
        options: dict[str, Any] = {"device": setting.device, "dtype": dtype_of(setting)}
        inputs, outputs = shape.input_size, 4 * shape.hidden_size
        self.shape, self.backend = shape, setting.backend
        self.input = torch.randn(shape.steps, shape.batch, inputs, **options)
        self.grad = torch.randn(shape.steps, shape.batch, outputs, **options)
        self.weight = torch.randn(outputs, inputs, **options) / inputs**0.5
        self.k_major = self.weight.t().contiguous().t()
        self.bias = torch.zeros(outputs, **options)

    def work(self, rate: float) -> Work:
        rows = self.shape.steps * self.shape.batch
        return gemm_work(rows, self.shape.input_size, 4 * self.shape.hidden_size, rate)


def gemm_comparison(shape: Shape, variants: Sequence[str], setting: Setting) -> Comparison | None:
    """The phases apart; forward alone and all together where the compiled kernels do not run.

    None for a shape that is not trained.
    """
    chosen = _of_one_site(variants)
    if not shape.training or not chosen:
        return None
    operands = _Operands(shape, setting)
    tensors = (operands.input, operands.weight)
    path = choose_path("linear", setting.backend, tensors, input=functional.KEEP_ALL).path
    compiled = path in ("cpu", "cuda")
    candidates = _dense(operands)
    pairs = []
    for variant in chosen:
        candidates |= _packed(variant, operands)
        work = operands.work(variant.rates(shape).input)
        phases = (_FORWARD, _DATA, _WEIGHT) if compiled else (_FORWARD, "total")
        for phase in phases:
            scale = 3 if phase == "total" else 1
            pairs.append(
                Pair(
                    f"{variant.name} {phase}",
                    f"{BASELINE} {phase}",
                    Work(scale * work.dense, scale * work.live),
                    phase,
                    name=variant.name,
                    baseline_name=BASELINE,
                )
            )
    names = [variant.name for variant in chosen]
    derived = partial(_phases_apart, names) if compiled else partial(_all_phases, names)
    return Comparison("gemm", shape.name, shape.described, candidates, pairs, derived)


def _of_one_site(variants: Sequence[str]) -> list[Variant]:
    """Of variants that differ in the recurrence alone, which is no part of this, the last."""
    found = [VARIANTS[name] for name in variants if name in VARIANTS]
    return list({(each.pattern, each.non_recurrent): each for each in found}.values())


def _dense(operands: _Operands) -> dict[str, Candidate]:
    rows, grad = operands.input.flatten(0, 1), operands.grad.flatten(0, 1)
    weight, bias = operands.weight, operands.bias
    return {
        f"{BASELINE} {_FORWARD}": Candidate(lambda: torch.addmm(bias, rows, weight.t())),
        f"{BASELINE} {_DATA}": Candidate(lambda: torch.mm(grad, weight)),
        f"{BASELINE} {_WEIGHT}": Candidate(lambda: (torch.mm(grad.t(), rows), grad.sum(0))),
    }


def _packed(variant: Variant, operands: _Operands) -> dict[str, Candidate]:
    weight, bias = operands.k_major.requires_grad_(), operands.bias.clone().requires_grad_()

    def forward(input: Tensor) -> Tensor:
        mask = _draw(variant, operands)
        return functional.linear(input, weight, bias, mask, backend=operands.backend)

    @torch.no_grad()
    def forward_alone() -> Tensor:
        return forward(operands.input)

    def backward(input: Tensor, wanted: tuple[Tensor, ...]) -> Candidate:
        outputs: list[Tensor] = []

        def prepare() -> None:
            outputs[:] = [forward(input)]

        return Candidate(lambda: torch.autograd.grad(outputs, wanted, operands.grad), prepare)

    trained = operands.input.clone().requires_grad_()
    return {
        f"{variant.name} {_FORWARD}": Candidate(forward_alone),
        f"{variant.name} {_BACKWARD}": backward(trained, (trained, weight, bias)),
        f"{variant.name} {_WEIGHT}": backward(operands.input, (weight, bias)),
    }


def _draw(variant: Variant, operands: _Operands) -> functional.Mask:
    shape, input = operands.shape, operands.input
    key = torch.randint(-(2**63), 2**63 - 1, (), dtype=torch.int64, device=input.device)
    return functional.draw_mask(
        variant.pattern,
        variant.rates(shape).input,
        key,
        site=0,
        steps=shape.steps,
        batch=shape.batch,
        size=shape.input_size,
        dtype=input.dtype,
    )


def _phases_apart(names: list[str], times: Times) -> Times:
    """Backward data is what the backward pass takes more when the input wants a gradient."""
    found = dict(times)
    for name in names:
        found[f"{name} {_DATA}"] = [
            max(both - weight, _LEAST_SHARE * both)
            for both, weight in zip(
                times[f"{name} {_BACKWARD}"], times[f"{name} {_WEIGHT}"], strict=True
            )
        ]
    return found


def _all_phases(names: list[str], times: Times) -> Times:
    parts: dict[str, tuple[str, ...]] = dict.fromkeys(names, (_FORWARD, _BACKWARD))
    parts[BASELINE] = (_FORWARD, _DATA, _WEIGHT)
    totals = {
        f"{name} total": [
            sum(each) for each in zip(*(times[f"{name} {phase}"] for phase in phases), strict=True)
        ]
        for name, phases in parts.items()
    }
    return times | totals
