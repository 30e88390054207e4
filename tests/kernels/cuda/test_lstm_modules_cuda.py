"""Whole modules with `backend="cuda"`: the same numbers as the reference."""

import pytest
import torch
from cuda_recurrence import on
from kernels_random import random_layer

import sdrop
from sdrop.models.language_model import DropoutRates, LanguageModel
from sdrop.ops.lstm.cuda import lstm, lstm_directions

PATTERNS = [
    sdrop.DropoutPattern(),
    sdrop.DropoutPattern(time="constant"),
    sdrop.DropoutPattern(keep="bernoulli"),
    sdrop.DropoutPattern("random", "constant"),
]


def with_both_backends(compute):
    """What `compute(backend)` returns for the CUDA kernels and for the reference."""
    return [compute(backend) for backend in ("cuda", "reference")]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_a_training_lstm_gives_what_the_reference_gives(device, pattern, packed):
    if packed:
        x = torch.nn.utils.rnn.pack_sequence([torch.randn(n, 12) for n in (3, 7, 1, 5)], False)
    else:
        x = torch.randn(6, 4, 12)
    x = x.to(device)

    def train(backend):
        torch.manual_seed(3)
        rates = {"dropout": 0.5, "input_dropout": 0.3, "recurrent_dropout": 0.4}
        module = sdrop.name_sites(
            sdrop.LSTM(12, 20, 2, bidirectional=True, pattern=pattern, backend=backend, **rates)
        ).to(device)
        with sdrop.mask_key(1, 2):
            output, (h_n, c_n) = module(x)
        output = output.data if packed else output
        (output.square().sum() + h_n.sum() + c_n.sum()).backward()
        return [output, h_n, c_n, *(p.grad for p in module.parameters())]

    for a, b in zip(*with_both_backends(train), strict=True):
        torch.testing.assert_close(a, b)


def test_an_unbatched_batch_first_lstm_in_evaluation_gives_what_the_reference_gives(device):
    def evaluate(backend):
        torch.manual_seed(3)
        module = sdrop.LSTM(5, 9, batch_first=True, recurrent_dropout=0.5, backend=backend)
        module = module.to(device).eval()
        with torch.no_grad():
            one, _ = module(torch.ones(4, 5, device=device))
            output, (h_n, c_n) = module(torch.ones(3, 4, 5, device=device))
        return [one, output, h_n, c_n]

    for a, b in zip(*with_both_backends(evaluate), strict=True):
        torch.testing.assert_close(a, b)


def test_a_bfloat16_lstm_gives_bfloat16_near_the_reference(device):
    def train(backend):
        torch.manual_seed(3)
        module = sdrop.name_sites(sdrop.LSTM(12, 20, recurrent_dropout=0.5, backend=backend))
        module = module.to(device, torch.bfloat16)
        with sdrop.mask_key(1, 2):
            output, (_, c_n) = module(torch.ones(5, 4, 12, device=device, dtype=torch.bfloat16))
        output.float().square().sum().backward()
        found = [output, c_n, *(p.grad for p in module.parameters())]
        assert {each.dtype for each in found} == {torch.bfloat16}
        return [each.float() for each in found]

    for a, b in zip(*with_both_backends(train), strict=True):
        assert (a - b).abs().max() <= 2e-2 * b.abs().max()


def test_float32_within_autocast_of_torch_stays_what_the_op_was_given(device):
    x, h = torch.randn(4, 3, 5, device=device), torch.zeros(3, 6, device=device)
    weights = torch.randn(24, 5, device=device), torch.randn(24, 6, device=device)
    masks = {"input_mask": sdrop.functional.Mask(), "hidden_mask": sdrop.functional.Mask()}
    expected = lstm(x, h, h, *weights, **masks)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        found = lstm(x, h, h, *weights, **masks)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("mode", ["resident", "by_step"])
def test_a_language_model_trains_to_the_losses_of_the_reference(device, monkeypatch, mode):
    monkeypatch.setenv("SDROP_CUDA_RECURRENCE", mode)
    generator = torch.Generator().manual_seed(5)
    words = torch.randint(31, (3, 8, 5), generator=generator).to(device)

    def train(backend):
        torch.manual_seed(3)
        model = LanguageModel(
            31,
            embedding_dim=16,
            hidden_size=20,
            rates=DropoutRates(0.5, 0.5, 0.25, 0.5),
            init_range=0.2,
            backend=backend,
        )
        model = sdrop.name_sites(model).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        losses, state = [], None
        for step, window in enumerate(words):
            with sdrop.mask_key(7, step):
                loss, state = model(window[:-1], window[1:], state)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            state = tuple(each.detach() for each in state)
            losses.append(float(loss.detach()))
        return losses

    for ours, expected in zip(*with_both_backends(train), strict=True):
        assert ours == pytest.approx(expected, rel=1e-6)


def test_opcheck_accepts_the_operators(device):
    layer = on(random_layer(3, 2, 4, 5, ("III", "III")), device)
    x, h_0, c_0, weight_ih, weight_hh, bias = (t.requires_grad_() for t in layer.tensors)
    input_mask, hidden_mask = layer.options["input_mask"], layer.options["hidden_mask"]
    masks = (*input_mask, [hidden_mask.kept], [], hidden_mask.scale, None, False, False)
    tensors = (x, [h_0], [c_0], [weight_ih], [weight_hh])
    torch.library.opcheck(torch.ops.sdrop.lstm_cuda, (*tensors, [bias], *masks))
    with torch.no_grad():
        results = torch.ops.sdrop.lstm_cuda(*tensors, [bias], *masks)
        detached = [t.detach() if isinstance(t, torch.Tensor) else [t[0].detach()] for t in tensors]
        saved = [results[0], results[3], results[4]]
        torch.library.opcheck(
            torch.ops.sdrop.lstm_cuda_backward,
            (list(layer.grads), *detached, *masks, saved, True),
        )


def test_both_directions_compile_into_one_graph(device):
    layer = on(random_layer(5, 3, 6, 10, ("III", "III")), device)
    mask = layer.options["hidden_mask"]

    def run(x, h, c, weight_ih, weight_hh, bias):
        pairs = ([each, each.flip(0)] for each in (h, c, weight_ih, weight_hh, bias))
        options = {"input_mask": layer.options["input_mask"], "hidden_masks": [mask, mask]}
        forward, reverse = lstm_directions(x, *pairs, **options)
        return forward[0].square().sum() + reverse[2].sum()

    found = []
    for each in (run, torch.compile(run, backend="aot_eager", fullgraph=True)):
        leaves = [t.detach().clone().requires_grad_() for t in layer.tensors]
        loss = each(*leaves)
        found.append([loss, *torch.autograd.grad(loss, leaves)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)
