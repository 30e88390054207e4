"""Masks drawn by the compiled kernels have the bits that sdrop/ops/masks.py defines."""

import pytest
import torch

from sdrop.ops import masks


@pytest.mark.parametrize("key", [0, -1, 12345678901234567, -(2**62)])
@pytest.mark.parametrize(("size", "kept"), [(1, 1), (7, 3), (650, 325), (1001, 1000), (64, 0)])
def test_kept_indices_are_those_of_the_reference(key, size, kept):
    arguments = (torch.tensor(key), 3, 5, 9, size, kept)
    expected = masks.kept_indices(*arguments)
    assert torch.equal(torch.ops.sdrop.kept_indices(*arguments), expected)


def test_of_equal_words_the_first_is_kept():
    key, size = torch.tensor(77), 300_000  # about ten pairs of equal words
    words = masks.random_words(key, 0, 0, (1, 1, size)).flatten()
    ranked, order = words.sort(stable=True)
    places = (ranked[1:] == ranked[:-1]).nonzero().flatten().tolist()
    assert places
    for place in places:
        kept = torch.ops.sdrop.kept_indices(key, 0, 0, 1, size, place + 1)
        assert torch.equal(kept[0], order[: place + 1].sort().values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 1 - 2**-20])
def test_keep_masks_are_those_of_the_reference(dtype, rate):
    arguments = (torch.tensor(987654321987654321), 2**32 - 1, 4, 3, 5, 33, rate, dtype)
    expected = masks.keep_mask(*arguments)
    found = torch.ops.sdrop.keep_mask(*arguments)
    assert found.dtype == dtype
    assert torch.equal(found, expected)


def test_the_compiled_kernels_are_the_ones_in_use():
    assert torch._C._dispatch_has_kernel_for_dispatch_key("sdrop::kept_indices", "CPU")
    assert torch._C._dispatch_has_kernel_for_dispatch_key("sdrop::keep_mask", "CPU")
