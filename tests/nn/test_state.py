"""What a module carries: parameters, checkpoints, copies, modes; word for word as torch's own."""

import copy
import io
import itertools
import pickle

import pytest
import torch
from torch import nn

import sdrop

OPTIONS = [
    {"num_layers": layers, "bias": bias, "bidirectional": bidirectional, "proj_size": proj_size}
    for layers, bias, bidirectional, proj_size in itertools.product(
        (1, 2), (True, False), (True, False), (0, 2)
    )
]
RATES = {"dropout": 0.5, "input_dropout": 0.5, "recurrent_dropout": 0.5}


def pair(**options):
    torch.manual_seed(1)
    theirs = nn.LSTM(3, 4, **options)
    torch.manual_seed(1)
    return theirs, sdrop.LSTM(3, 4, **options)


def same_parameters(a, b):
    named = zip(a.named_parameters(), b.named_parameters(), strict=True)
    return all(n == m and torch.equal(p, q) and p.shape == q.shape for (n, p), (m, q) in named)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_seed_gives_torchs_parameters_in_torchs_order(options):
    theirs, ours = pair(**options)
    assert same_parameters(ours, theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for module in (theirs, ours):
        torch.manual_seed(2)
        module.reset_parameters()
    assert same_parameters(ours, theirs)
    assert all(isinstance(p, nn.Parameter) for p in ours.parameters())


@pytest.mark.parametrize("options", OPTIONS[::3], ids=str)
def test_checkpoints_load_both_ways_bit_by_bit(options):
    theirs, ours = pair(**options)
    ours.reset_parameters()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    assert same_parameters(ours, theirs)
    theirs.reset_parameters()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    assert same_parameters(ours, theirs)


@pytest.mark.parametrize("options", OPTIONS[::5], ids=str)
def test_all_weights_and_flat_weights_are_the_parameters_in_torchs_order(options):
    theirs, ours = pair(**options)
    for module in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), ours.double()):
        assert module._all_weights == theirs._all_weights
        assert [len(weights) for weights in module.all_weights] == [
            len(weights) for weights in theirs.all_weights
        ]
        flat = [weight for weights in module.all_weights for weight in weights]
        for parameter, a, b in zip(module.parameters(), flat, module._flat_weights, strict=True):
            assert parameter is a
            assert parameter is b
    assert ours.flatten_parameters() is None


def test_torchs_cell_and_linear_start_from_the_same_values():
    for make, other in ((nn.LSTMCell, sdrop.LSTMCell), (nn.Linear, sdrop.Linear)):
        torch.manual_seed(1)
        theirs = make(3, 4)
        torch.manual_seed(1)
        ours = other(3, 4)
        assert same_parameters(ours, theirs)
        without = [module(3, 4, bias=False).state_dict().keys() for module in (make, other)]
        assert without[0] == without[1]


def test_a_module_prints_torchs_words_and_its_own():
    options = {"num_layers": 2, "bidirectional": True, "proj_size": 2, "dropout": 0.5}
    ours = sdrop.LSTM(3, 4, input_dropout=0.25, recurrent_dropout=0.5, **options)
    assert repr(ours).startswith(repr(nn.LSTM(3, 4, **options))[:-1] + ", ")
    own = "input_dropout=0.25, recurrent_dropout=0.5, pattern=case III (structured in space"
    assert own in repr(ours)
    assert repr(sdrop.LSTMCell(3, 4)).startswith("LSTMCell(3, 4, input_dropout=0.0, ")
    assert repr(sdrop.Linear(3, 4)).startswith(repr(nn.Linear(3, 4))[:-1] + ", dropout=0.0, ")
    assert repr(sdrop.Dropout(0.25)).startswith("Dropout(p=0.25, pattern=case III")


def save_and_load(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


MODULES = {
    "LSTM": lambda: sdrop.LSTM(3, 4, 2, bidirectional=True, proj_size=2, **RATES),
    "LSTMCell": lambda: sdrop.LSTMCell(3, 4, input_dropout=0.5, recurrent_dropout=0.5),
    "Linear": lambda: sdrop.Linear(3, 4, dropout=0.5),
    "Dropout": lambda: sdrop.Dropout(0.5),
}
COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "torch.save": save_and_load,
}


def run(module, x):
    flat, _ = torch.utils._pytree.tree_flatten(module(x))
    return torch.cat([value.flatten() for value in flat])


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("module", MODULES)
def test_a_copy_has_the_name_the_masks_and_the_results(module, copied):
    original = sdrop.name_sites(nn.ModuleList([MODULES[module]()]))[0]
    twin = COPIES[copied](original)
    x = torch.randn(2, 3) if module == "LSTMCell" else torch.randn(5, 2, 3)
    with sdrop.mask_key(0, 1):
        assert torch.equal(run(twin, x), run(original, x))
    assert torch.equal(run(twin.eval(), x), run(original.eval(), x))


@pytest.mark.parametrize("module", MODULES)
def test_train_and_eval_in_turns_give_the_same_whatever_happens_between(module):
    original = sdrop.name_sites(nn.ModuleList([MODULES[module]().double()]))[0]
    x = torch.randn(2, 3) if module == "LSTMCell" else torch.randn(5, 2, 3)
    x = x.double()

    def results(module):
        with sdrop.mask_key(0, 1):
            trained = run(module.train(), x)
        return trained, run(module.eval(), x)

    expected = results(original)
    state = {name: value.clone() for name, value in original.state_dict().items()}
    treated = copy.deepcopy(original)
    for treat in (
        lambda m: m.float().double(),
        copy.deepcopy,
        lambda m: (m.load_state_dict(state), m)[1],
        lambda m: m.to("cpu"),
        lambda m: m.requires_grad_(False).requires_grad_(True),
    ):
        treated = treat(treated)
        treated.load_state_dict(state)  # .float() rounds
        for ours, theirs in zip(results(treated), expected, strict=True):
            assert torch.equal(ours, theirs)
        assert all(isinstance(p, nn.Parameter) for p in treated.parameters())


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_modules_run_without_gradients_in_training_and_evaluation(context, backend):
    lstm = sdrop.LSTM(3, 4, 2, backend=backend, **RATES)
    for module in (lstm, MODULES["Linear"](), MODULES["Dropout"]()):
        x = torch.randn(20, 2, 3)
        expected = run(module.eval(), x).detach()
        with context():
            output = run(module, x)
            assert not output.requires_grad
            torch.testing.assert_close(output, expected)
            run(module.train(), x)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("recurrent_dropout", [0.0, 0.5])
def test_frozen_parameters_get_no_gradient_and_the_others_theirs(recurrent_dropout, backend):
    lstm = sdrop.LSTM(3, 4, 2, backend=backend, recurrent_dropout=recurrent_dropout)
    sdrop.name_sites(lstm)
    x = torch.randn(20, 2, 3)

    def gradients():
        lstm.zero_grad()
        with sdrop.mask_key(0, 0):
            lstm(x)[0].square().sum().backward()
        return {name: p.grad for name, p in lstm.named_parameters()}

    expected = gradients()
    frozen = ("weight_hh_l0", "bias_ih_l1", "weight_ih_l1")
    for name in frozen:
        lstm.get_parameter(name).requires_grad_(False)
    for name, grad in gradients().items():
        assert grad is None if name in frozen else torch.equal(grad, expected[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("module", ["LSTMCell", "Linear", "Dropout"])
def test_results_may_be_changed_in_place(module, dtype):
    made = MODULES[module]().to(dtype)
    shape = (2, 3) if module == "LSTMCell" else (4, 2, 3)
    flat, _ = torch.utils._pytree.tree_flatten(
        made(torch.randn(shape, dtype=dtype).requires_grad_())
    )
    sum(nn.functional.relu_(result).sum() for result in flat).backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_lstms_output_and_states_may_be_changed_in_place(dtype):
    lstm = sdrop.LSTM(3, 4, backend="reference", dtype=dtype)
    output, states = lstm(torch.randn(5, 2, 3, dtype=dtype))
    sum(state.mul_(2.0).sum() for state in states).backward()
    assert torch.equal(nn.functional.relu_(output), output.clamp(min=0.0))  # no view of the op's


def test_a_backward_pass_may_be_repeated_with_the_graph_retained():
    lstm = sdrop.LSTM(3, 4, 2, **RATES)
    loss = lstm(torch.randn(5, 2, 3))[0].square().sum()
    grads = [
        torch.autograd.grad(loss, list(lstm.parameters()), retain_graph=True) for _ in range(2)
    ]
    for first, second in zip(*grads, strict=True):
        assert torch.equal(first, second)


def test_modules_on_the_meta_device_infer_shapes():
    x = torch.zeros(5, 2, 3, device="meta")
    output, (h_n, c_n) = sdrop.LSTM(3, 4, 2, proj_size=2, device="meta", **RATES)(x)
    assert (output.shape, h_n.shape, c_n.shape) == ((5, 2, 2), (2, 2, 2), (2, 2, 4))
    assert sdrop.Linear(3, 4, dropout=0.5, device="meta")(x).shape == (5, 2, 4)
