"""`Linear.cross_entropy` is the loss of what `Linear` puts out, in every form of input."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import sdrop

FORMS = ["padded", "batch_first", "packed", "step"]


def example(form, features=6, classes=11):
    x = torch.randn(5, 3, features, dtype=torch.float64)
    if form == "packed":
        x = pack_padded_sequence(x, torch.tensor([2, 5, 4]), enforce_sorted=False)
        target = torch.randint(classes, (x.data.shape[0],))
    else:
        x = x[0] if form == "step" else x
        target = torch.randint(classes, x.shape[:-1])
    target[0] = -100
    return x, target


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("training", [True, False])
def test_it_is_the_loss_of_the_output_under_the_same_masks(form, training):
    linear = sdrop.Linear(
        6, 11, dropout=0.5, batch_first=form == "batch_first", dtype=torch.float64
    ).train(training)
    sdrop.name_sites(linear)
    x, target = example(form)
    with sdrop.mask_key(1, 2):
        loss = linear.cross_entropy(x, target)
    with sdrop.mask_key(1, 2):
        output = linear(x)
    output = output.data if isinstance(output, PackedSequence) else output
    expected = nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())
    torch.testing.assert_close(loss, expected, rtol=1e-13, atol=0)
    for ours, theirs in zip(
        torch.autograd.grad(loss, linear.parameters()),
        torch.autograd.grad(expected, linear.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-14)


def test_autocast_gives_a_float32_loss_and_float32_gradients():
    linear = sdrop.Linear(6, 11, dropout=0.5)
    x, target = example("padded")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear.cross_entropy(x.float(), target)
    loss.backward()
    assert loss.dtype == linear.weight.grad.dtype == torch.float32


def test_a_target_of_another_shape_is_refused():
    linear = sdrop.Linear(6, 11)
    x, target = example("padded")
    with pytest.raises(RuntimeError, match=r"expected a target of shape \(5, 3\).*got \(3, 5\)"):
        linear.cross_entropy(x.float(), target.t())
