"""Decoder and loss in one op, against the plain layers: values, gradients, and the corners."""

import pytest
import torch

from sdrop import DropoutPattern
from sdrop.ops import linear_cross_entropy as module
from sdrop.ops.linear_cross_entropy import linear_cross_entropy, linear_cross_entropy_equation
from sdrop.ops.masks import KEEP_ALL, draw_mask

F64 = torch.float64


def problem(T, B, inputs, classes, bias=True, packed=False):
    sizes = torch.tensor([max(1, B - t // 2) for t in range(T)]) if packed else None
    leading = (int(sizes.sum()),) if packed else (T, B)
    arguments = [torch.randn(*leading, inputs, dtype=F64), torch.randn(classes, inputs, dtype=F64)]
    arguments.append(torch.randn(classes, dtype=F64) if bias else None)
    target = torch.randint(classes, leading)
    target[0] = -100
    return arguments, target, sizes


def run(function, arguments, *others):
    leaves = [None if a is None else a.clone().requires_grad_() for a in arguments]
    loss = function(*leaves, *others)
    (3.0 * loss).backward()
    return [loss, *[a.grad for a in leaves if a is not None]]


def assert_close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert not a.isnan().any()
        assert (a - b).abs().max() <= 1e-12 * b.abs().max()


@pytest.mark.parametrize("block", [1, 64, 10**6])
@pytest.mark.parametrize(
    "pattern",
    [DropoutPattern(), DropoutPattern(time="constant"), DropoutPattern("random")],
    ids=str,
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_op_is_the_equation(monkeypatch, block, pattern, packed):
    monkeypatch.setattr(module, "_BLOCK_ELEMENTS", block)
    for bias in (True, False):
        arguments, target, sizes = problem(7, 3, 5, 31, bias, packed)
        key = torch.randint(0, 2**60, ())
        mask = draw_mask(pattern, 0.4, key, site=0, steps=7, batch=3, size=5, dtype=F64)
        others = (target, mask, sizes)
        assert_close(
            run(linear_cross_entropy, arguments, *others),
            run(linear_cross_entropy_equation, arguments, *others),
        )


def test_gradcheck_and_its_second_order():
    arguments, target, _ = problem(3, 2, 4, 5)
    leaves = [a.requires_grad_() for a in arguments]

    def call(*values):
        return linear_cross_entropy(*values, target, KEEP_ALL)

    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)


def test_gradients_that_can_be_differentiated_are_those_that_cannot():
    arguments, target, _ = problem(3, 2, 4, 5)
    leaves = [a.requires_grad_() for a in arguments]
    loss = 3.0 * linear_cross_entropy(*leaves, target, KEEP_ALL)
    once, again = (
        torch.autograd.grad(loss, leaves, create_graph=more, retain_graph=True)
        for more in (False, True)
    )
    assert_close(again, once)


def test_large_scores_do_not_overflow():
    scores = torch.eye(3, dtype=torch.float32) * 1e4
    loss = linear_cross_entropy(scores[None], torch.eye(3), None, torch.arange(3)[None], KEEP_ALL)
    assert loss.item() == 0.0


def test_no_counted_target_gives_nan_as_cross_entropy_does():
    (x, w, b), target, _ = problem(2, 2, 3, 4)
    loss = linear_cross_entropy(x, w, b, torch.full_like(target, -100), KEEP_ALL)
    assert loss.isnan()


def test_a_frozen_weight_gets_no_gradient():
    (x, w, b), target, _ = problem(2, 2, 3, 4)
    x.requires_grad_()
    linear_cross_entropy(x, w, b, target, KEEP_ALL).backward()
    assert x.grad is not None
    assert w.grad is None


def test_weight_gradients_are_k_major():
    (x, w, b), target, _ = problem(2, 2, 3, 4)
    w = w.t().contiguous().t().requires_grad_()
    (grad,) = torch.autograd.grad(linear_cross_entropy(x, w, b, target, KEEP_ALL), w)
    assert grad.stride() == w.stride()


def test_the_op_passes_opcheck():
    (x, w, b), target, _ = problem(2, 2, 3, 4)
    leaves = [t.requires_grad_() for t in (x, w, b)]
    arguments = (*leaves, target, None, None, 1.0, None, -100, True, False)
    torch.library.opcheck(torch.ops.sdrop.linear_cross_entropy.default, arguments)


def test_compiled_and_eager_give_the_same():
    (x, w, b), target, _ = problem(2, 2, 3, 4)
    w.requires_grad_()
    compiled = torch.compile(linear_cross_entropy, fullgraph=True, backend="aot_eager")
    eager = linear_cross_entropy(x, w, b, target, KEEP_ALL)
    loss = compiled(x, w, b, target, KEEP_ALL)
    assert torch.equal(loss, eager)
    assert torch.equal(torch.autograd.grad(loss, w)[0], torch.autograd.grad(eager, w)[0])


def test_float16_sums_over_many_rows_of_a_class_do_not_overflow():
    rows = 200_000  # a half of each, 100,000, is beyond float16's 65,504
    x, w = torch.ones(rows, 1, 1, dtype=torch.float16), torch.zeros(2, 1, dtype=torch.float16)
    leaves = [w.requires_grad_(), torch.zeros(2, dtype=torch.float16, requires_grad=True)]
    target = torch.zeros(rows, 1, dtype=torch.int64)
    loss = linear_cross_entropy(x, *leaves, target, KEEP_ALL)
    for grad in torch.autograd.grad(loss, leaves):
        torch.testing.assert_close(grad.flatten(), torch.tensor([-0.5, 0.5]).half())


def test_losses_of_very_unlikely_classes_are_exact():
    logits = torch.tensor([[0.0, -300.0, 200.0]])
    loss = linear_cross_entropy(logits[None], torch.eye(3), None, torch.tensor([[1]]), KEEP_ALL)
    assert loss.item() == 500.0


@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_a_factor_on_the_loss_is_one_on_its_gradients(factor):
    (x, w, b), target, _ = problem(3, 2, 4, 5)
    leaves = [t.requires_grad_() for t in (x, w, b)]
    grads = []
    for function in (linear_cross_entropy, linear_cross_entropy_equation):
        loss = function(*leaves, target, KEEP_ALL)
        grads.append(torch.autograd.grad(factor * loss, leaves))
    assert_close(*grads)
