"""The packed linear op against `drop(X) W^T + b` in plain PyTorch, values and gradients."""

import pytest
import torch

from sdrop import DropoutPattern, functional
from sdrop.ops.linear import linear, linear_equation
from sdrop.ops.masks import KEEP_ALL, Mask, draw_mask

F64 = torch.float64
PATTERNS = [
    DropoutPattern(space, time, keep)
    for space in ("structured", "random")
    for time in ("varying", "constant")
    for keep in (("count", "bernoulli") if space == "structured" else ("count",))
]


def error(a, b):
    assert not a.isnan().any()
    return ((a - b).abs().max() / b.abs().max()).item()


def run(function, arguments, mask, sizes):
    leaves = [None if a is None else a.clone().requires_grad_() for a in arguments]
    output = function(*leaves, mask, sizes)
    (output * torch.arange(output.numel(), dtype=F64).sin().view_as(output)).sum().backward()
    return [output, *[a.grad for a in leaves if a is not None]]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize(
    ("T", "B", "inputs", "outputs", "packed", "bias"),
    [
        (7, 3, 17, 5, False, True),
        (7, 3, 17, 5, True, True),
        (1, 1, 1, 1, False, False),
        (63, 1, 2, 31, False, True),
    ],
)
def test_the_op_is_the_equation(pattern, T, B, inputs, outputs, packed, bias):
    sizes = torch.tensor([max(1, B - t // 2) for t in range(T)]) if packed else None
    leading = (int(sizes.sum()),) if packed else (T, B)
    arguments = [torch.randn(*leading, inputs, dtype=F64), torch.randn(outputs, inputs, dtype=F64)]
    arguments.append(torch.randn(outputs, dtype=F64) if bias else None)
    key = torch.randint(0, 2**60, ())
    mask = draw_mask(pattern, 0.4, key, site=0, steps=T, batch=B, size=inputs, dtype=F64)
    ours = run(linear, arguments, mask, sizes)
    theirs = run(linear_equation, arguments, mask, sizes)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        if b.abs().max() > 0:
            assert error(a, b) <= 1e-12


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_gradcheck_and_its_second_order(pattern):
    key = torch.randint(0, 2**60, ())
    mask = draw_mask(pattern, 0.4, key, site=0, steps=3, batch=2, size=4, dtype=F64)
    leaves = [torch.randn(s, dtype=F64, requires_grad=True) for s in ((3, 2, 4), (5, 4), (5,))]
    assert torch.autograd.gradcheck(lambda *a: linear(*a, mask), leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *a: linear(*a, mask), leaves, fast_mode=True)


def test_a_full_kept_set_gives_torchs_linear():
    x, w, b = (torch.randn(s, dtype=F64) for s in ((4, 3, 7), (5, 7), (5,)))
    everything = Mask(kept=torch.arange(7)[None])
    expected = torch.nn.functional.linear(x, w, b)
    assert error(functional.linear(x, w, b, everything), expected) <= 1e-15
    assert error(functional.linear(x, w, b, KEEP_ALL), expected) <= 1e-15


def test_a_mask_that_does_not_fit_is_refused():
    x, w = torch.randn(4, 3, 7), torch.randn(5, 7)
    with pytest.raises(ValueError, match=r"mask\.kept: expected \(1 or 4, at most 7\) indices"):
        functional.linear(x, w, None, Mask(kept=torch.zeros(2, 3, dtype=torch.int64)))
