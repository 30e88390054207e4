"""Fabric on this machine: silent, without warnings, its choices checked."""

import pytest
import torch
from torch import nn

from sdrop.training import make_fabric


def test_one_process_on_the_cpu(capfd):
    fabric = make_fabric("cpu")
    assert (fabric.world_size, fabric.device.type, fabric.is_global_zero) == (1, "cpu", True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "cuda:x", "auto:0", ""])
def test_an_unknown_device_is_told(device):
    with pytest.raises(ValueError, match="expected auto, cpu, cuda or cuda:N"):
        make_fabric(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_is_an_error():
    with pytest.raises(RuntimeError, match="PyTorch sees no GPU here; use device=cpu"):
        make_fabric("cuda")


def test_an_unknown_precision_is_told():
    with pytest.raises(ValueError, match="precision='half': expected one of 32-true, 64-true"):
        make_fabric("cpu", "half")
    with pytest.raises(ValueError, match="'16-mixed' needs a GPU: on a CPU use 'bf16-mixed'"):
        make_fabric("cpu", "16-mixed")


def test_left_over_variables_of_a_launcher_do_not_start_a_group(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert make_fabric("cpu").world_size == 1


class Types(nn.Module):
    """Tells what it was given; its state must pass unrounded."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, input, state=None):
        self.given = None if state is None else state[0].dtype
        return self.layer(input).sum(), (torch.full((2,), torch.pi, dtype=self.state_type),)


@pytest.mark.parametrize(
    ("precision", "weights", "input", "state"),
    [
        ("32-true", torch.float32, torch.float32, torch.float32),
        ("64-true", torch.float64, torch.float64, torch.float64),
        ("bf16-mixed", torch.float32, torch.float32, torch.float32),
        ("bf16-true", torch.bfloat16, torch.float32, torch.bfloat16),
    ],
)
def test_a_hidden_state_goes_in_and_out_unrounded(precision, weights, input, state, capfd):
    fabric = make_fabric("cpu", precision)
    model = Types()
    model.state_type = state
    wrapped = fabric.setup(model)
    assert model.layer.weight.dtype == weights
    _, hidden = wrapped(torch.ones(3, 2, dtype=input))
    _, hidden = wrapped(torch.ones(3, 2, dtype=input), hidden)
    assert model.given == state
    assert hidden[0][0].item() == torch.tensor(torch.pi, dtype=state).item()
    assert capfd.readouterr() == ("", "")
