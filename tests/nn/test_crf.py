"""The CRF against brute force over all tag sequences, and what it refuses."""

from itertools import pairwise, product

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence

import sdrop
from sdrop.data.tags import SCHEMES, all_tags, constraints

CLOSE = {"rtol": 0, "atol": 1e-10}


def make_crf(tags=3, allowed=None, dtype=torch.float64):
    crf = sdrop.CRF(tags, allowed, dtype=dtype)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(std=2)
    return crf


def is_legal(path, allowed):
    if allowed is None:
        return True
    start, pairs, end = allowed
    steps = all(pairs[a, b] for a, b in pairwise(path))
    return bool(start[path[0]] and end[path[-1]] and steps)


def score(crf, emissions, path):
    """The module's equation, one term after the other."""
    total = crf.start[path[0]] + crf.end[path[-1]]
    for step, tag in enumerate(path):
        total = total + emissions[step, tag]
        if step:
            total = total + crf.transitions[path[step - 1], tag]
    return total


def all_paths(crf, emissions, allowed):
    """Each legal tag sequence of one sentence (T, C), and its score."""
    paths = [p for p in product(range(crf.num_tags), repeat=len(emissions)) if is_legal(p, allowed)]
    return paths, torch.stack([score(crf, emissions, path) for path in paths])


def brute_force(crf, emissions, tags, allowed=None):
    """Log-likelihood, best tags and marginals (T, C) of one sentence."""
    if not len(emissions):
        return emissions.sum(), [], torch.zeros(0, crf.num_tags)
    paths, scores = all_paths(crf, emissions, allowed)
    likelihood = score(crf, emissions, tags.tolist()) - scores.logsumexp(0)
    marginals = torch.zeros_like(emissions)
    for path, probability in zip(paths, scores.softmax(0), strict=True):
        for step, tag in enumerate(path):
            marginals[step, tag] += probability
    return likelihood, list(paths[int(scores.argmax())]), marginals


def batch_of(lengths, tags=3, allowed=None, seed=0):
    """Emissions (T, B, C), legal tags and a mask; NaN and nonsense stand at padding."""
    torch.manual_seed(seed)
    steps = max(max(lengths), 1)
    emissions = torch.full((steps, len(lengths), tags), torch.nan, dtype=torch.float64)
    gold = torch.full((steps, len(lengths)), -7)
    mask = torch.zeros(steps, len(lengths), dtype=torch.bool)
    for column, length in enumerate(lengths):
        emissions[:length, column] = 3 * torch.randn(length, tags, dtype=torch.float64)
        paths = [p for p in product(range(tags), repeat=length) if length and is_legal(p, allowed)]
        if length:
            gold[:length, column] = torch.tensor(paths[int(torch.randint(len(paths), ()))])
        mask[:length, column] = True
    return emissions, gold, mask


LENGTHS = [[1], [4, 4], [1, 1, 1], [3, 5, 1, 4], [2, 0, 5, 1, 0], [0, 1]]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_likelihood_decoding_and_marginals_equal_brute_force(lengths):
    crf = make_crf()
    emissions, tags, mask = batch_of(lengths)
    likelihood = crf(emissions, tags, mask)
    best, marginals = crf.decode(emissions, mask), crf.marginals(emissions, mask)
    for column, length in enumerate(lengths):
        expected = brute_force(crf, emissions[:length, column], tags[:length, column])
        torch.testing.assert_close(likelihood[column], expected[0], **CLOSE)
        assert best[:length, column].tolist() == expected[1]
        assert (best[length:, column] == -1).all()
        torch.testing.assert_close(marginals[:length, column], expected[2].to(marginals), **CLOSE)
        assert (marginals[length:, column] == 0).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_constraints_leave_legal_sequences_alone(scheme):
    allowed = constraints(all_tags(["X"], scheme), scheme)
    size = len(allowed.start)
    lengths = [1, 4, 2]
    for seed in range(5):
        crf = make_crf(size, allowed)
        emissions, tags, mask = batch_of(lengths, size, allowed, seed)
        likelihood, best = crf(emissions, tags, mask), crf.decode(emissions, mask)
        marginals = crf.marginals(emissions, mask)
        for column, length in enumerate(lengths):
            expected = brute_force(crf, emissions[:length, column], tags[:length, column], allowed)
            torch.testing.assert_close(likelihood[column], expected[0], **CLOSE)
            assert best[:length, column].tolist() == expected[1]
            torch.testing.assert_close(marginals[:length, column], expected[2], **CLOSE)


@pytest.mark.parametrize("scale", [1, 300], ids=["scaled probabilities", "logarithms"])
@pytest.mark.parametrize("allowed", [None, constraints(["O", "B-X", "I-X"], "iob2")])
def test_gradients_equal_those_of_brute_force(allowed, scale):
    crf = make_crf(3, allowed)
    lengths = [3, 5, 1, 0]
    emissions, tags, mask = batch_of(lengths, allowed=allowed)
    emissions = emissions.nan_to_num().mul_(scale).requires_grad_()
    weight = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    inputs = [emissions, *crf.parameters()]
    ours = torch.autograd.grad((crf(emissions, tags, mask) * weight).sum(), inputs)
    total = sum(
        weight[column]
        * brute_force(crf, emissions[:length, column], tags[:length, column], allowed)[0]
        for column, length in enumerate(lengths)
    )
    for mine, expected in zip(ours, torch.autograd.grad(total, inputs), strict=True):
        torch.testing.assert_close(mine, expected, **CLOSE)


def test_a_packed_batch_gives_what_the_padded_one_does():
    crf = make_crf()
    lengths = [2, 5, 3]
    emissions, tags, mask = batch_of(lengths)
    packed = pack_padded_sequence(emissions, lengths, enforce_sorted=False)
    rows = pack_padded_sequence(tags, lengths, enforce_sorted=False).data
    torch.testing.assert_close(crf(packed, rows), crf(emissions, tags, mask), **CLOSE)
    for method in (crf.decode, crf.marginals):
        dense = method(emissions, mask)
        expected = pack_padded_sequence(dense, lengths, enforce_sorted=False).data
        torch.testing.assert_close(method(packed), expected, **CLOSE)


def test_without_a_mask_every_token_counts():
    crf = make_crf()
    emissions, tags, mask = batch_of([4, 4, 4])
    torch.testing.assert_close(crf(emissions, tags), crf(emissions, tags, mask), **CLOSE)
    assert torch.equal(crf.decode(emissions), crf.decode(emissions, mask))
    assert torch.equal(crf.marginals(emissions), crf.marginals(emissions, mask))


def test_an_empty_batch_has_no_likelihoods():
    crf = make_crf()
    emissions, tags = (
        torch.zeros(3, 0, 3, dtype=torch.float64),
        torch.zeros(3, 0, dtype=torch.int64),
    )
    assert crf(emissions, tags).shape == (0,)
    assert crf.decode(emissions).shape == (3, 0)


def test_forbidden_tags_are_impossible_and_take_no_part():
    crf = make_crf(3, constraints(["O", "B-X", "I-X"], "iob2"))
    emissions = torch.randn(2, 1, 3, dtype=torch.float64)
    assert crf(emissions, torch.tensor([[0], [2]])).item() == -torch.inf
    emissions[0, 0, 2] = 1e3  # what is forbidden at the start is scored high above all else
    assert crf.decode(emissions)[0, 0] != 2
    assert crf(emissions, torch.tensor([[1], [2]])).isfinite()
    assert crf.marginals(emissions)[0, 0, 2] == 0


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_float32_keeps_its_digits_far_from_zero(scale):
    torch.manual_seed(1)
    crf = make_crf(5, dtype=torch.float32)
    exact = sdrop.CRF(5, dtype=torch.float64)
    exact.load_state_dict(crf.state_dict())
    emissions, tags = scale * torch.randn(7, 4, 5), torch.randint(5, (7, 4))
    torch.testing.assert_close(
        crf(emissions, tags), exact(emissions.double(), tags).float(), rtol=1e-5, atol=1e-4
    )
    probabilities = crf.marginals(emissions).sum(-1)
    torch.testing.assert_close(probabilities, torch.ones(7, 4), rtol=1e-3, atol=0)


def test_half_precision_is_computed_in_float32():
    crf = make_crf(3, dtype=torch.bfloat16)
    emissions, tags = torch.randn(4, 2, 3, dtype=torch.bfloat16), torch.zeros(4, 2).long()
    assert crf(emissions, tags).dtype == torch.float32


# Dynamo makes an instance of each autograd function that it traces, which torch itself warns of.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_it_compiles_into_one_graph():
    crf = make_crf()
    emissions, tags, _ = batch_of([4, 4])
    emissions.requires_grad_()

    def run(function):
        loss = function(emissions, tags).sum()
        return loss, *torch.autograd.grad(loss, [emissions, *crf.parameters()])

    compiled = torch.compile(crf, fullgraph=True, backend="aot_eager")
    for ours, expected in zip(run(compiled), run(crf), strict=True):
        torch.testing.assert_close(ours, expected, **CLOSE)
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "mask", [[[0], [1], [1]], [[1], [0], [1]], [[0], [0], [1]]], ids=["front", "hole", "last"]
)
def test_a_mask_that_is_no_prefix_is_refused(mask):
    emissions, tags, _ = batch_of([3, 3])
    mask = torch.cat([torch.ones(3, 1, dtype=torch.bool), torch.tensor(mask).bool()], dim=1)
    for call in (
        lambda crf: crf(emissions, tags, mask),
        lambda crf: crf.decode(emissions, mask),
        lambda crf: crf.marginals(emissions, mask),
    ):
        with pytest.raises(ValueError, match="mask of sequence 1 is true again"):
            call(make_crf())


@pytest.mark.parametrize(
    ("error", "wanted", "call"),
    [
        (ValueError, "num_tags to be at least 1", lambda crf, e, t, m: sdrop.CRF(0)),
        (ValueError, "of three parts", lambda crf, e, t, m: sdrop.CRF(3, [m])),
        (ValueError, r"start of shape \(2,\), bool", lambda crf, e, t, m: sdrop.CRF(2, [m] * 3)),
        (RuntimeError, r"\(time, batch, tags\) with 3 tags", lambda crf, e, t, m: crf(e[0], t)),
        (RuntimeError, "with 3 tags, got", lambda crf, e, t, m: crf(e[..., :2], t)),
        (RuntimeError, "at least one step", lambda crf, e, t, m: crf(e[:0], t[:0])),
        (TypeError, "a tensor or a PackedSequence, got list", lambda crf, e, t, m: crf([e], t)),
        (ValueError, "of floating point", lambda crf, e, t, m: crf(e.long(), t)),
        (RuntimeError, r"target of shape \(3, 2\)", lambda crf, e, t, m: crf(e, t[:1])),
        (ValueError, "torch.int64", lambda crf, e, t, m: crf(e, t.float())),
        (IndexError, "class ids from 0 to 2, got 3", lambda crf, e, t, m: crf(e, t * 0 + 3)),
        (IndexError, "class ids from 0 to 2, got -1", lambda crf, e, t, m: crf(e, t * 0 - 1, m)),
        (TypeError, "mask of torch.bool", lambda crf, e, t, m: crf(e, t, m.long())),
        (RuntimeError, r"mask of shape \(3, 2\)", lambda crf, e, t, m: crf(e, t, m[:2])),
        (
            ValueError,
            "leave out the mask",
            lambda crf, e, t, m: crf(pack_sequence([e[:, 0]]), t[:, 0], m),
        ),
    ],
)
def test_errors_say_what_was_expected(error, wanted, call):
    emissions, tags, mask = batch_of([3, 3])
    with pytest.raises(error, match=wanted):
        call(make_crf(), emissions, tags, mask)
