"""Optimizers on K-major weights, with state that was loaded in any strides."""

import inspect

import pytest
import torch
from torch import nn

from sdrop.training import adam, adamw, align_state, sgd

REPLACED = ("params", "fused", "foreach")
MAKERS = {
    "sgd": lambda parameters: sgd(parameters, 0.1, weight_decay=0.01),
    "momentum": lambda parameters: sgd(parameters, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda parameters: adam(parameters, 0.1, weight_decay=0.01),
    "adamw": lambda parameters: adamw(parameters, 0.1),
}


def k_major(rows=5, columns=4):
    """A parameter as sdrop's are: the transposed view of a contiguous tensor."""
    generator = torch.Generator().manual_seed(0)
    return nn.Parameter(torch.randn(columns, rows, generator=generator).t())


def gradient(number):
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(number))


def train(optimizer, parameter, steps):
    """Steps whose gradients come contiguous, in other strides than the parameter's."""
    for number in steps:
        optimizer.zero_grad()
        (parameter * gradient(number).to(parameter.dtype)).sum().backward()
        optimizer.step()


def unfused(optimizer, parameter):
    """The same optimizer, in float64, contiguous, one element after the other."""
    options = {
        name: value
        for name, value in optimizer.param_groups[0].items()
        if name in inspect.signature(type(optimizer)).parameters and name not in REPLACED
    }
    exact = nn.Parameter(parameter.detach().double().contiguous())
    return type(optimizer)([exact], foreach=False, **options), exact


@pytest.mark.parametrize("name", MAKERS)
def test_steps_equal_those_of_contiguous_weights_in_float64(name):
    parameter = k_major()
    optimizer = MAKERS[name]([parameter])
    assert optimizer.param_groups[0]["fused"] == name.startswith("adam")
    reference, exact = unfused(optimizer, parameter)
    train(optimizer, parameter, range(4))
    train(reference, exact, range(4))
    assert parameter.stride() == (1, 5)
    torch.testing.assert_close(parameter.double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MAKERS)
def test_a_step_after_loading_contiguous_state_equals_the_unfused_one(name):
    parameter = k_major()
    first = MAKERS[name]([parameter])
    reference, exact = unfused(first, parameter)
    train(first, parameter, range(2))
    train(reference, exact, range(2))
    saved = contiguous(first.state_dict())
    second = MAKERS[name]([parameter])
    second.load_state_dict(saved)
    align_state(second)
    train(second, parameter, range(2, 4))
    train(reference, exact, range(2, 4))
    torch.testing.assert_close(parameter.double(), exact, rtol=1e-5, atol=1e-6)


def contiguous(state_dict):
    """The state as a format without strides would bring it back."""
    for state in state_dict["state"].values():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                state[name] = value.contiguous()
    return state_dict


def test_aligned_state_has_the_strides_of_its_parameter_and_the_same_values():
    parameter = k_major()
    optimizer = adam([parameter], 0.1)
    train(optimizer, parameter, range(2))
    optimizer.load_state_dict(contiguous(optimizer.state_dict()))
    values = {name: value.clone() for name, value in optimizer.state[parameter].items()}
    align_state(optimizer)
    state = optimizer.state[parameter]
    assert state["exp_avg"].stride() == state["exp_avg_sq"].stride() == parameter.stride()
    for name, value in values.items():
        assert torch.equal(state[name], value), name


def test_state_in_the_right_strides_is_not_copied():
    parameter = k_major()
    optimizer = adam([parameter], 0.1)
    train(optimizer, parameter, range(1))
    before = dict(optimizer.state[parameter])
    align_state(optimizer)
    assert all(optimizer.state[parameter][name] is value for name, value in before.items())


def test_frozen_parameters_are_left_out():
    frozen = k_major().requires_grad_(False)
    optimizer = sgd([frozen, k_major()], 0.1)
    assert len(optimizer.param_groups[0]["params"]) == 1


def test_nothing_to_train_is_an_error():
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        adam([k_major().requires_grad_(False)], 0.1)
