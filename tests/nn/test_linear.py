"""`sdrop.Linear` against `torch.nn.Linear`, and its dropout against a plain masked product."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import sdrop
from sdrop import DropoutPattern
from sdrop.keys import call_key
from sdrop.ops.masks import draw_mask

STEPS, BATCH, IN, OUT = 6, 4, 8, 5
LENGTHS = [2, 6, 1, 5]
PATTERNS = [
    DropoutPattern("random", "varying"),
    DropoutPattern("random", "constant"),
    DropoutPattern("structured", "varying"),
    DropoutPattern("structured", "constant"),
    DropoutPattern("structured", "varying", "bernoulli"),
    DropoutPattern("structured", "constant", "bernoulli"),
]
every_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=str)


def make_linear(pattern, **options):
    arguments = {"dropout": 0.5, "pattern": pattern, "dtype": torch.float64} | options
    return sdrop.name_sites(sdrop.Linear(IN, OUT, **arguments))


def run(module, x, call):
    x = x.clone().requires_grad_()
    output = call(x)
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(output.shape, generator=generator, dtype=output.dtype)
    grads = torch.autograd.grad((weights * output).sum(), [x, *module.parameters()])
    names = ["x", *(name for name, _ in module.named_parameters())]
    return {"output": output.detach()} | dict(zip(names, grads, strict=True))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(), (4,), (6, 4), (2, 6, 4), (0, 4)], ids=str)
def test_without_dropout_it_gives_torchs_results_and_gradients(shape, bias, assert_same):
    modules = []
    for make in (nn.Linear, sdrop.Linear):
        torch.manual_seed(1)
        modules.append(make(IN, OUT, bias=bias, dtype=torch.float64))
    theirs, ours = modules
    x = torch.randn(*shape, IN, dtype=torch.float64)
    assert_same(run(ours, x, ours), run(theirs, x, theirs))
    ours.dropout = 0.5
    assert_same(run(ours, x, ours.eval()), run(theirs, x, theirs))


def test_weights_load_both_ways_bit_by_bit():
    theirs, ours = nn.Linear(IN, OUT), sdrop.Linear(IN, OUT)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    back = nn.Linear(IN, OUT)
    back.load_state_dict(ours.state_dict(), strict=True)
    assert torch.equal(back.weight, theirs.weight)
    assert torch.equal(back.bias, theirs.bias)


def factor(linear):
    """What each input is multiplied by: (T, B, IN)."""
    shape = {"steps": STEPS, "batch": BATCH, "size": IN, "dtype": torch.float64}
    key = call_key(linear, torch.device("cpu"))
    mask = draw_mask(linear.pattern, linear.dropout, key, site=0, **shape)
    if mask.kept is None:
        return mask.mask.expand(STEPS, BATCH, IN)
    dense = torch.zeros(STEPS, BATCH, IN, dtype=torch.float64)
    for t in range(STEPS):
        dense[t][:, mask.kept[t if len(mask.kept) > 1 else 0]] = mask.scale
    return dense


@every_pattern
@pytest.mark.parametrize("form", ["padded", "batch_first", "packed"])
@pytest.mark.parametrize("bias", [True, False])
def test_dropout_equals_a_plain_masked_product(bias, form, pattern, assert_same):
    linear = make_linear(pattern, bias=bias, batch_first=form == "batch_first")
    x = torch.randn(STEPS, BATCH, IN, dtype=torch.float64)

    def ours(x):
        if form == "packed":
            packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
            return pad_packed_sequence(linear(packed))[0]
        if form == "batch_first":
            return linear(x.transpose(0, 1)).transpose(0, 1)
        return linear(x)

    def plain(x):
        output = nn.functional.linear(x * factor(linear), linear.weight, linear.bias)
        if form != "packed":
            return output
        reached = torch.arange(STEPS)[:, None] < torch.tensor(LENGTHS)
        return output * reached[..., None]

    with sdrop.mask_key(1, 2):
        assert_same(run(linear, x, ours), run(linear, x, plain))


@every_pattern
def test_step_by_step_in_a_sequence_equals_the_whole_sequence(pattern):
    linear = make_linear(pattern)
    x = torch.randn(STEPS, BATCH, IN, dtype=torch.float64)
    with sdrop.mask_key(1, 2):
        expected = linear(x)
        with sdrop.sequence():
            steps = torch.stack([linear(x_t) for x_t in x])
    torch.testing.assert_close(steps, expected, rtol=1e-12, atol=1e-14)


@every_pattern
def test_gradients_pass_gradcheck(pattern):
    linear = make_linear(pattern)
    x = torch.randn(2, 2, IN, dtype=torch.float64, requires_grad=True)

    def call(x, weight, bias):
        with sdrop.mask_key(0, 1):
            values = {"weight": weight, "bias": bias}
            return torch.func.functional_call(linear, values, (x,))

    leaves = (x, linear.weight, linear.bias)
    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)


@pytest.mark.parametrize("frozen", ["weight", "bias", "x"])
def test_a_frozen_tensor_gets_no_gradient_and_the_others_theirs(frozen):
    linear = make_linear(PATTERNS[3])
    leaves = {"x": torch.randn(3, 2, IN, dtype=torch.float64, requires_grad=True)}
    leaves |= dict(linear.named_parameters())
    with sdrop.mask_key(0, 0):
        linear(leaves["x"]).square().sum().backward()
    expected = {name: leaf.grad for name, leaf in leaves.items()}
    for leaf in leaves.values():
        leaf.grad = None
    leaves[frozen].requires_grad_(False)
    with sdrop.mask_key(0, 0):
        linear(leaves["x"]).square().sum().backward()
    for name, leaf in leaves.items():
        assert leaf.grad is None if name == frozen else torch.equal(leaf.grad, expected[name])


def test_what_is_printed_tells_which_axis_is_time():
    assert "batch_first" not in repr(sdrop.Linear(3, 4))
    assert repr(sdrop.Linear(3, 4, batch_first=True)).endswith(", batch_first=True)")
