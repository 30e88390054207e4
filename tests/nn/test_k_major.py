"""Weights and their gradients stay K-major in memory, whatever is done to a module."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence

import sdrop
from sdrop import DropoutPattern
from sdrop.nn.k_major import KMajorEmbedding, k_major_parameter

X = torch.randn(9, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OPTIONS = {"num_layers": 2, "bidirectional": True, "proj_size": 3}


def make_lstm(**options):
    return sdrop.LSTM(5, 6, dtype=torch.float64, **OPTIONS, **options)


def make_linear(**options):
    return sdrop.Linear(5, 6, dtype=torch.float64, **options)


def make_cell(**options):
    return sdrop.LSTMCell(5, 6, dtype=torch.float64, **options)


THEIRS = {
    make_lstm: lambda: nn.LSTM(5, 6, dtype=torch.float64, **OPTIONS),
    make_linear: lambda: nn.Linear(5, 6, dtype=torch.float64),
    make_cell: lambda: nn.LSTMCell(5, 6, dtype=torch.float64),
}
every_module = pytest.mark.parametrize("make", THEIRS, ids=lambda make: make.__name__)


def matrices(module):
    return {name: p for name, p in module.named_parameters() if p.dim() == 2}


def first_result(result):
    return result[0] if isinstance(result, tuple) else result


def call(module):
    """The module's output on X, a step of it for a cell."""
    return first_result(module(X[0] if isinstance(module, nn.LSTMCell | sdrop.LSTMCell) else X))


def save_and_load(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def load_contiguous(module):
    state = {name: value.contiguous() for name, value in module.state_dict().items()}
    fresh = copy.deepcopy(module)
    for p in fresh.parameters():
        nn.init.zeros_(p)
    fresh.load_state_dict(state)
    return fresh


TREATMENTS = {
    "constructed": lambda module: module,
    "deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "torch.save": save_and_load,
    "load_state_dict": load_contiguous,
    "to float32": lambda module: module.to(torch.float32),
    "bfloat16 and back": lambda module: module.bfloat16().double(),
    "meta and to_empty": lambda module: module.to("meta").to_empty(device="cpu"),
    "share_memory": lambda module: module.share_memory(),
    "requires_grad_": lambda module: module.requires_grad_(False),
}


@every_module
@pytest.mark.parametrize("treatment", TREATMENTS)
def test_weights_are_k_major_after(treatment, make):
    module = make()
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    module = TREATMENTS[treatment](module)
    for name, weight in matrices(module).items():
        assert isinstance(weight, nn.Parameter)
        assert weight.t().is_contiguous(), name
    if treatment in ("deepcopy", "pickle", "torch.save", "load_state_dict"):
        for name, p in module.named_parameters():
            assert torch.equal(p, before[name])


PATTERNS = [
    DropoutPattern("random"),
    DropoutPattern(time="varying"),
    DropoutPattern(time="constant"),
    DropoutPattern(time="constant", keep="bernoulli"),
]


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("recurrent_dropout", [0.0, 0.5])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_gradients_of_an_lstm_are_k_major(pattern, recurrent_dropout, backend):
    rates = {"dropout": 0.5, "input_dropout": 0.5, "recurrent_dropout": recurrent_dropout}
    for proj_size in (0, 3):
        lstm = sdrop.LSTM(
            5,
            6,
            2,
            bidirectional=True,
            proj_size=proj_size,
            pattern=pattern,
            backend=backend,
            **rates,
        )
        weights = matrices(lstm)
        output = lstm(X.float())[0].sum()
        grads = torch.autograd.grad(output, list(weights.values()), retain_graph=True)
        assert all(grad.t().is_contiguous() for grad in grads)
        output.backward()
        assert all(weight.grad.t().is_contiguous() for weight in weights.values())


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_a_linear_layer_are_k_major(pattern, training):
    linear = make_linear(dropout=0.5, pattern=pattern).train(training)
    with sdrop.sequence():
        for input in (X, X[0], pack_padded_sequence(X, [9, 7, 2, 1])):
            output = linear(input)
            output = output if isinstance(output, torch.Tensor) else output.data
            (grad,) = torch.autograd.grad(output.sum(), linear.weight)
            assert grad.t().is_contiguous()


def test_gradients_of_a_cell_are_k_major():
    cell = make_cell(input_dropout=0.5, recurrent_dropout=0.5)
    grads = torch.autograd.grad(call(cell).sum(), [cell.weight_ih, cell.weight_hh])
    assert all(grad.t().is_contiguous() for grad in grads)


OPTIMIZERS = {
    "SGD": lambda p, **how: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, **how),
    "Adam": lambda p, **how: torch.optim.Adam(p, lr=0.1, amsgrad=True, **how),
    "AdamW": lambda p, **how: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1, **how),
}


def train(module, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        call(module).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 0.05)
        optimizer.step()


@every_module
@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_step_as_on_torchs_row_major_weights(optimizer, how, make):
    theirs, ours = THEIRS[make](), make()
    ours.load_state_dict(theirs.state_dict())
    train(theirs, OPTIMIZERS[optimizer](theirs.parameters(), foreach=False))
    train(ours, OPTIMIZERS[optimizer](ours.parameters(), **how))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


@every_module
def test_safetensors_hold_the_weights_contiguous_and_bring_them_back(make, tmp_path):
    module, file = make(), tmp_path / "weights.safetensors"
    save_file({name: value.contiguous() for name, value in module.state_dict().items()}, file)
    fresh = make()
    fresh.load_state_dict(load_file(file), strict=True)
    for a, b in zip(fresh.parameters(), module.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()


def told_once(run):
    """Runs `run` three times and checks that a warning of the layout came once."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results = [run() for _ in range(3)]
    assert ["not K-major in memory" in str(warning.message) for warning in told] == [True]
    return results[-1]


def make_linear_with_dropout():
    return make_linear(dropout=1e-9, pattern=DropoutPattern("random"))


@pytest.mark.parametrize("make", [make_lstm, make_cell, make_linear_with_dropout])
def test_assigned_row_major_weights_give_right_results_and_one_warning(make):
    theirs = THEIRS[make_linear if make is make_linear_with_dropout else make]()
    ours = make()
    ours.load_state_dict(theirs.state_dict(), assign=True)
    torch.testing.assert_close(told_once(lambda: call(ours)), call(theirs))
    train(theirs, torch.optim.Adam(theirs.parameters()))
    train(ours, torch.optim.Adam(ours.parameters(), fused=True))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("make", [make_lstm, make_cell, make_linear_with_dropout])
def test_functional_call_with_row_major_weights_gives_right_results_and_one_warning(make):
    module = make()
    weights = {name: p.detach().contiguous() for name, p in module.named_parameters()}
    input = X[0] if make is make_cell else X
    result = told_once(lambda: torch.func.functional_call(module, weights, (input,)))
    torch.testing.assert_close(first_result(result), call(module))


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l1_reverse", "weight_hr_l0"])
def test_a_weight_norm_parametrisation_trains_as_on_torchs_lstm(name):
    theirs, ours = THEIRS[make_lstm](), make_lstm()
    ours.load_state_dict(theirs.state_dict())
    for module in (theirs, ours):
        parametrizations.weight_norm(module, name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not K-major")
        for module in (theirs, ours):
            train(module, torch.optim.SGD(module.parameters(), lr=0.1))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_an_embedding_over_a_k_major_weight_is_torchs_with_a_k_major_gradient():
    theirs, ours = nn.Embedding(31, 7), KMajorEmbedding(31, 7)
    ours.weight = k_major_parameter(theirs.weight)
    for shape in ((5, 3), (4,), (0, 2)):
        words = torch.randint(31, shape)
        factor = torch.randn(*shape, 7)
        outputs, grads = [], []
        for module in (ours, theirs):
            output = module(words)
            (grad,) = torch.autograd.grad((output * factor).sum(), module.weight)
            outputs.append(output)
            grads.append(grad)
        assert torch.equal(*outputs)
        torch.testing.assert_close(*grads)
        assert grads[0].stride() == ours.weight.stride() == (1, 31)
