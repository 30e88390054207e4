"""The packed LSTM op against the equations and `torch.nn.LSTM`, values and all gradients."""

import itertools

import pytest
import torch

from sdrop import DropoutPattern, functional
from sdrop.ops.lstm import lstm, lstm_equations
from sdrop.ops.masks import KEEP_ALL, Mask, draw_mask

F64 = torch.float64
PATTERNS = [
    DropoutPattern(space, time, keep)
    for space in ("structured", "random")
    for time in ("varying", "constant")
    for keep in (("count", "bernoulli") if space == "structured" else ("count",))
]
NAMES = ("input", "h_0", "c_0", "weight_ih", "weight_hh", "bias", "weight_hr")


def error(a, b):
    assert not a.isnan().any()
    return ((a - b).abs().max() / b.abs().max()).item()


def problem(T, B, inputs, H, proj=0, packed=False):
    """Fresh random arguments, and the batch sizes of sequences whose lengths fall."""
    out = proj or H
    sizes = torch.tensor([max(1, B - t // 2) for t in range(T)]) if packed else None
    leading = (int(sizes.sum()),) if packed else (T, B)
    shapes = [(*leading, inputs), (B, out), (B, H), (4 * H, inputs), (4 * H, out), (4 * H,)]
    arguments = [torch.randn(shape, dtype=F64) for shape in shapes]
    arguments.append(torch.randn(proj, H, dtype=F64) if proj else None)
    return arguments, sizes


def masks(pattern, T, B, inputs, out):
    key = torch.randint(0, 2**60, ())

    def draw(site, size, rate):
        return draw_mask(pattern, rate, key, site=site, steps=T, batch=B, size=size, dtype=F64)

    return draw(0, inputs, 0.5), draw(1, out, 0.4)


def run(function, arguments, loss_weights, **options):
    """Outputs and the gradient of every argument."""
    leaves = [None if a is None else a.clone().requires_grad_() for a in arguments]
    outputs = function(*leaves, **options)
    sum((o * w).sum() for o, w in zip(outputs, loss_weights, strict=True)).backward()
    grads = {n: a.grad for n, a in zip(NAMES, leaves, strict=True) if a is not None}
    return outputs, grads


def assert_same(arguments, T, B, tolerance=1e-12, **options):
    with torch.no_grad():
        like = lstm_equations(*arguments, **options)
    loss_weights = [torch.randn_like(o) for o in like]
    ours, our_grads = run(lstm, arguments, loss_weights, **options)
    theirs, their_grads = run(lstm_equations, arguments, loss_weights, **options)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert error(a, b) <= tolerance
    for name, grad in their_grads.items():
        assert error(our_grads[name], grad) <= tolerance, name


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("sites", ["input", "hidden", "both"])
def test_the_op_is_the_equations_for_each_case_and_site(pattern, sites):
    for packed, reverse, proj in itertools.product((False, True), (False, True), (0, 3)):
        T, B, inputs, H = 7, 3, 6, 5
        arguments, sizes = problem(T, B, inputs, H, proj, packed)
        input_mask, hidden_mask = masks(pattern, T, B, inputs, proj or H)
        assert_same(
            arguments,
            T,
            B,
            input_mask=input_mask if sites != "hidden" else KEEP_ALL,
            hidden_mask=hidden_mask if sites != "input" else KEEP_ALL,
            batch_sizes=sizes,
            reverse=reverse,
        )


@pytest.mark.parametrize(
    ("T", "B", "inputs", "H"), [(1, 1, 1, 1), (63, 1, 17, 1), (7, 20, 1, 17), (1, 3, 100, 31)]
)
def test_the_op_is_the_equations_at_odd_sizes(T, B, inputs, H):
    for pattern in (DropoutPattern(), DropoutPattern(time="constant")):
        arguments, _ = problem(T, B, inputs, H)
        input_mask, hidden_mask = masks(pattern, T, B, inputs, H)
        assert_same(arguments, T, B, input_mask=input_mask, hidden_mask=hidden_mask)


@pytest.mark.parametrize("constant", [False, True])
def test_explicit_full_kept_sets_give_torchs_lstm(constant):
    T, B, inputs, H = 9, 4, 6, 7
    (x, h_0, c_0, w_ih, w_hh, bias, _), _ = problem(T, B, inputs, H)
    reference = torch.nn.LSTM(inputs, H, dtype=F64)
    with torch.no_grad():
        reference.weight_ih_l0.copy_(w_ih)
        reference.weight_hh_l0.copy_(w_hh)
        reference.bias_ih_l0.copy_(bias)
        reference.bias_hh_l0.zero_()
    rows = 1 if constant else T
    everything = [Mask(kept=torch.arange(n).expand(rows, n).contiguous()) for n in (inputs, H)]
    ours = [a.clone().requires_grad_() for a in (x, h_0, c_0, w_ih, w_hh, bias)]
    output, (h_n, c_n) = functional.lstm(
        ours[0],
        (ours[1], ours[2]),
        *ours[3:],
        input_mask=everything[0],
        hidden_mask=everything[1],
    )
    theirs = [a.clone().requires_grad_() for a in (x, h_0, c_0)]
    expected, (h, c) = reference(theirs[0], (theirs[1][None], theirs[2][None]))
    seeds = [torch.randn_like(t) for t in (output, h_n, c_n)]
    torch.autograd.backward((output, h_n, c_n), seeds)
    torch.autograd.backward((expected, h, c), (seeds[0], seeds[1][None], seeds[2][None]))
    pairs = [(output, expected), (h_n, h[0]), (c_n, c[0])]
    pairs += [(a.grad, b.grad) for a, b in zip(ours[:3], theirs, strict=True)]
    pairs += [(ours[3].grad, reference.weight_ih_l0.grad)]
    pairs += [(ours[4].grad, reference.weight_hh_l0.grad)]
    pairs += [(ours[5].grad, reference.bias_ih_l0.grad)]
    for mine, torchs in pairs:
        assert error(mine, torchs) <= 1e-12


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_gradcheck_and_its_second_order(pattern):
    for packed, proj in ((False, 0), (True, 2)):
        T, B, inputs, H = 3, 2, 3, 3
        arguments, sizes = problem(T, B, inputs, H, proj, packed)
        input_mask, hidden_mask = masks(pattern, T, B, inputs, proj or H)
        leaves = [None if a is None else a.mul(0.5).requires_grad_() for a in arguments]

        def call(*values, input_mask=input_mask, hidden_mask=hidden_mask, sizes=sizes):
            return lstm(*values, input_mask=input_mask, hidden_mask=hidden_mask, batch_sizes=sizes)

        assert torch.autograd.gradcheck(call, leaves, fast_mode=True)
        assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)


def test_dropped_neurons_have_gradients_of_exactly_zero():
    (x, h_0, c_0, w_ih, w_hh, bias, _), _ = problem(5, 3, 8, 6)
    kept = Mask(kept=torch.tensor([[1, 4, 5]]), scale=8 / 3)
    leaves = [a.requires_grad_() for a in (x, w_ih)]
    lstm(x, h_0, c_0, w_ih, w_hh, bias, input_mask=kept, hidden_mask=KEEP_ALL)[0].sum().backward()
    dropped = [0, 2, 3, 6, 7]
    assert (leaves[0].grad[..., dropped] == 0).all()
    assert (leaves[1].grad[:, dropped] == 0).all()
    assert (leaves[1].grad[:, [1, 4, 5]] != 0).any()


def test_only_the_gradients_that_are_asked_for_are_returned():
    (x, h_0, c_0, w_ih, w_hh, bias, _), _ = problem(5, 3, 8, 6)
    w_hh.requires_grad_()
    lstm(x, h_0, c_0, w_ih, w_hh, bias, input_mask=KEEP_ALL, hidden_mask=KEEP_ALL)[
        0
    ].sum().backward()
    assert w_hh.grad is not None
    assert x.grad is w_ih.grad is None


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (Mask(kept=torch.arange(4)), r"input_mask\.kept: expected \(1 or 5, at most 8\) indices"),
        (Mask(kept=torch.zeros(3, 4, dtype=torch.int64)), r"got shape \(3, 4\)"),
        (Mask(kept=torch.zeros(5, 9, dtype=torch.int64)), r"got shape \(5, 9\)"),
        (
            Mask(kept=torch.zeros(5, 4, dtype=torch.int32)),
            r"expected torch\.int64, got torch\.int32",
        ),
        (Mask(mask=torch.ones(5, 2, 8)), r"input_mask\.mask: expected \(1 or 5, 1 or 3, 8\)"),
        (Mask(torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1, 8)), "got both"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask, message):
    (x, h_0, c_0, w_ih, w_hh, bias, _), _ = problem(5, 3, 8, 6)
    with pytest.raises(ValueError, match=message):
        functional.lstm(x, (h_0, c_0), w_ih, w_hh, bias, input_mask=mask)
