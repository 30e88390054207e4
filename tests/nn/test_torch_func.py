"""`torch.func`: its transforms see PyTorch's own ops, so the modules take the equations there."""

import pytest
import torch
from torch.func import functional_call, grad, jvp, vmap

import sdrop
from sdrop.ops.native import NATIVE

STEPS, BATCH, SIZE = 9, 4, 6
OPTIONS = {
    "no dropout": {},
    "layers": {"num_layers": 2, "dropout": 0.5, "input_dropout": 0.3, "bidirectional": True},
    "recurrent": {"recurrent_dropout": 0.5},
    "random": {"recurrent_dropout": 0.5, "pattern": sdrop.DropoutPattern(space="random")},
    "constant": {"input_dropout": 0.5, "pattern": sdrop.DropoutPattern(time="constant")},
    "projection": {"proj_size": 3, "recurrent_dropout": 0.5},
}


def scalar(output):
    return (output[0] if isinstance(output, tuple) else output).square().sum()


def check_grad(module, x):
    """`torch.func.grad` finds what `backward` does, with the same masks."""
    parameters = dict(module.named_parameters())

    def loss(values):
        torch.manual_seed(5)
        return scalar(functional_call(module, values, (x,)))

    found = grad(loss)(parameters)
    loss(parameters).backward()
    for name, parameter in parameters.items():
        torch.testing.assert_close(found[name], parameter.grad)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_grad_of_a_layer_is_that_of_backward(options, backend):
    check_grad(sdrop.LSTM(SIZE, 7, backend=backend, **options), torch.randn(STEPS, BATCH, SIZE))


def test_grad_of_other_modules_is_that_of_backward():
    x = torch.randn(STEPS, BATCH, SIZE)
    check_grad(sdrop.LSTMCell(SIZE, 7, input_dropout=0.5, recurrent_dropout=0.5), x[0])
    check_grad(sdrop.Linear(SIZE, 7, dropout=0.5), x)


def test_grad_of_the_loss_is_that_of_backward():
    target = torch.randint(9, (STEPS, BATCH))
    linear = sdrop.Linear(SIZE, 9, dropout=0.5)
    x = torch.randn(STEPS, BATCH, SIZE, requires_grad=True)

    def loss(x):
        torch.manual_seed(5)
        return linear.cross_entropy(x, target)

    found = grad(loss)(x.detach())
    loss(x).backward()
    torch.testing.assert_close(found, x.grad)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_vmap_gives_each_example_its_own_gradient(options):
    # 40 rows of an example: without a transform torch's own kernel could take them.
    examples = torch.randn(3, 40, 1, SIZE)
    lstm = sdrop.LSTM(SIZE, 7, **options).eval()
    parameters = dict(lstm.named_parameters())

    def loss(values, x):
        return scalar(functional_call(lstm, values, (x,)))

    found = vmap(grad(loss), in_dims=(None, 0))(parameters, examples)
    for i, x in enumerate(examples):
        expected = torch.autograd.grad(loss(parameters, x), list(parameters.values()))
        for name, value in zip(parameters, expected, strict=True):
            torch.testing.assert_close(found[name][i], value)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_vmap_can_draw_masks_for_each_example(options):
    lstm = sdrop.LSTM(SIZE, 7, **options)
    x = torch.randn(STEPS, BATCH, SIZE).expand(3, -1, -1, -1)
    first, second, _ = vmap(lambda x: lstm(x)[0], randomness="different")(x)
    assert torch.equal(first, second) == (options == {})


# torch compiles the formulas of its own forward mode when the first is asked for.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_jvp_agrees_with_finite_differences():
    lstm = sdrop.LSTM(SIZE, 7, dtype=torch.float64)
    x, along = torch.randn(2, STEPS, BATCH, SIZE, dtype=torch.float64)
    _, found = jvp(lambda x: lstm(x)[0], (x,), (along,))
    step = 1e-6
    expected = (lstm(x + step * along)[0] - lstm(x - step * along)[0]) / (2 * step)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.skipif(NATIVE.capability is None, reason=f"the CPU kernels are {NATIVE.reason}")
def test_kernels_that_were_asked_for_are_refused():
    lstm = sdrop.LSTM(SIZE, 7, backend="cpu")
    with pytest.raises(RuntimeError, match=r'backend="cpu": .*; use backend="auto"'):
        grad(lambda x: scalar(lstm(x)))(torch.randn(STEPS, BATCH, SIZE))
