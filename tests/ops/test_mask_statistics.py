"""Masks are random: chi-square tests over 1e5 draws at significance 1e-6, fixed seeds.

A kept set of k of H neurons should be uniform over all such sets, and two sets that differ in key,
site, step or batch column independent of each other. Independence is tested by the size of their
overlap, which is then hypergeometric.
"""

import math

import pytest
import torch

from sdrop.ops.masks import keep_mask, kept_indices, random_words

DRAWS = 100_000
SIZE, KEPT = 31, 13
NORMAL_QUANTILE = 4.7534  # of 1 - 1e-6


def chi_square_bound(degrees):
    """The 1 - 1e-6 quantile of chi-square (Wilson & Hilferty 1931; within 1 % for degrees > 3)."""
    spread = 2.0 / (9.0 * degrees)
    return degrees * (1.0 - spread + NORMAL_QUANTILE * math.sqrt(spread)) ** 3


def drawn(seed, site=0, first_step=0):
    """(DRAWS, SIZE) booleans: what successive steps keep."""
    kept = kept_indices(torch.tensor(seed), site, first_step, DRAWS, SIZE, KEPT)
    return torch.zeros(DRAWS, SIZE, dtype=torch.bool).scatter_(1, kept, True)


def assert_independent(one, other):
    """The overlaps of the rows follow the hypergeometric distribution."""
    overlaps = (one & other).sum(dim=1)
    counts = torch.bincount(overlaps, minlength=KEPT + 1).tolist()
    total = math.comb(SIZE, KEPT)
    expected = [
        len(one) * math.comb(KEPT, n) * math.comb(SIZE - KEPT, KEPT - n) / total
        for n in range(KEPT + 1)
    ]
    # Cells with few expected draws are pooled, as the chi-square approximation needs.
    large = [n for n in range(KEPT + 1) if expected[n] >= 10]
    pairs = [(counts[n], expected[n]) for n in large]
    pairs.append((len(one) - sum(c for c, _ in pairs), len(one) - sum(e for _, e in pairs)))
    statistic = sum((c - e) ** 2 / e for c, e in pairs if e > 1)
    assert statistic < chi_square_bound(len(pairs) - 1)


def test_each_neuron_is_kept_with_probability_k_over_h():
    counts = drawn(1).sum(dim=0).double()
    share = KEPT / SIZE
    variance = DRAWS * share * (1 - share) * SIZE / (SIZE - 1)  # counts sum to a constant
    statistic = ((counts - DRAWS * share) ** 2 / variance).sum().item()
    assert statistic < chi_square_bound(SIZE - 1)


def test_each_neuron_is_kept_with_probability_k_over_h_over_keys():
    keys, steps = 1000, 100
    counts = torch.zeros(SIZE, dtype=torch.float64)
    for seed in range(keys):
        kept = kept_indices(torch.tensor(seed), 0, 0, steps, SIZE, KEPT)
        counts += torch.bincount(kept.flatten(), minlength=SIZE)
    share = KEPT / SIZE
    variance = keys * steps * share * (1 - share) * SIZE / (SIZE - 1)
    statistic = ((counts - keys * steps * share) ** 2 / variance).sum().item()
    assert statistic < chi_square_bound(SIZE - 1)


def test_pairs_of_neurons_are_kept_together_as_often_as_independent_draws_are():
    kept = drawn(2).double()
    together = (kept.t() @ kept)[*torch.triu_indices(SIZE, SIZE, offset=1)]
    share = KEPT * (KEPT - 1) / (SIZE * (SIZE - 1))
    deviation = (together - DRAWS * share).abs() / math.sqrt(DRAWS * share * (1 - share))
    # The largest of 465 standard normal values: each is tested at 1e-6 / 465, two-sided.
    assert deviation.max().item() < 6.1


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("successive steps", {"seed": 3, "first_step": 1}),
        ("another key", {"seed": 4}),
        ("a key that differs in its highest bit", {"seed": 3 - 2**63}),
        ("another site", {"seed": 3, "site": 1}),
    ],
)
def test_sets_are_independent_of(what, other):
    assert_independent(drawn(3), drawn(**other))


def test_a_set_is_not_independent_of_itself():
    with pytest.raises(AssertionError):
        assert_independent(drawn(3), drawn(3))


def test_batch_columns_of_a_random_mask_are_independent():
    words = random_words(torch.tensor(5), 0, 0, (DRAWS, 2, SIZE))
    kept = words.argsort(dim=2).argsort(dim=2) < KEPT
    assert_independent(kept[:, 0], kept[:, 1])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.65])
def test_bernoulli_masks_keep_each_element_with_probability_one_minus_p(rate):
    mask = keep_mask(torch.tensor(6), 0, 0, DRAWS, 1, 8, rate, torch.float64)
    counts = (mask > 0).sum(dim=(0, 1)).double()
    variance = DRAWS * rate * (1 - rate)
    assert ((counts - DRAWS * (1 - rate)) ** 2 / variance).sum().item() < chi_square_bound(8)


def test_words_are_uniform_in_their_high_and_low_bytes():
    words = random_words(torch.tensor(7), 0, 0, (DRAWS // 10, 1, 100)).flatten()
    for byte in (words >> 24, words & 0xFF):
        counts = torch.bincount(byte, minlength=256).double()
        expected = words.numel() / 256
        assert ((counts - expected) ** 2 / expected).sum().item() < chi_square_bound(255)
