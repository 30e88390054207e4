"""`sdrop.LSTMCell` against `torch.nn.LSTMCell`, and its masks against those of `sdrop.LSTM`."""

import pytest
import torch
from torch import nn

import sdrop
from sdrop import DropoutPattern

PATTERNS = [
    DropoutPattern(space, time)
    for space in ("random", "structured")
    for time in ("varying", "constant")
]
RATES = {"input_dropout": 0.5, "recurrent_dropout": 0.5}
STEPS, BATCH = 6, 3


def run_cell(cell, x, hx):
    """h, c and all gradients."""
    leaves = [t.clone().requires_grad_() for t in (x, *(hx or ()))]
    h, c = cell(leaves[0], tuple(leaves[1:]) if hx else None)
    loss = (h * torch.linspace(1, 2, h.numel()).view_as(h)).sum() + c.square().sum()
    names = ["x", "h", "c"][: len(leaves)] + [name for name, _ in cell.named_parameters()]
    grads = torch.autograd.grad(loss, [*leaves, *cell.parameters()])
    results = {"next h": h.detach(), "next c": c.detach()}
    return results | {f"grad {n}": grad for n, grad in zip(names, grads, strict=True)}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("with_state", [True, False])
@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 3), (0, 3)], ids=str)
def test_a_cell_gives_torchs_results_and_gradients(shape, with_state, bias, training, assert_same):
    cells = []
    for make in (nn.LSTMCell, sdrop.LSTMCell):
        torch.manual_seed(1)
        cells.append(make(3, 17, bias=bias, dtype=torch.float64).train(training))
    theirs, ours = cells
    x = torch.randn(shape, dtype=torch.float64)
    state = torch.randn(2, *shape[:-1], 17, dtype=torch.float64)
    hx = tuple(state) if with_state else None
    assert_same(run_cell(ours, x, hx), run_cell(theirs, x, hx))


def test_an_evaluated_cell_with_dropout_gives_torchs_results(assert_same):
    theirs, ours = nn.LSTMCell(3, 4).double(), sdrop.LSTMCell(3, 4, **RATES).double().eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    x = torch.randn(2, 3, dtype=torch.float64)
    assert_same(run_cell(ours, x, None), run_cell(theirs, x, None))


class Holder(nn.Module):
    """Gives a cell and an LSTM the same name, so that both draw the same keys."""

    def __init__(self, child):
        super().__init__()
        self.child = child
        sdrop.name_sites(self)


def cell_and_lstm(pattern):
    lstm = sdrop.LSTM(5, 6, pattern=pattern, dtype=torch.float64, **RATES)
    cell = sdrop.LSTMCell(5, 6, pattern=pattern, dtype=torch.float64, **RATES)
    state = {name.removesuffix("_l0"): value for name, value in lstm.state_dict().items()}
    cell.load_state_dict(state)
    return Holder(cell).child, Holder(lstm).child


def step_by_step(cell, x, h=None):
    outputs = []
    for x_t in x:
        h = cell(x_t, h)
        outputs.append(h[0])
    return torch.stack(outputs), h


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_cell_in_a_sequence_drops_what_an_lstm_drops(pattern):
    cell, lstm = cell_and_lstm(pattern)
    x = torch.randn(STEPS, BATCH, 5, dtype=torch.float64)
    h_0, c_0 = torch.randn(2, 1, BATCH, 6, dtype=torch.float64)
    with sdrop.mask_key(3, 4):
        expected, (h_n, c_n) = lstm(x, (h_0, c_0))
        for _ in range(2):  # each sequence starts again at t = 0
            with sdrop.sequence():
                output, (h, c) = step_by_step(cell, x, (h_0[0], c_0[0]))
            torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(h, h_n[0], rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(c, c_n[0], rtol=1e-12, atol=1e-14)


def dropped_inputs(cell, steps=8):
    """Which of 16 inputs had no effect, at each of a few calls of a cell: (steps, 16) bool."""
    rows = []
    for _ in range(steps):
        x = torch.ones(1, 16, requires_grad=True)
        cell(x)[0].sum().backward()
        rows.append(x.grad[0] == 0)
    return torch.stack(rows)


def test_a_varying_pattern_draws_at_each_call_inside_and_outside_a_sequence():
    cell = sdrop.LSTMCell(16, 4, input_dropout=0.5)
    outside = dropped_inputs(cell)
    with sdrop.sequence():
        inside = dropped_inputs(cell)
    for rows in (outside, inside):
        assert len(rows.unique(dim=0)) > 1
        assert (rows.sum(1) == 8).all()


def test_a_constant_pattern_keeps_its_mask_for_one_sequence():
    cell = sdrop.LSTMCell(16, 4, input_dropout=0.5, pattern=DropoutPattern(time="constant"))
    drawn = []
    for _ in range(8):
        with sdrop.sequence():
            rows = dropped_inputs(cell)
        assert len(rows.unique(dim=0)) == 1
        drawn.append(rows[0])
    assert len(torch.stack(drawn).unique(dim=0)) > 1


def test_cells_in_one_sequence_count_their_own_calls_and_draw_their_own_masks():
    first = sdrop.LSTMCell(16, 4, input_dropout=0.5)
    second = sdrop.LSTMCell(16, 4, input_dropout=0.5)
    second.load_state_dict(first.state_dict())
    sdrop.name_sites(nn.ModuleList([first, second]))
    with sdrop.mask_key(0, 0):
        with sdrop.sequence():
            alone = dropped_inputs(first)
        with sdrop.sequence():
            mixed, others = [], []
            for _ in range(8):
                others.append(dropped_inputs(second, 1))
                mixed.append(dropped_inputs(first, 1))
    assert torch.equal(torch.cat(mixed), alone)
    assert not torch.equal(torch.cat(others), alone)


def test_recomputation_of_a_cell_needs_the_sequence_inside():
    cell = sdrop.LSTMCell(5, 6, **RATES)
    grads = []
    for recompute in (False, True):

        def loop(x):
            with sdrop.sequence():
                return step_by_step(cell, x)[0]

        torch.manual_seed(3)
        x = torch.ones(STEPS, BATCH, 5, requires_grad=True)
        run = torch.utils.checkpoint.checkpoint if recompute else lambda f, x, **_: f(x)
        run(loop, x, use_reentrant=False).square().sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


def test_second_derivatives_of_a_cell_pass_gradgradcheck():
    cell, _ = cell_and_lstm(DropoutPattern())
    leaves = [torch.randn(2, n, dtype=torch.float64, requires_grad=True) for n in (5, 6, 6)]

    def call(x, h, c):
        with sdrop.mask_key(0, 1):
            return cell(x, (h, c))

    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)
