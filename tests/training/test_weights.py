"""Weights in safetensors: contiguous, unshared; loading keeps strides and ties."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import sdrop
from sdrop.models import LanguageModel
from sdrop.training import CheckpointError
from sdrop.training.weights import read_weights, save_weights


def language_model(seed=0, hidden_size=8, tied=True, **options):
    torch.manual_seed(seed)
    return LanguageModel(
        11,
        embedding_dim=8,
        hidden_size=hidden_size,
        tie_weights=tied,
        **options,
    )


def test_weights_are_stored_contiguous_once_and_under_the_first_name(tmp_path):
    model = language_model()
    save_weights(model, tmp_path / "model.safetensors")
    stored = load_file(tmp_path / "model.safetensors")
    assert set(stored) == set(model.state_dict()) - {"decoder.weight"}
    assert all(tensor.is_contiguous() for tensor in stored.values())
    assert not model.lstm.weight_hh_l0.is_contiguous()
    assert torch.equal(stored["lstm.weight_hh_l0"], model.lstm.weight_hh_l0)


def test_loading_copies_into_the_parameters_and_keeps_strides_and_ties(tmp_path):
    saved, model = language_model(seed=0), language_model(seed=1)
    before = dict(model.named_parameters())
    strides = {name: parameter.stride() for name, parameter in before.items()}
    save_weights(saved, tmp_path / "model.safetensors")
    read_weights(model, tmp_path / "model.safetensors")
    for name, parameter in model.named_parameters():
        assert parameter is before[name]
        assert parameter.stride() == strides[name]
        assert torch.equal(parameter, saved.get_parameter(name))
    assert model.decoder.weight is model.embedding.weight


def test_untied_weights_that_are_equal_stay_two(tmp_path):
    model = language_model(tied=False)
    with torch.no_grad():
        model.decoder.weight.copy_(model.embedding.weight)
    save_weights(model, tmp_path / "model.safetensors")
    assert "decoder.weight" in load_file(tmp_path / "model.safetensors")


def test_buffers_are_stored_too(tmp_path):
    model = nn.BatchNorm1d(3)
    model(torch.randn(4, 3))
    save_weights(model, tmp_path / "model.safetensors")
    loaded = nn.BatchNorm1d(3)
    read_weights(loaded, tmp_path / "model.safetensors")
    assert torch.equal(loaded.running_mean, model.running_mean)
    assert loaded.num_batches_tracked == 1


def test_an_lstm_of_torch_loads_ours_and_the_other_way_round(tmp_path):
    ours, theirs = sdrop.LSTM(3, 4, 2), nn.LSTM(3, 4, 2)
    save_weights(ours, tmp_path / "ours.safetensors")
    read_weights(theirs, tmp_path / "ours.safetensors")
    save_weights(theirs, tmp_path / "theirs.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (
        tmp_path / "theirs.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"hidden_size": 9, "tied": False},
            r"lstm.bias_hh_l0: \(32,\) in the checkpoint, \(36,\) in this model",
        ),
        ({"num_layers": 3}, "lstm.bias_hh_l2: not in the checkpoint"),
        ({"num_layers": 1}, "lstm.bias_hh_l1: not in this model"),
        ({"tied": False}, "decoder.weight: tied to embedding.weight in the checkpoint"),
    ],
)
def test_another_model_is_refused_in_a_screen_and_left_untouched(other, told, tmp_path):
    save_weights(language_model(), tmp_path / "model.safetensors")
    model = language_model(seed=1, **other)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=told) as caught:
        read_weights(model, tmp_path / "model.safetensors")
    assert "Build the model with the options" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 12
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_missing_and_a_damaged_file_are_told_by_name(tmp_path):
    with pytest.raises(CheckpointError, match=r"gone.safetensors is missing"):
        read_weights(language_model(), tmp_path / "gone.safetensors")
    save_weights(language_model(), tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:200])
    with pytest.raises(CheckpointError, match=r"model.safetensors is damaged"):
        read_weights(language_model(), tmp_path / "model.safetensors")
