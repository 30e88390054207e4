"""`sdrop.Linear.cross_entropy` against torch's loss of the same layer's output."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import sdrop
from sdrop import DropoutPattern

STEPS, BATCH, IN, CLASSES = 6, 4, 8, 5
PATTERNS = [
    None,
    DropoutPattern("random"),
    DropoutPattern("structured", "varying"),
    DropoutPattern("structured", "constant"),
    DropoutPattern("structured", "constant", "bernoulli"),
]


def make_linear(pattern, **options):
    arguments = {"dropout": 0.5 if pattern else 0.0, "pattern": pattern, "dtype": torch.float64}
    return sdrop.name_sites(sdrop.Linear(IN, CLASSES, **(arguments | options)))


def make_target():
    target = torch.randint(CLASSES, (STEPS, BATCH))
    target[torch.rand(STEPS, BATCH) < 0.3] = -100
    return target


def torchs_loss(linear, input, target):
    output = linear(input)
    output = output if isinstance(output, torch.Tensor) else output.data
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def results(loss, linear, x):
    grads = torch.autograd.grad(3 * loss, [x, *linear.parameters()])
    names = ["x", *(name for name, _ in linear.named_parameters())]
    return {"loss": loss.detach()} | dict(zip(names, grads, strict=True))


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("form", ["padded", "batch_first", "packed", "step"])
def test_loss_and_gradients_are_torchs(form, pattern, assert_same):
    linear = make_linear(pattern, batch_first=form == "batch_first", bias=form != "packed")
    x, target = torch.randn(STEPS, BATCH, IN, dtype=torch.float64), make_target()
    if form == "batch_first":
        x, target = x.transpose(0, 1), target.t()
    if form == "step":
        x, target = x[0], torch.tensor([1, -100, 0, 4])
    x.requires_grad_()
    packed = form == "packed"
    if packed:
        target = pack_padded_sequence(target, [2, 6, 1, 5], enforce_sorted=False).data
    found = []
    for run in (type(linear).cross_entropy, torchs_loss):
        input = pack_padded_sequence(x, [2, 6, 1, 5], enforce_sorted=False) if packed else x
        with sdrop.mask_key(0, 1), sdrop.sequence():
            found.append(results(run(linear, input, target), linear, x))
    assert_same(*found)
    assert found[0]["weight"].t().is_contiguous()


@pytest.mark.parametrize("rows_of_a_block", [1, 5, 24])
def test_blocks_of_rows_make_no_difference(rows_of_a_block, monkeypatch, assert_same):
    module = "sdrop.ops.linear_cross_entropy._BLOCK_ELEMENTS"
    monkeypatch.setattr(module, rows_of_a_block * CLASSES)
    linear, target = make_linear(None), make_target()
    x = torch.randn(STEPS, BATCH, IN, dtype=torch.float64, requires_grad=True)
    expected = results(torchs_loss(linear, x, target), linear, x)
    assert_same(results(linear.cross_entropy(x, target), linear, x), expected)


def test_first_and_second_derivatives_pass_gradcheck():
    linear = make_linear(DropoutPattern())
    x = torch.randn(2, 2, IN, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[1, 0], [-100, 3]])

    def call(x, weight, bias):
        with sdrop.mask_key(0, 1):
            mask = sdrop.functional.draw_mask(
                linear.pattern,
                0.5,
                torch.tensor(1),
                site=0,
                steps=2,
                batch=2,
                size=IN,
                dtype=x.dtype,
            )
            return sdrop.functional.linear_cross_entropy(x, weight, bias, target, mask)

    leaves = (x, linear.weight, linear.bias)
    assert torch.autograd.gradcheck(call, leaves)
    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)


def test_without_gradients_the_loss_is_the_same():
    linear, target = make_linear(None), make_target()
    x = torch.randn(STEPS, BATCH, IN, dtype=torch.float64)
    expected = torchs_loss(linear, x, target)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            torch.testing.assert_close(linear.cross_entropy(x, target), expected.detach())


def test_with_no_target_that_counts_the_loss_is_nan_and_the_gradients_are_0_as_torchs():
    linear = make_linear(None)
    x = torch.randn(STEPS, BATCH, IN, dtype=torch.float64, requires_grad=True)
    target = torch.full((STEPS, BATCH), -100)
    for run in (torchs_loss, type(linear).cross_entropy):
        found = results(run(linear, x, target), linear, x)
        assert found.pop("loss").isnan()
        assert all((grad == 0).all() for grad in found.values())


def test_an_empty_batch_is_no_error():
    loss = make_linear(None).cross_entropy(
        torch.zeros(3, 0, IN, dtype=torch.float64), torch.zeros(3, 0, dtype=torch.int64)
    )
    assert loss.isnan()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_the_loss_in_float32(dtype):
    linear, target = make_linear(None, dtype=torch.float32), make_target()
    x = torch.randn(STEPS, BATCH, IN)
    expected = torchs_loss(linear, x, target)
    with torch.autocast("cpu", dtype=dtype):
        loss = linear.cross_entropy(x, target)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=2e-2, atol=0.0)
    loss.backward()
    assert linear.weight.grad.dtype == torch.float32
    assert linear.weight.grad.t().is_contiguous()


TARGET = torch.zeros(STEPS, BATCH, dtype=torch.int64)


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ([1], TypeError, "expected a tensor of class ids, got list"),
        (TARGET.float(), ValueError, "expected class ids of torch.int64, got torch.float32"),
        (TARGET.int(), ValueError, "got torch.int32: use target.long()"),
        (TARGET.t(), RuntimeError, "expected a target of shape (6, 4), .* got (4, 6)"),
        (TARGET.to("meta"), RuntimeError, "the target is on meta, the input on cpu"),
        (TARGET + CLASSES, IndexError, "the target: expected class ids from 0 to 4, got 5"),
        (TARGET - 1, IndexError, "the target: expected class ids from 0 to 4, got -1"),
    ],
)
def test_a_wrong_target_is_named(target, error, words):
    pattern = ".*".join(re.escape(part) for part in words.split(".*"))
    linear = make_linear(None, dtype=torch.float32)
    with pytest.raises(error, match=pattern):
        linear.cross_entropy(torch.zeros(STEPS, BATCH, IN), target)
