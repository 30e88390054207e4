"""The modules under `torch.compile(fullgraph=True)`: one graph, the masks and numbers of eager."""

import shutil

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.utils.rnn import pack_padded_sequence

import sdrop
from sdrop import DropoutPattern
from sdrop.models import DropoutRates, LanguageModel

CASE_I, CASE_II = DropoutPattern("random"), DropoutPattern("random", "constant")
CASE_III, CASE_IV = DropoutPattern(), DropoutPattern(time="constant")
RATES = {"dropout": 0.5, "input_dropout": 0.5, "recurrent_dropout": 0.5}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def make_lstm(pattern, **options):
    options = RATES | {"num_layers": 2, "dtype": torch.float64} | options
    return sdrop.name_sites(sdrop.LSTM(5, 6, pattern=pattern, **options))


def make_linear(pattern):
    return sdrop.name_sites(sdrop.Linear(5, 6, dropout=0.5, pattern=pattern, dtype=torch.float64))


def make_cell(pattern):
    rates = {"input_dropout": 0.5, "recurrent_dropout": 0.5}
    return sdrop.name_sites(sdrop.LSTMCell(5, 6, pattern=pattern, dtype=torch.float64, **rates))


def results(run, module, *arguments):
    """The outputs and, by `autograd.grad`, the gradients of all parameters."""
    flat, _ = torch.utils._pytree.tree_flatten(run(*arguments))
    loss = sum(value.square().sum() for value in flat)
    return [value.detach() for value in flat] + list(
        torch.autograd.grad(loss, list(module.parameters()))
    )


def assert_equal_to_eager(module, *arguments, backend="aot_eager", tolerance=0.0):
    """Outputs and gradients of three keys, from one graph."""
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(module, fullgraph=True, backend=counter)
    for step in (1, 2, 3):
        with sdrop.mask_key(7, step):
            expected = results(module, module, *arguments)
        with sdrop.mask_key(7, step):
            ours = results(compiled, module, *arguments)
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
        parameters = list(module.parameters())
        for grad, parameter in zip(ours[-len(parameters) :], parameters, strict=True):
            assert grad.stride() == parameter.stride()
    assert counter.frame_count == 1


@pytest.mark.parametrize("pattern", [CASE_I, CASE_IV], ids=str)
def test_a_compiled_lstm_equals_eager_and_is_compiled_once(pattern):
    assert_equal_to_eager(make_lstm(pattern), torch.randn(7, 4, 5, dtype=torch.float64))


def test_a_compiled_bidirectional_projected_lstm_equals_eager():
    lstm = make_lstm(CASE_III, bidirectional=True, proj_size=3, num_layers=1, dropout=0.0)
    assert_equal_to_eager(lstm, torch.randn(7, 4, 5, dtype=torch.float64))


@pytest.mark.parametrize("pattern", [CASE_II, CASE_III], ids=str)
def test_a_compiled_linear_layer_equals_eager_and_is_compiled_once(pattern):
    assert_equal_to_eager(make_linear(pattern), torch.randn(7, 4, 5, dtype=torch.float64))


def test_a_compiled_cell_equals_eager_and_is_compiled_once():
    assert_equal_to_eager(make_cell(CASE_III), torch.randn(4, 5, dtype=torch.float64))


def test_a_compiled_language_model_equals_eager_and_is_compiled_once():
    rates = DropoutRates(0.5, 0.5, 0.5, 0.5)
    model = LanguageModel(11, embedding_dim=5, hidden_size=6, rates=rates).double()
    ids = torch.randint(11, (8, 3))
    assert_equal_to_eager(sdrop.name_sites(model), ids[:-1], ids[1:])


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inductor's own imports
def test_an_lstm_compiled_by_inductor_equals_eager():
    lstm = make_lstm(CASE_III, bidirectional=True)
    x = torch.randn(7, 4, 5, dtype=torch.float64)
    assert_equal_to_eager(lstm, x, backend="inductor", tolerance=1e-12)
    assert_equal_to_eager(make_linear(CASE_IV), x, backend="inductor", tolerance=1e-12)


@pytest.mark.parametrize("make", [make_lstm, make_linear])
def test_keys_of_the_default_generator_are_those_of_eager(make):
    module, x = make(CASE_III).float(), torch.randn(7, 4, 5)  # by the compiled kernels, if built
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    drawn = []
    for run in (module, compiled):
        torch.manual_seed(1)
        outputs = [run(x) for _ in range(3)]
        drawn.append([o[0] if isinstance(o, tuple) else o for o in outputs])
    for expected, ours in zip(*drawn, strict=True):
        assert torch.equal(ours, expected)
    assert not torch.equal(drawn[1][0], drawn[1][1])


def test_other_lengths_and_batch_sizes_compile_once_more_at_most():
    counter = CompileCounterWithBackend("eager")
    lstm = make_lstm(CASE_III, num_layers=1, dropout=0.0)
    compiled = torch.compile(lstm, fullgraph=True, backend=counter)
    for steps, batch in ((7, 3), (9, 3), (11, 4), (13, 5), (40, 2)):
        x = torch.randn(steps, batch, 5, dtype=torch.float64)
        with sdrop.mask_key(0, steps):
            expected = lstm(x)[0]
        with sdrop.mask_key(0, steps):
            assert torch.equal(compiled(x)[0], expected)
    assert counter.frame_count <= 3


def test_packed_sequences_compile_and_give_the_results_of_eager():
    lstm = make_lstm(CASE_III)
    x = torch.randn(7, 3, 5, dtype=torch.float64)
    packed = pack_padded_sequence(x, [4, 7, 1], enforce_sorted=False)
    compiled = torch.compile(lstm, fullgraph=True, backend="eager")
    with sdrop.mask_key(0, 1):
        expected, (h_n, _) = lstm(packed)
    with sdrop.mask_key(0, 1):
        ours, (our_h_n, _) = compiled(packed)
    assert torch.equal(ours.data, expected.data)
    assert torch.equal(our_h_n, h_n)


@pytest.mark.parametrize("pattern", [CASE_III, CASE_IV], ids=str)
def test_a_loop_over_a_cell_compiles_with_its_sequence(pattern):
    cell = make_cell(pattern)

    def loop(x):
        h = None
        with sdrop.sequence():
            for step in x.unbind():
                h = cell(step, h)
        return h

    x = torch.randn(4, 3, 5, dtype=torch.float64)
    with sdrop.mask_key(0, 1):
        expected = loop(x)
    with sdrop.mask_key(0, 1):
        ours = torch.compile(loop, fullgraph=True, backend="eager")(x)
    assert torch.equal(ours[0], expected[0])
    assert torch.equal(ours[1], expected[1])


def test_evaluation_compiles_and_drops_nothing():
    for module in (make_lstm(CASE_III), make_linear(CASE_III)):
        module.eval()
        x = torch.randn(40, 2, 5, dtype=torch.float64)
        ours = torch.compile(module, fullgraph=True, backend="eager")(x)
        expected = module(x)
        if isinstance(ours, tuple):
            ours, expected = ours[0], expected[0]
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-14)


def mask_arguments(pattern, size, site):
    mask = sdrop.functional.draw_mask(
        pattern, 0.5, torch.tensor(5), site=site, steps=4, batch=3, size=size, dtype=torch.float64
    )
    return mask.kept, mask.mask, mask.scale


def leaf(*shape, k_major=False):
    values = torch.randn(*(shape[::-1] if k_major else shape), dtype=torch.float64)
    return (values.t() if k_major else values).requires_grad_()


@pytest.mark.parametrize(
    ("pattern", "rows", "sizes"),
    [(CASE_I, (4, 3), None), (CASE_III, (8,), [3, 2, 2, 1]), (CASE_IV, (8,), [3, 2, 2, 1])],
    ids=["case I padded", "case III packed", "case IV packed"],
)
def test_the_ops_keep_torchs_rules_for_operators(pattern, rows, sizes):
    sizes = None if sizes is None else torch.tensor(sizes)
    x, states = leaf(*rows, 2), (leaf(3, 5), leaf(3, 5))
    weights = leaf(20, 2, k_major=True), leaf(20, 5, k_major=True), leaf(20)
    sites = (*mask_arguments(pattern, 2, 0), *mask_arguments(pattern, 5, 1))
    torch.library.opcheck(torch.ops.sdrop.lstm, (x, *states, *weights, None, *sites, sizes, True))
    linear = (x, leaf(6, 2, k_major=True), leaf(6), *mask_arguments(pattern, 2, 0), sizes)
    torch.library.opcheck(torch.ops.sdrop.linear, linear)


def test_the_op_with_a_projection_and_no_bias_keeps_torchs_rules():
    x, states = leaf(4, 3, 2), (leaf(3, 2), leaf(3, 5))
    weights = leaf(20, 2, k_major=True), leaf(20, 2, k_major=True), None, leaf(2, 5, k_major=True)
    nothing = (None, None, 1.0)
    torch.library.opcheck(
        torch.ops.sdrop.lstm, (x, *states, *weights, *nothing, *nothing, None, False)
    )


@pytest.mark.parametrize("proj_size", [0, 2])
def test_the_backward_ops_return_the_layout_that_the_compiler_is_told(proj_size):
    x, h_0, c_0 = leaf(4, 3, 2), leaf(3, proj_size or 5), leaf(3, 5)
    weights = leaf(20, 2, k_major=True), leaf(20, proj_size or 5, k_major=True)
    projection = leaf(2, 5, k_major=True) if proj_size else None
    sites = (*mask_arguments(CASE_IV, 2, 0), *mask_arguments(CASE_IV, proj_size or 5, 1))
    with torch.no_grad():
        results = torch.ops.sdrop.lstm(
            x, h_0, c_0, *weights, leaf(20), projection, *sites, None, False
        )
    output, h_n, c_n, gates, cells = results
    arguments = (x, h_0, c_0, *weights, projection, *sites, None, False, output, gates, cells)
    checks = {"test_utils": ("test_schema", "test_faketensor")}
    torch.library.opcheck(torch.ops.sdrop.lstm_backward, (output, h_n, c_n, *arguments), **checks)
    linear = (leaf(4, 3, 6), x, leaf(6, 2, k_major=True), *mask_arguments(CASE_IV, 2, 0), None)
    torch.library.opcheck(torch.ops.sdrop.linear_backward, linear, **checks)


@pytest.mark.filterwarnings(
    "ignore::torch.jit.TracerWarning", "ignore:.torch.jit:DeprecationWarning"
)
def test_a_traced_layer_computes_the_same():
    lstm = sdrop.LSTM(6, 7, num_layers=2).eval()
    traced = torch.jit.trace(lstm, (torch.randn(5, 4, 6),))  # which runs it twice and compares
    x = torch.randn(9, 3, 6)
    torch.testing.assert_close(traced(x)[0], lstm(x)[0])
