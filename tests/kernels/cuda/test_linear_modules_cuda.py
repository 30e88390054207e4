"""`sdrop.Linear(backend="cuda")` gives the numbers of the reference."""

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

import sdrop
from sdrop import DropoutPattern

PATTERNS = [
    DropoutPattern(),
    DropoutPattern(time="constant"),
    DropoutPattern(keep="bernoulli"),
    DropoutPattern(time="constant", keep="bernoulli"),
    DropoutPattern("random"),
]


def make_linear(device, backend, pattern, **options):
    torch.manual_seed(3)
    linear = sdrop.Linear(12, 20, dropout=0.5, pattern=pattern, backend=backend, **options)
    return sdrop.name_sites(linear).to(device)


def with_both_backends(compute):
    """What `compute(backend)` returns for the CUDA kernels and for the reference."""
    return zip(compute("cuda"), compute("reference"), strict=True)


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("form", ["padded", "batch_first", "packed"])
def test_outputs_losses_and_gradients_are_the_references(device, form, pattern):
    x, target = torch.randn(5, 4, 12, device=device), torch.randint(20, (5, 4), device=device)
    if form == "packed":
        x = pack_sequence([torch.randn(n, 12, device=device) for n in (3, 7, 1, 5)], False)
        target = torch.randint(20, (16,), device=device)

    def train(backend):
        linear = make_linear(device, backend, pattern, batch_first=form == "batch_first")
        with sdrop.mask_key(1, 2):
            output = linear(x)
            loss = linear.cross_entropy(x, target)
        output = output.data if form == "packed" else output
        (output.square().sum() + loss).backward()
        return [output, loss, *(p.grad for p in linear.parameters())]

    for found, expected in with_both_backends(train):
        torch.testing.assert_close(found, expected)


def test_within_autocast_results_have_its_type_and_the_references_numbers(device):
    x, target = torch.randn(5, 4, 12, device=device), torch.randint(20, (5, 4), device=device)

    def train(backend):
        linear = make_linear(device, backend, DropoutPattern(time="constant"))
        with sdrop.mask_key(1, 2), torch.autocast(device.type, torch.bfloat16):
            output, loss = linear(x), linear.cross_entropy(x, target)
        (output.float().square().sum() + loss).backward()
        assert (output.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
        return [output.float(), loss, *(p.grad for p in linear.parameters())]

    for found, expected in with_both_backends(train):
        assert (found - expected).abs().max() <= 2e-2 * expected.abs().max()


def test_compiled_layers_give_the_eager_results(device):
    model = torch.nn.ModuleList(
        [
            sdrop.LSTM(12, 12, input_dropout=0.5, recurrent_dropout=0.5, backend="cuda"),
            sdrop.Linear(12, 20, dropout=0.5, backend="cuda"),
        ]
    )
    lstm, linear = sdrop.name_sites(model).to(device)
    x = torch.randn(5, 4, 12, device=device)

    def run(x):
        return linear(lstm(x)[0])

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    with sdrop.mask_key(1, 2):
        torch.testing.assert_close(compiled(x), run(x))
