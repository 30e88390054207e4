"""`sdrop.Dropout`: each axis of its masks, seen on an input of ones."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import sdrop
from sdrop import DropoutPattern

STEPS, BATCH, SIZE = 9, 4, 32
PATTERNS = [
    DropoutPattern(space, time, keep)
    for space in ("random", "structured")
    for time in ("varying", "constant")
    for keep in ("count", "bernoulli")
]
every_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
ONES = torch.ones(STEPS, BATCH, SIZE)


def make_dropout(pattern, p=0.5, **options):
    return sdrop.name_sites(sdrop.Dropout(p, pattern, **options))


def all_equal(rows):
    return all(torch.equal(row, rows[0]) for row in rows)


@every_pattern
def test_the_axes_of_a_mask_are_those_of_its_pattern(pattern):
    dropped = make_dropout(pattern)(ONES)
    assert all_equal(dropped.unbind(0)) == (pattern.time == "constant")
    assert all_equal(dropped.unbind(1)) == (pattern.space == "structured")
    if pattern.counts:
        assert ((dropped != 0).sum(2) == SIZE // 2).all()
    else:
        assert not all_equal((dropped != 0).sum(2).flatten()) or pattern.time == "constant"
    assert dropped.unique().tolist() == [0, 2]


@pytest.mark.parametrize("p", [0.1, 0.25, 0.9])
def test_a_random_pattern_is_scaled_by_the_rate_and_a_counted_one_by_the_count(p):
    random = make_dropout(DropoutPattern("random"), p)(ONES)
    assert random.max() == pytest.approx(1 / (1 - p))
    counted = make_dropout(DropoutPattern(), p)(ONES)
    assert counted.sum(2).flatten().tolist() == pytest.approx([SIZE] * STEPS * BATCH)


@every_pattern
def test_each_form_of_a_sequence_draws_the_same(pattern):
    dropout = make_dropout(pattern)
    with sdrop.mask_key(0, 3):
        expected = dropout(ONES)
        packed = dropout(pack_padded_sequence(ONES, [3, 9, 1, 5], enforce_sorted=False))
        with sdrop.sequence():
            steps = torch.stack([dropout(step) for step in ONES])
        first = make_dropout(pattern, batch_first=True)(ONES.transpose(0, 1))
    assert isinstance(packed, PackedSequence)
    padded, lengths = pad_packed_sequence(packed)
    for column, length in enumerate(lengths):
        assert torch.equal(padded[:length, column], expected[:length, column])
        assert (padded[length:, column] == 0).all()
    assert torch.equal(steps, expected)
    assert torch.equal(first.transpose(0, 1), expected)


@every_pattern
def test_the_gradient_is_dropped_like_the_input(pattern):
    x = torch.randn(STEPS, BATCH, SIZE, requires_grad=True)
    dropout = make_dropout(pattern)
    with sdrop.mask_key(0, 3):
        dropout(x).sum().backward()
        assert torch.equal(x.grad, dropout(ONES))


def test_evaluation_and_rate_0_return_the_input_itself_and_draw_nothing():
    state = torch.get_rng_state()
    assert make_dropout(DropoutPattern()).eval()(ONES) is ONES
    assert make_dropout(DropoutPattern(), 0.0)(ONES) is ONES
    assert torch.equal(torch.get_rng_state(), state)


def test_one_step_outside_a_sequence_draws_at_each_call():
    dropout = make_dropout(DropoutPattern())
    assert not all_equal([dropout(ONES[0]) for _ in range(4)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_the_dtype_of_the_input_is_kept(dtype):
    for pattern in PATTERNS:
        assert make_dropout(pattern)(ONES.to(dtype)).dtype == dtype
