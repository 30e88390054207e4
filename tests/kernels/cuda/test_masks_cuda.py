"""Masks drawn by the CUDA kernels have the bits that sdrop/ops/masks.py defines."""

import pytest
import torch

from sdrop.ops import masks, masks_cuda  # noqa: F401  # declares the operators


@pytest.mark.parametrize("key", [0, -1, 12345678901234567, -(2**62)])
@pytest.mark.parametrize(
    ("size", "kept"), [(1, 1), (7, 3), (650, 325), (1001, 1000), (64, 0), (2600, 1)]
)
def test_kept_indices_are_those_of_the_reference(device, in_each_order, key, size, kept):
    arguments = (torch.tensor(key, device=device), 3, 5, 3, size, kept)
    (found,) = in_each_order(lambda: [torch.ops.sdrop.kept_indices_cuda(*arguments)])
    assert torch.equal(found, masks.kept_indices(*arguments))


def first_tie(key):
    """The first two equal words in the order of words: the place of the first, both indices."""
    words = masks.random_words(key, 2, 0, (1, 1, 400_000)).flatten()
    ordered, index = (words * 2**20 + torch.arange(len(words))).sort()
    equal = (ordered[1:] >> 20) == (ordered[:-1] >> 20)
    assert bool(equal.any()), "among so many words two of 2**32 are equal"
    place = int(equal.nonzero()[0])
    return place, int(index[place]), int(index[place + 1])


def test_of_equal_words_the_lower_index_is_kept(device):
    key = torch.tensor(11)
    place, lower, higher = first_tie(key)
    kept = torch.ops.sdrop.kept_indices_cuda(key.to(device), 2, 0, 1, 400_000, place + 1)[0].cpu()
    assert lower in kept
    assert higher not in kept
    assert bool((kept.diff() > 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 1 - 2**-20])
def test_keep_masks_are_those_of_the_reference(device, in_each_order, dtype, rate):
    key = torch.tensor(987654321987654321, device=device)
    arguments = (key, 2**32 - 1, 4, 3, 5, 33, rate, dtype)
    (found,) = in_each_order(lambda: [torch.ops.sdrop.keep_mask_cuda(*arguments)])
    assert found.dtype == dtype
    assert torch.equal(found, masks.keep_mask(*arguments))


def test_a_draw_of_more_than_there_are_is_refused(device):
    with pytest.raises(RuntimeError, match="expected 0 to 6, got 7"):
        torch.ops.sdrop.kept_indices_cuda(torch.tensor(1, device=device), 0, 0, 1, 6, 7)
