"""Which mask of an LSTM is shared over what: batch, time, layers, directions, sites and calls."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

import sdrop
from sdrop import DropoutPattern
from sdrop.ops import choice
from sdrop.ops.masks import dense_mask

STEPS, BATCH, SIZE = 7, 3, 16
ALL_SITES = {"input_dropout": 0.5, "dropout": 0.5, "recurrent_dropout": 0.5}
FOUR_CASES = [
    DropoutPattern(space, time)
    for space in ("random", "structured")
    for time in ("varying", "constant")
]
PATTERNS = [
    *FOUR_CASES,
    DropoutPattern(time="varying", keep="bernoulli"),
    DropoutPattern(time="constant", keep="bernoulli"),
]
every_case = pytest.mark.parametrize("pattern", PATTERNS, ids=str)


def make_lstm(pattern, **options):
    arguments = ALL_SITES | {"num_layers": 2, "backend": "reference"} | options
    return sdrop.name_sites(sdrop.LSTM(SIZE, SIZE, pattern=pattern, **arguments))


@pytest.fixture
def masks_of(monkeypatch):
    """Runs an LSTM and returns what its op was given: a pair (input, hidden) of factors, each
    (1 or T, 1 or B, H), for each layer and direction."""

    def run(lstm, x=None, hx=None):
        seen = []

        def record(path, data, *arguments, input_mask, hidden_mask, **options):
            pair = (input_mask, data.shape[-1]), (hidden_mask, arguments[0].shape[-1])
            seen.append(tuple(dense_mask(mask, size, data.dtype) for mask, size in pair))
            options |= {"input_mask": input_mask, "hidden_mask": hidden_mask}
            return original(path, data, *arguments, **options)

        original = choice.lstm_by
        with monkeypatch.context() as patch:
            patch.setattr(choice, "lstm_by", record)
            lstm(torch.ones(STEPS, BATCH, SIZE) if x is None else x, hx)
        return seen

    return run


def differ(a, b):
    return not torch.equal(a.expand(STEPS, BATCH, SIZE), b.expand(STEPS, BATCH, SIZE))


@every_case
def test_structured_masks_are_shared_by_the_batch_and_random_ones_are_not(pattern, masks_of):
    for pair in masks_of(make_lstm(pattern)):
        for mask in pair:
            columns = mask.unbind(1)
            if pattern.space == "structured":
                assert len(columns) == 1
            else:
                assert len(columns) == BATCH
                assert differ(columns[0][:, None], columns[1][:, None])


@every_case
def test_constant_masks_are_shared_by_the_steps_and_varying_ones_are_not(pattern, masks_of):
    for pair in masks_of(make_lstm(pattern)):
        for mask in pair:
            if pattern.time == "constant":
                assert mask.shape[0] == 1
            else:
                assert mask.shape[0] == STEPS
                assert all(differ(mask[t], mask[t + 1]) for t in range(STEPS - 1))


@every_case
def test_layers_and_sites_have_masks_of_their_own(pattern, masks_of):
    masks = [mask for pair in masks_of(make_lstm(pattern)) for mask in pair]
    assert len(masks) == 4
    assert all(differ(a, b) for n, a in enumerate(masks) for b in masks[:n])


@every_case
def test_directions_share_the_input_mask_and_have_recurrent_masks_of_their_own(pattern, masks_of):
    forward_0, reverse_0, forward_1, reverse_1 = masks_of(make_lstm(pattern, bidirectional=True))
    for forward, reverse in ((forward_0, reverse_0), (forward_1, reverse_1)):
        assert torch.equal(forward[0], reverse[0])
        assert differ(forward[1], reverse[1])
    assert differ(forward_0[1], forward_1[1])
    assert differ(reverse_0[1], reverse_1[1])


@every_case
@pytest.mark.parametrize("lengths", [[7, 4, 1], [2, 7, 5]])
def test_packed_and_padded_sequences_draw_the_same(pattern, lengths):
    lstm = make_lstm(pattern, bidirectional=True)
    x = torch.randn(STEPS, BATCH, SIZE)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    with sdrop.mask_key(0, 0):
        together, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])
        for column, length in enumerate(lengths):
            cut = lstm(x[:length])[0][:, column]
            torch.testing.assert_close(together[:length, column], cut)


@every_case
def test_batch_first_and_time_first_draw_the_same(pattern):
    lstm = make_lstm(pattern)
    x = torch.randn(STEPS, BATCH, SIZE)
    with sdrop.mask_key(0, 0):
        expected = lstm(x)[0]
        lstm.batch_first = True
        assert torch.equal(lstm(x.transpose(0, 1))[0].transpose(0, 1), expected)


@every_case
def test_a_mask_changes_from_one_forward_call_to_the_next(pattern, masks_of):
    lstm = make_lstm(pattern)
    first, second = masks_of(lstm), masks_of(lstm)
    for a, b in zip(first, second, strict=True):
        assert differ(a[0], b[0])
        assert differ(a[1], b[1])


@every_case
@pytest.mark.parametrize("direction", [0, 1])
def test_h_0_is_dropped_like_any_other_hidden_state(pattern, direction, masks_of):
    lstm = make_lstm(pattern, num_layers=1, dropout=0.0, bidirectional=True)
    states = [torch.randn(2, BATCH, SIZE, requires_grad=True) for _ in range(2)]
    with sdrop.mask_key(0, 0):
        mask = masks_of(lstm, hx=states)[direction][1].expand(STEPS, BATCH, SIZE)
        last_h = lstm(torch.ones(STEPS, BATCH, SIZE), states)[1][0]
    last_h[direction].sum().backward()
    first_step = STEPS - 1 if direction else 0
    assert torch.equal(states[0].grad[direction] == 0, mask[first_step] == 0)
    assert (states[1].grad[direction] != 0).all()


def test_the_cell_state_and_the_emitted_output_stay_whole():
    lstm = make_lstm(DropoutPattern(), num_layers=1, dropout=0.0)
    output, (h_n, c_n) = lstm(torch.randn(STEPS, BATCH, SIZE))
    assert (output != 0).all()
    assert (c_n != 0).all()
    assert torch.equal(output[-1], h_n[0])


def test_with_a_projection_the_recurrent_site_has_proj_size_neurons(masks_of):
    masks = masks_of(make_lstm(DropoutPattern(), proj_size=6))
    assert [hidden.shape[2] for _, hidden in masks] == [6, 6]
    assert [(hidden != 0).sum(2).unique().tolist() for _, hidden in masks] == [[3], [3]]
    assert [inputs.shape[2] for inputs, _ in masks] == [SIZE, 6]


@pytest.mark.parametrize("time", ["varying", "constant"])
@pytest.mark.parametrize(("rate", "kept"), [(0.5, 8), (0.1, 14), (0.9, 2), (0.99, 1)])
def test_a_counted_pattern_keeps_exactly_k_neurons_scaled_by_size_over_k(
    time, rate, kept, masks_of
):
    lstm = make_lstm(DropoutPattern(time=time), input_dropout=rate, recurrent_dropout=rate)
    for mask in masks_of(lstm)[0]:
        assert ((mask != 0).sum(2) == kept).all()
        assert torch.equal(mask[mask != 0].unique(), torch.tensor([SIZE / kept]))


def test_evaluation_drops_nothing_and_leaves_the_generator_alone():
    lstm = make_lstm(DropoutPattern()).eval()
    plain = nn.LSTM(SIZE, SIZE, 2)
    plain.load_state_dict(lstm.state_dict())
    x, state = torch.randn(STEPS, BATCH, SIZE), torch.get_rng_state()
    torch.testing.assert_close(lstm(x)[0], plain(x)[0])
    assert torch.equal(torch.get_rng_state(), state)


@every_case
def test_manual_seed_and_fork_rng_bring_the_same_masks_back(pattern):
    lstm, x = make_lstm(pattern), torch.ones(STEPS, BATCH, SIZE)
    torch.manual_seed(4)
    first = lstm(x)[0]
    second = lstm(x)[0]
    torch.manual_seed(4)
    with torch.random.fork_rng():
        assert torch.equal(lstm(x)[0], first)
        lstm(x)
    assert torch.equal(lstm(x)[0], first)
    assert torch.equal(lstm(x)[0], second)
    assert not torch.equal(first, second)


@every_case
@pytest.mark.parametrize("keyed", [False, True])
def test_recomputed_activations_have_the_masks_of_the_first_pass(pattern, keyed):
    grads = []
    for recompute in (False, True):
        torch.manual_seed(2)
        lstm = make_lstm(pattern)
        x = torch.randn(STEPS, BATCH, SIZE, requires_grad=True)
        torch.manual_seed(3)

        def step(lstm=lstm, x=x, recompute=recompute):
            run = checkpoint(lstm, x, use_reentrant=False) if recompute else lstm(x)
            run[0].square().sum().backward()

        if keyed:
            with sdrop.mask_key(1, 2):
                step()
        else:
            step()
        grads.append([x.grad, *(p.grad for p in lstm.parameters())])
    for expected, ours in zip(*grads, strict=True):
        assert torch.equal(ours, expected)


class TwoLayers(nn.Module):
    def __init__(self, pattern):
        super().__init__()
        self.first = make_lstm(pattern)
        self.second = make_lstm(pattern)
        self.second.load_state_dict(self.first.state_dict())


@every_case
def test_two_modules_of_a_model_draw_different_masks_whatever_the_order(pattern):
    model, x = sdrop.name_sites(TwoLayers(pattern)), torch.ones(STEPS, BATCH, SIZE)
    with sdrop.mask_key(5, 6):
        first, second = model.first(x)[0], model.second(x)[0]
        again = model.second(x)[0]
    assert not torch.equal(first, second)
    with sdrop.mask_key(5, 6):
        assert torch.equal(model.second(x)[0], second)
        assert torch.equal(model.first(x)[0], first)
    assert torch.equal(again, second)


@pytest.mark.parametrize("other", [(5, 7, 0), (6, 6, 0), (5, 6, 1)], ids=["step", "seed", "rank"])
def test_each_part_of_the_explicit_key_changes_the_masks(other, masks_of):
    lstm = make_lstm(DropoutPattern())
    seed, step, rank = other
    with sdrop.mask_key(5, 6):
        first = masks_of(lstm)
    with sdrop.mask_key(seed, step, rank=rank):
        second = masks_of(lstm)
    for a, b in zip(first, second, strict=True):
        assert differ(a[0], b[0])
        assert differ(a[1], b[1])
