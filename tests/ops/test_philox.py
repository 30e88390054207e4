"""Philox4x32-10 against the published known answers, and tensors against integers."""

import pytest
import torch

from sdrop.ops.philox import philox, split_key

# Known answers of the generator's authors: counter, key, result.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_integers_give_the_published_words(counter, key, expected):
    assert philox(counter, key) == expected


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_tensors_give_the_published_words(counter, key, expected):
    counters = tuple(torch.full((2, 3), word) for word in counter)
    keys = tuple(torch.tensor(word) for word in key)
    for word, known in zip(philox(counters, keys), expected, strict=True):
        assert torch.equal(word, torch.full((2, 3), known))


def test_fresh_counters_give_tensors_and_integers_the_same_words():
    counters = torch.randint(0, 2**32, (4, 50))
    key = torch.randint(-(2**63), 2**63 - 1, ())
    words = torch.stack(philox(tuple(counters), split_key(key)))
    for column in range(50):
        one = philox(tuple(counters[:, column].tolist()), split_key(int(key)))
        assert words[:, column].tolist() == list(one)


def test_inputs_are_left_as_they_were():
    counters = torch.randint(0, 2**32, (4, 5))
    before = counters.clone()
    philox(tuple(counters), split_key(torch.tensor(-7)))
    assert torch.equal(counters, before)
