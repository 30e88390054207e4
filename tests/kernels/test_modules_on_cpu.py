"""The modules with `backend="cpu"` and "auto"."""

import pytest
import torch

import sdrop
from sdrop import functional
from sdrop.ops.lstm import cpu


def test_a_training_lstm_gives_what_the_reference_gives():
    results = []
    for backend in ("cpu", "reference"):
        torch.manual_seed(3)
        lstm = sdrop.LSTM(
            12, 20, 2, dropout=0.5, input_dropout=0.3, recurrent_dropout=0.4, backend=backend
        )
        x = torch.randn(6, 4, 12, requires_grad=True)
        output, (h, c) = lstm(x)
        (output.sum() + h.sum() + c.sum()).backward()
        results.append([output, h, c, x.grad, *(p.grad for p in lstm.parameters())])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_a_bidirectional_packed_lstm_gives_what_the_reference_gives():
    packed = torch.nn.utils.rnn.pack_sequence([torch.randn(n, 5) for n in (3, 7, 1)], False)
    results = []
    for backend in ("cpu", "reference"):
        torch.manual_seed(3)
        lstm = sdrop.LSTM(
            5, 9, bidirectional=True, recurrent_dropout=0.4, input_dropout=0.5, backend=backend
        )
        output, (h, c) = lstm(packed)
        results.append([output.data, h, c])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_linear_and_cell_give_what_the_reference_gives():
    for make, size in ((sdrop.Linear, 7), (sdrop.LSTMCell, 7)):
        option = "dropout" if make is sdrop.Linear else "recurrent_dropout"
        results = []
        for backend in ("cpu", "reference"):
            torch.manual_seed(3)
            module = make(11, size, **{option: 0.5}, backend=backend)
            found = module(torch.randn(4, 11))
            results.append(found[0] if isinstance(found, tuple) else found)
        torch.testing.assert_close(*results)


def test_float64_takes_the_reference_unless_the_kernels_are_asked_for():
    x = torch.randn(3, 2, 4, dtype=torch.float64)
    weights = torch.randn(20, 4, dtype=torch.float64), torch.randn(20, 5, dtype=torch.float64)
    hx = torch.zeros(2, 5, dtype=torch.float64), torch.zeros(2, 5, dtype=torch.float64)
    assert functional.lstm(x, hx, *weights)[0].dtype == torch.float64
    with pytest.raises(RuntimeError, match='backend="cpu": .* need torch.float32'):
        functional.lstm(x, hx, *weights, backend="cpu")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("space", ["random", "structured"])
@pytest.mark.parametrize("batch", [3, 6])
@pytest.mark.parametrize(("size", "classes"), [(17, 9), (18, 10)])
def test_half_precision_is_near_float32(dtype, space, batch, size, classes):
    # Of an odd size or a few rows the kernels get float32 copies on every processor.
    pattern = sdrop.DropoutPattern(space)
    lstm = sdrop.LSTM(6, size, recurrent_dropout=0.5, input_dropout=0.5, pattern=pattern)
    decoder = sdrop.Linear(size, classes, dropout=0.5, pattern=pattern)
    model = sdrop.name_sites(torch.nn.ModuleList([lstm, decoder]).to(dtype))
    x, target = torch.randn(7, batch, 6, dtype=dtype), torch.randint(classes, (7, batch))
    results = []
    for parameters in (dtype, torch.float32):
        model.to(parameters).zero_grad()
        lstm.backend = decoder.backend = "cpu"
        leaf = x.detach().to(parameters, copy=True).requires_grad_()
        with sdrop.mask_key(1, 2):
            output, (h_n, c_n) = lstm(leaf)
        assert {output.dtype, h_n.dtype, c_n.dtype} == {parameters}
        with sdrop.mask_key(1, 3):
            scores, loss = decoder(output), decoder.cross_entropy(output, target)
        assert loss.dtype == torch.float32
        (loss + scores.float().square().mean()).backward()
        found = [output, c_n, scores, loss, leaf.grad, *(p.grad for p in model.parameters())]
        assert all(p.grad.dtype == parameters for p in model.parameters())
        results.append([tensor.detach().float() for tensor in found])
    for ours, expected in zip(*results, strict=True):
        assert (ours - expected).abs().max() <= 2e-2 * expected.abs().max()


@pytest.mark.parametrize("batch", [2, 12])
def test_autocast_is_near_float32(batch):
    lstm = sdrop.name_sites(sdrop.LSTM(6, 8, recurrent_dropout=0.5, backend="cpu"))
    x, grads = torch.randn(3, batch, 6), []
    for enabled in (True, False):
        lstm.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled), sdrop.mask_key(1, 2):
            output, _ = lstm(x)
        assert output.dtype == (torch.bfloat16 if enabled else torch.float32)
        output.sum().backward()
        assert {p.grad.dtype for p in lstm.parameters()} == {torch.float32}
        grads.append([p.grad for p in lstm.parameters()])
    for ours, expected in zip(*grads, strict=True):
        assert (ours - expected).abs().max() <= 2e-2 * expected.abs().max()


def test_a_projection_falls_back_to_the_reference():
    lstm = sdrop.LSTM(6, 8, proj_size=4, recurrent_dropout=0.5)
    assert lstm(torch.randn(3, 2, 6))[0].shape == (3, 2, 4)
    lstm = sdrop.LSTM(6, 8, proj_size=4, recurrent_dropout=0.5, backend="cpu")
    with pytest.raises(RuntimeError, match="no projection"):
        lstm(torch.randn(3, 2, 6))


def test_compiled_functions_give_the_same():
    x, h, c = torch.randn(4, 3, 6), torch.randn(3, 8), torch.randn(3, 8)
    w_ih, w_hh = torch.randn(32, 6).t().contiguous().t(), torch.randn(32, 8).t().contiguous().t()
    mask = functional.Mask(kept=torch.tensor([[0, 2, 5]]), scale=2.0)

    def run(x, w_ih):
        results = cpu.lstm(x, h, c, w_ih, w_hh, input_mask=mask, hidden_mask=functional.KEEP_ALL)
        return torch.cat([r.flatten() for r in results])

    found = []
    for function in (run, torch.compile(run, fullgraph=True, backend="aot_eager")):
        leaves = [x.clone().requires_grad_(), w_ih.detach().requires_grad_()]
        results = function(*leaves)
        results.square().sum().backward()
        found.append([results.detach(), *(leaf.grad for leaf in leaves)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


@pytest.mark.parametrize("time", ["varying", "constant"])
def test_the_decoders_loss_gives_what_the_reference_gives(time):
    results = []
    for backend in ("cpu", "reference"):
        torch.manual_seed(3)
        pattern = sdrop.DropoutPattern(time=time)
        decoder = sdrop.Linear(12, 301, dropout=0.5, pattern=pattern, backend=backend)
        x, target = torch.randn(6, 4, 12, requires_grad=True), torch.randint(301, (6, 4))
        target[1, 2] = -100
        loss = decoder.cross_entropy(x, target)
        (2.0 * loss).backward()
        results.append([loss, x.grad, decoder.weight.grad, decoder.bias.grad])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_the_decoders_loss_leaves_an_input_without_gradient_alone():
    decoder = sdrop.Linear(12, 31, dropout=0.5, backend="cpu")
    x = torch.randn(6, 4, 12)
    decoder.cross_entropy(x, torch.randint(31, (6, 4))).backward()
    assert x.grad is None
    assert decoder.weight.grad.t().is_contiguous()
