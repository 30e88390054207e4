"""`sdrop.LSTM` with dropout against a plain masked LSTM, one sequence and one step at a time."""

import itertools

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import sdrop
from sdrop import DropoutPattern
from sdrop.keys import call_key
from sdrop.ops.masks import draw_mask

STEPS, BATCH, INPUT, HIDDEN, PROJECTED = 6, 4, 5, 6, 3
LENGTHS = {"padded": [6] * 4, "sorted": [6, 4, 4, 1], "unsorted": [2, 6, 1, 5]}
PATTERNS = {
    "case I": DropoutPattern("random", "varying"),
    "case II": DropoutPattern("random", "constant"),
    "case III": DropoutPattern("structured", "varying"),
    "case IV": DropoutPattern("structured", "constant"),
    "case III bernoulli": DropoutPattern("structured", "varying", "bernoulli"),
    "case IV bernoulli": DropoutPattern("structured", "constant", "bernoulli"),
}
SITES = {
    "NR": {"input_dropout": 0.4, "dropout": 0.6},
    "RH": {"recurrent_dropout": 0.5},
    "NR and RH": {"input_dropout": 0.4, "dropout": 0.6, "recurrent_dropout": 0.5},
}


def factor(lstm, rate, site, size):
    """What each activation is multiplied by, (T, B, size), from the masks that sdrop draws."""
    shape = {"steps": STEPS, "batch": BATCH, "size": size, "dtype": torch.float64}
    key = call_key(lstm, torch.device("cpu"))
    mask = draw_mask(lstm.pattern, rate, key, site=site, **shape)
    if mask.kept is not None:
        dense = torch.zeros(mask.kept.shape[0], 1, size, dtype=torch.float64)
        for row, kept in zip(dense, mask.kept, strict=True):
            row[0, kept] = mask.scale
    elif mask.mask is not None:
        dense = mask.mask
    else:
        dense = torch.ones(1, 1, size, dtype=torch.float64)
    return dense.expand(STEPS, BATCH, size)


def plain_step(lstm, suffix, x_t, h, c):
    """Hochreiter & Schmidhuber's equations in torch's gate order."""
    weight = dict(lstm.named_parameters())
    gates = weight["weight_ih" + suffix] @ x_t + weight["weight_hh" + suffix] @ h
    gates = gates + weight["bias_ih" + suffix] + weight["bias_hh" + suffix]
    i, f, g, o = gates.split(lstm.hidden_size)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (weight["weight_hr" + suffix] @ h if lstm.proj_size else h), c


def plain_lstm(lstm, x, h_0, c_0, lengths):
    """(T, B, I) to the output, 0 behind each sequence's end, and the last states."""
    directions = ["", "_reverse"] if lstm.bidirectional else [""]
    size = lstm.proj_size or lstm.hidden_size
    h_n, c_n = {}, {}
    for layer in range(lstm.num_layers):
        rate = lstm.dropout if layer else lstm.input_dropout
        x = x * factor(lstm, rate, 4 * layer, x.shape[2])
        outputs = []
        for d, direction in enumerate(directions):
            hidden = factor(lstm, lstm.recurrent_dropout, 4 * layer + 1 + d, size)
            output = {}
            for b, length in enumerate(lengths):
                row = layer * len(directions) + d
                h, c = h_0[row, b], c_0[row, b]
                for t in range(length)[:: -1 if direction else 1]:
                    suffix = f"_l{layer}{direction}"
                    h, c = plain_step(lstm, suffix, x[t, b], h * hidden[t, b], c)
                    output[t, b] = h
                h_n[row, b], c_n[row, b] = h, c
            ended = torch.zeros(size, dtype=torch.float64)
            grid = [[output.get((t, b), ended) for b in range(BATCH)] for t in range(STEPS)]
            outputs.append(torch.stack([torch.stack(row) for row in grid]))
        x = torch.cat(outputs, dim=2)
    last = [
        torch.stack([torch.stack([s[row, b] for b in range(BATCH)]) for row in range(len(h_0))])
        for s in (h_n, c_n)
    ]
    return x, tuple(last)


class Padded(torch.nn.Module):
    """An LSTM that takes and returns padded tensors, whatever form it runs on inside."""

    def __init__(self, run, lstm):
        super().__init__()
        self.run, self.lstm = run, lstm

    def forward(self, x, hx):
        return self.run(self.lstm, x, *hx)


def packed_or_padded(form):
    def run(lstm, x, h_0, c_0):
        if form == "padded":
            return lstm(x, (h_0, c_0))
        packed = pack_padded_sequence(x, LENGTHS[form], enforce_sorted=form == "sorted")
        output, states = lstm(packed, (h_0, c_0))
        return pad_packed_sequence(output, total_length=STEPS)[0], states

    return run


def make_lstm(pattern, sites, **options):
    lstm = sdrop.LSTM(INPUT, HIDDEN, 2, pattern=pattern, dtype=torch.float64, **sites, **options)
    return sdrop.name_sites(lstm)


def make_states(lstm):
    rows = 2 * lstm.num_layers if lstm.bidirectional else lstm.num_layers
    sizes = (lstm.proj_size or HIDDEN, HIDDEN)
    return tuple(torch.randn(rows, BATCH, size, dtype=torch.float64) for size in sizes)


def combinations():
    """Patterns, sites, forms and backends; each with two of the four directions x projections."""
    for number, case in enumerate(itertools.product(PATTERNS, SITES, LENGTHS)):
        projections = (0, PROJECTED) if number % 2 else (PROJECTED, 0)
        yield (*case, "reference", projections)
        if case[1] == "NR":  # with recurrent dropout "auto" takes the same way as "reference"
            yield (*case, "auto", projections)


@pytest.mark.parametrize(
    ("pattern", "sites", "form", "backend", "projections"), list(combinations())
)
def test_the_module_equals_a_plain_masked_lstm(
    pattern, sites, form, backend, projections, run_lstm, assert_same, monkeypatch
):
    monkeypatch.setattr("sdrop.ops.paths.FEW_ROWS", 1)
    for bidirectional, proj_size in zip((False, True), projections, strict=True):
        options = {"bidirectional": bidirectional, "proj_size": proj_size, "backend": backend}
        lstm = make_lstm(PATTERNS[pattern], SITES[sites], **options)
        x = torch.randn(STEPS, BATCH, INPUT, dtype=torch.float64)
        hx = make_states(lstm)

        def plain(lstm, x, h_0, c_0):
            return plain_lstm(lstm, x, h_0, c_0, LENGTHS[form])

        with sdrop.mask_key(3, 7):
            ours = run_lstm(Padded(packed_or_padded(form), lstm), x, hx)
            expected = run_lstm(Padded(plain, lstm), x, hx)
        assert_same(ours, expected)


def small_arguments(pattern, **options):
    """A tiny LSTM with all sites on, and a function of everything that it differentiates."""
    lstm = sdrop.LSTM(
        2,
        3,
        dropout=0.0,
        input_dropout=0.4,
        recurrent_dropout=0.4,
        pattern=pattern,
        dtype=torch.float64,
        backend="reference",
        **options,
    )
    sdrop.name_sites(lstm)
    size = lstm.proj_size or 3
    rows = 2 if lstm.bidirectional else 1
    shapes = [(3, 2, 2), (rows, 2, size), (rows, 2, 3)]
    leaves = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]

    def call(x, h_0, c_0, *parameters):
        named = dict(zip(dict(lstm.named_parameters()), parameters, strict=True))
        with sdrop.mask_key(0, 11):
            output, (h_n, c_n) = torch.func.functional_call(lstm, named, (x, (h_0, c_0)))
        return output, h_n, c_n

    return call, (*leaves, *lstm.parameters())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_gradients_pass_gradcheck(pattern):
    call, leaves = small_arguments(PATTERNS[pattern], bidirectional=True, proj_size=2)
    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)


@pytest.mark.parametrize("pattern", ["case II", "case III"])
def test_every_entry_of_the_jacobian_passes_gradcheck(pattern):
    call, leaves = small_arguments(PATTERNS[pattern])
    assert torch.autograd.gradcheck(call, leaves)


@pytest.mark.parametrize("pattern", ["case I", "case IV"])
def test_second_derivatives_pass_gradgradcheck(pattern):
    call, leaves = small_arguments(PATTERNS[pattern])
    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)
