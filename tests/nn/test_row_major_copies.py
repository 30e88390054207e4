"""Row-major copies of weights are those of the weights as they are now."""

import copy
import gc
import pickle

import pytest
import torch

import sdrop
from sdrop.nn import row_major_copies
from sdrop.nn.row_major_copies import forget_row_major, kept_row_major


@pytest.fixture
def weight():
    return sdrop.LSTM(5, 7).weight_ih_l0


def is_right(weight):
    found = kept_row_major(weight)
    return found.is_contiguous() and torch.equal(found, weight.detach())


def test_a_copy_is_kept_while_the_weight_stays(weight):
    first = kept_row_major(weight)
    assert is_right(weight)
    assert kept_row_major(weight) is first
    assert not first.requires_grad


def written(weight):
    with torch.no_grad():
        weight[3, 2] = 9.0


def written_through_data(weight):
    weight.data[:, 1] = 9.0


def unit_written_through_data(weight):
    weight.data[4] = 9.0


def element_written_through_data(weight):
    weight.data[0, 0] += 1e-6


def written_from_numpy(weight):
    weight.detach().numpy()[1, 4] = 9.0


def block_written_through_data(weight):
    weight.data[:7, :2] = 0.0


def gates_swapped_through_data(weight):
    weight.data.copy_(weight.data.view(4, 7, 5)[[0, 1, 3, 2]].reshape(28, 5))


def inputs_swapped_through_data(weight):
    weight.data.copy_(weight.data[:, [1, 0, 2, 3, 4]])


def averaged_through_data(weight):
    weight.data.copy_(weight.data * 0.5)


def replaced(weight):
    weight.data = torch.randn_like(weight)


@pytest.mark.parametrize(
    "change",
    [
        written,
        written_through_data,
        unit_written_through_data,
        element_written_through_data,
        written_from_numpy,
        block_written_through_data,
        gates_swapped_through_data,
        inputs_swapped_through_data,
        averaged_through_data,
        replaced,
    ],
)
def test_a_changed_weight_is_copied_again(weight, change):
    kept_row_major(weight)
    change(weight)
    assert is_right(weight)


def test_a_step_of_an_optimizer_is_a_change(weight):
    kept_row_major(weight)
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], lr=1.0).step()
    assert is_right(weight)


def test_no_copy_outlives_its_weight_or_travels_with_its_module():
    lstm = sdrop.LSTM(5, 7)
    before = len(row_major_copies._copies)
    size = len(pickle.dumps(lstm))
    kept_row_major(lstm.weight_hh_l0)
    assert len(row_major_copies._copies) == before + 1
    assert len(pickle.dumps(lstm)) == size
    assert copy.deepcopy(lstm).weight_hh_l0 not in row_major_copies._copies
    del lstm
    gc.collect()
    assert len(row_major_copies._copies) == before


def test_training_forgets_the_copies():
    lstm = sdrop.LSTM(5, 7)
    before = len(row_major_copies._copies)
    for weight in (lstm.weight_ih_l0, lstm.weight_hh_l0):
        kept_row_major(weight)
    lstm(torch.randn(3, 2, 5))
    assert len(row_major_copies._copies) == before
    forget_row_major(lstm.weight_ih_l0)


def test_weights_without_a_version_are_copied_each_time():
    with torch.inference_mode():
        lstm = sdrop.LSTM(5, 7)
        assert is_right(lstm.weight_ih_l0)
        lstm.weight_ih_l0[0, 0] = 9.0
        assert is_right(lstm.weight_ih_l0)
    assert lstm.weight_ih_l0 not in row_major_copies._copies


def test_evaluation_of_middle_sizes_follows_training(monkeypatch):
    monkeypatch.setattr("sdrop.ops.paths._known", {})
    monkeypatch.setattr("sdrop.ops.paths.MIDDLE_SIZES", range(1, 8))
    theirs, ours = torch.nn.LSTM(5, 7, bidirectional=True), sdrop.LSTM(5, 7, bidirectional=True)
    x = torch.randn(32, 4, 5)
    for _ in range(3):
        ours.load_state_dict(theirs.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(ours(x)[0], theirs(x)[0])
            assert ours.weight_hh_l0 in row_major_copies._copies
        torch.nn.init.normal_(theirs.weight_hh_l0)
