"""Kept sets and masks: exact, reproducible, one definition for all devices and orders of calls."""

import pytest
import torch

from sdrop import DropoutPattern
from sdrop.ops.masks import (
    KEEP_ALL,
    Mask,
    dense_mask,
    draw_mask,
    keep_mask,
    kept_indices,
    random_words,
)
from sdrop.ops.philox import philox, split_key

PATTERNS = [
    DropoutPattern(space, time, keep)
    for space in ("structured", "random")
    for time in ("varying", "constant")
    for keep in ("count", "bernoulli")
]


@pytest.fixture
def key():
    return torch.randint(-(2**63), 2**63 - 1, ())


def draw(pattern, key, *, rate=0.5, site=0, steps=6, batch=3, size=17, first_step=0):
    return draw_mask(
        pattern,
        rate,
        key,
        site=site,
        steps=steps,
        batch=batch,
        size=size,
        dtype=torch.float64,
        first_step=first_step,
    )


def factors(mask, *, steps=6, batch=3, size=17):
    """Any mask as the (T, B, H) factors that it stands for."""
    return dense_mask(mask, size, torch.float64).expand(steps, batch, size)


def test_a_word_is_the_lane_of_its_counter(key):
    words = random_words(key, 5, 2, (3, 4, 10))
    for t, b, j in [(0, 0, 0), (2, 3, 9), (1, 2, 6)]:
        lanes = philox((j // 4, t + 2, b, 5), split_key(int(key)))
        assert words[t, b, j].item() == lanes[j % 4]


def test_the_kept_set_is_the_smallest_words_in_ascending_order(key):
    words = random_words(key, 1, 0, (40, 1, 23)).squeeze(1)
    kept = kept_indices(key, 1, 0, 40, 23, 9)
    for row, expected in zip(kept, words, strict=True):
        assert row.tolist() == sorted(expected.argsort(stable=True)[:9].tolist())


def test_equal_words_keep_the_lower_index(monkeypatch, key):
    monkeypatch.setattr(
        "sdrop.ops.masks.random_words", lambda *a: torch.tensor([[[7, 3, 3, 3, 9, 3]]])
    )
    # The definition in PyTorch ops, beside which a compiled kernel may be in use.
    assert kept_indices(key, 0, 0, 1, 6, 2).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("size", "rate", "kept"), [(650, 0.5, 325), (17, 0.3, 12), (1, 0.9, 1), (100, 0.65, 35)]
)
def test_the_kept_count_is_exact_in_each_step(key, size, rate, kept):
    mask = draw(DropoutPattern(), key, rate=rate, size=size, steps=50)
    if kept == size:
        assert mask.is_all
        return
    assert mask.kept.shape == (50, kept)
    assert mask.scale == pytest.approx(size / kept)
    assert (mask.kept.diff(dim=1) > 0).all()
    assert 0 <= mask.kept.min() <= mask.kept.max() < size


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_the_batch_shares_a_mask_just_where_space_is_structured(key, pattern):
    drawn = factors(draw(pattern, key))
    assert bool((drawn == drawn[:, :1]).all()) == (pattern.space == "structured")


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_the_steps_share_a_mask_just_where_time_is_constant(key, pattern):
    drawn = factors(draw(pattern, key))
    assert bool((drawn == drawn[:1]).all()) == (pattern.time == "constant")


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_sites_and_keys_draw_their_own_masks(key, pattern):
    drawn = factors(draw(pattern, key))
    assert not torch.equal(drawn, factors(draw(pattern, key, site=1)))
    assert not torch.equal(drawn, factors(draw(pattern, key + 1)))
    assert torch.equal(drawn, factors(draw(pattern, key.clone())))


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_step_drawn_alone_is_the_step_of_the_sequence(key, pattern):
    drawn = factors(draw(pattern, key))
    for t in reversed(range(6)):
        alone = factors(draw(pattern, key, steps=1, first_step=t), steps=1)
        assert torch.equal(alone[0], drawn[t])


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_longer_or_wider_batch_begins_with_the_same_masks(key, pattern):
    drawn = factors(draw(pattern, key))
    longer = factors(draw(pattern, key, steps=9, batch=5), steps=9, batch=5)
    assert torch.equal(longer[:6, :3], drawn)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.65])
def test_bernoulli_masks_are_zero_or_the_inverse_of_what_is_kept(key, rate):
    mask = keep_mask(key, 0, 0, 9, 2, 31, rate, torch.float64)
    assert mask.shape == (9, 2, 31)
    assert set(mask.unique().tolist()) == {0.0, 1.0 / (1.0 - rate)}


def test_structured_bernoulli_may_keep_none(key):
    pattern = DropoutPattern(keep="bernoulli")
    mask = draw(pattern, key, rate=0.9, size=2, steps=200).mask
    assert mask.shape == (200, 1, 2)
    assert (mask.sum(dim=2) == 0).any()


def test_a_rate_of_zero_keeps_all_and_draws_nothing(key):
    for pattern in PATTERNS:
        assert draw(pattern, key, rate=0.0) == KEEP_ALL


def test_a_rate_that_rounds_to_no_neuron_keeps_all(key):
    assert draw(DropoutPattern(), key, rate=0.02).is_all


def test_dense_mask_scatters_the_scale_to_the_kept():
    mask = Mask(kept=torch.tensor([[0, 2], [1, 2]]), scale=2.0)
    expected = torch.tensor([[[2.0, 0, 2]], [[0, 2.0, 2]]])
    assert torch.equal(dense_mask(mask, 3, torch.float32), expected)
    assert dense_mask(KEEP_ALL, 3, torch.float32) is None


@pytest.mark.parametrize("op", ["kept_indices", "keep_mask"])
def test_the_mask_ops_pass_opcheck(key, op):
    arguments = {
        "kept_indices": (key, 3, 1, 4, 11, 5),
        "keep_mask": (key, 3, 1, 4, 2, 11, 0.4, torch.float32),
    }
    torch.library.opcheck(getattr(torch.ops.sdrop, op).default, arguments[op])
