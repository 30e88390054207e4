"""The mean of several checkpoints' weights."""

import pytest
import torch
from tiny_run import run, tiny_model

from sdrop.training import CheckpointError, load_average, load_weights, newest


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run(folder, max_epochs=3, keep_checkpoints=5)
    return folder / "checkpoints"


@pytest.mark.usefixtures("no_curves")
def test_weights_are_the_mean_and_keep_their_strides(checkpoints):
    chosen = newest(checkpoints, 2)
    assert [path.name for path in chosen] == ["step-00000008", "step-00000012"]
    models = [tiny_model() for _ in chosen]
    for model, checkpoint in zip(models, chosen, strict=True):
        load_weights(model, checkpoint)
    mean = tiny_model(seed=5)
    load_average(mean, chosen)
    for name, parameter in mean.named_parameters():
        first, second = (dict(model.named_parameters())[name] for model in models)
        assert not torch.equal(first, second)
        expected = ((first.double() + second.double()) / 2).float()
        assert torch.equal(parameter, expected)
        assert parameter.stride() == first.stride()


def test_one_checkpoint_is_its_own_mean(checkpoints):
    (last,) = newest(checkpoints, 1)
    model, mean = tiny_model(), tiny_model(seed=5)
    load_weights(model, last)
    load_average(mean, [last])
    for expected, parameter in zip(model.parameters(), mean.parameters(), strict=True):
        assert torch.equal(parameter, expected)


def test_more_than_there_are_and_none_are_refused(checkpoints):
    with pytest.raises(CheckpointError, match=r"has 3 checkpoints, fewer than the 4.*keep_check"):
        newest(checkpoints, 4)
    with pytest.raises(CheckpointError, match="a checkpoint or more to average, got none"):
        load_average(tiny_model(), [])
