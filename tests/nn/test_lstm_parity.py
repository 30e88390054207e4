"""`sdrop.LSTM` at p = 0 against `torch.nn.LSTM` in float64: outputs, states and every gradient."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import sdrop

FORMS = ("padded", "unbatched", "sorted", "unsorted")
ODD_SIZES = [
    # T, B, input_size, hidden_size
    (1, 1, 1, 1),
    (7, 3, 5, 17),
    (63, 3, 1, 2),
    (63, 1, 4, 1),
    (7, 1, 3, 2),
    (1, 3, 2, 5),
]


def covering_options():
    """Each (layers, directions, projection), the other options in turns so that all pairs occur."""
    combinations = itertools.product((1, 2, 3), (False, True), (0, 1))
    for n, (layers, bidirectional, proj_size) in enumerate(combinations):
        yield {
            "num_layers": layers,
            "bidirectional": bidirectional,
            "proj_size": proj_size,
            "bias": n % 3 != 1,
            "batch_first": n % 5 in (1, 2),
        }


def make_pair(backend, training=True, **options):
    """An `nn.LSTM` and an `sdrop.LSTM` from the same seed."""
    modules = []
    for make, own in ((nn.LSTM, {}), (sdrop.LSTM, {"backend": backend})):
        torch.manual_seed(1)
        modules.append(make(dtype=torch.float64, **options, **own).train(training))
    return modules


def make_input(form, steps, batch, size, batch_first):
    """A tensor, and what turns it into the module's input."""
    if form == "unbatched":
        return torch.randn(steps, size, dtype=torch.float64), lambda x: x
    shape = (batch, steps) if batch_first else (steps, batch)
    x = torch.randn(*shape, size, dtype=torch.float64)
    if form == "padded":
        return x, lambda x: x
    lengths = [max(1, steps // 2), steps, 1, 2][:batch] if batch > 1 else [steps]
    if form == "sorted":
        lengths.sort(reverse=True)
    return x, lambda x: pack_padded_sequence(x, lengths, batch_first, form == "sorted")


def make_states(module, form, batch):
    rows = module.num_layers * (2 if module.bidirectional else 1)
    shape = (rows,) if form == "unbatched" else (rows, batch)
    sizes = (module.proj_size or module.hidden_size, module.hidden_size)
    return tuple(torch.randn(*shape, size, dtype=torch.float64) for size in sizes)


@pytest.fixture
def no_torch_kernel(monkeypatch):
    """Makes any call of torch's own LSTM an error, once switched on."""

    def forbid():
        def refuse(*arguments):
            raise AssertionError("the reference backend called torch's own LSTM")

        monkeypatch.setattr(torch._VF, "lstm", refuse)

    return forbid


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "case", list(enumerate(covering_options())), ids=lambda c: f"options{c[0]}"
)
def test_all_constructor_options_give_torchs_results_and_gradients(
    case, form, backend, run_lstm, assert_same, no_torch_kernel
):
    number, options = case
    steps, batch = (9, 4) if number % 2 else (11, 3)
    theirs, ours = make_pair(
        backend, training=number % 4 < 2, input_size=3, hidden_size=4, **options
    )
    x, to_input = make_input(form, steps, batch, 3, options["batch_first"])
    hx = make_states(theirs, form, batch) if (number + FORMS.index(form)) % 2 else None
    expected = run_lstm(theirs, x, hx, to_input)
    if backend == "reference":
        no_torch_kernel()
    assert_same(run_lstm(ours, x, hx, to_input), expected)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize(("steps", "batch", "size", "hidden_size"), ODD_SIZES)
def test_odd_sizes_give_torchs_results(
    steps, batch, size, hidden_size, backend, run_lstm, assert_same
):
    for form in FORMS:
        options = {"input_size": size, "hidden_size": hidden_size, "bidirectional": True}
        theirs, ours = make_pair(backend, **options)
        x, to_input = make_input(form, steps, batch, size, batch_first=False)
        expected = run_lstm(theirs, x, None, to_input)
        assert_same(run_lstm(ours, x, None, to_input), expected)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_a_batch_of_no_sequences_is_taken_as_torch_takes_it(backend, rate, run_lstm, assert_same):
    options = {"input_size": 3, "hidden_size": 4, "num_layers": 2}
    theirs, ours = make_pair(backend, **options)
    ours.input_dropout = ours.dropout = ours.recurrent_dropout = rate
    x = torch.randn(5, 0, 3, dtype=torch.float64)
    assert_same(run_lstm(ours, x), run_lstm(theirs, x))


@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_a_packed_output_carries_torchs_order_and_batch_sizes(enforce_sorted):
    theirs, ours = make_pair("reference", input_size=3, hidden_size=4)
    lengths = [5, 2, 1] if enforce_sorted else [2, 5, 1]
    x = torch.randn(5, 3, 3, dtype=torch.float64)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
    for a, b in zip(ours(packed)[0][1:], theirs(packed)[0][1:], strict=True):
        assert a is b or torch.equal(a, b)


def test_non_contiguous_inputs_and_states_give_torchs_results(run_lstm, assert_same):
    for backend in ("reference", "auto"):
        theirs, ours = make_pair(backend, input_size=3, hidden_size=4)
        x = torch.randn(3, 2, 20, dtype=torch.float64).permute(2, 1, 0)
        hx = tuple(torch.randn(4, 2, 1, dtype=torch.float64).permute(2, 1, 0) for _ in range(2))

        def keep_strides(values, module=ours):
            return values.permute(2, 1, 0).contiguous().permute(2, 1, 0)

        assert_same(run_lstm(ours, x, hx, keep_strides), run_lstm(theirs, x, hx, keep_strides))


@pytest.mark.parametrize("needs", ["x", "h_0", "c_0", "weight_hh_l0", "bias_ih_l0", "weight_hr_l0"])
def test_gradients_are_right_where_one_tensor_alone_wants_one(needs):
    grads = []
    for module in make_pair("reference", input_size=3, hidden_size=4, proj_size=2):
        module.requires_grad_(False)
        torch.manual_seed(2)
        values = {
            "x": torch.randn(6, 2, 3),
            "h_0": torch.randn(1, 2, 2),
            "c_0": torch.randn(1, 2, 4),
        }
        values = {name: value.double() for name, value in values.items()}
        leaf = (values | dict(module.named_parameters()))[needs].requires_grad_()
        output, (h_n, _) = module(values["x"], (values["h_0"], values["c_0"]))
        (output.square().sum() + h_n.sum()).backward()
        grads.append(leaf.grad)
        others = [p for p in module.parameters() if p is not leaf]
        assert all(p.grad is None for p in others)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("used", ["output", "h_n", "c_n"])
def test_gradients_are_right_where_one_result_alone_is_used(used):
    grads = []
    for module in make_pair("reference", input_size=3, hidden_size=4, bidirectional=True):
        torch.manual_seed(2)
        x = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
        output, (h_n, c_n) = module(x)
        {"output": output, "h_n": h_n, "c_n": c_n}[used].square().sum().backward()
        grads.append([x.grad] + [p.grad for p in module.parameters()])
    for theirs, ours in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_second_derivatives_are_torchs(backend, assert_same):
    found = []
    for module in make_pair(backend, input_size=3, hidden_size=4):
        torch.manual_seed(2)
        x = torch.randn(20, 2, 3, dtype=torch.float64, requires_grad=True)
        (grad,) = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
        names, parameters = zip(*module.named_parameters(), strict=True)
        second = torch.autograd.grad(grad.square().sum(), parameters)
        found.append(dict(zip(names, second, strict=True)))
    assert_same(found[1], found[0])
