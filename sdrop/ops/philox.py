"""Philox4x32-10, the counter-based generator under every mask.

J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A counter-based
generator has no state: any word can be computed on its own, on any device, in any order.
The one function works on Python integers and on int64 tensors alike, since both wrap the 64-bit
product in the same way once it is masked.
"""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

Word = TypeVar("Word", int, Tensor)

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(
    counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]
) -> tuple[Word, Word, Word, Word]:
    """Four random words for a counter and a key.

    Args:
        counter: four words in [0, 2**32), integers or int64 tensors of one shape.
        key: two words in [0, 2**32).

    Returns:
        four words in [0, 2**32), of the counter's shape.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product2 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        high0, high2 = product0 >> 32, product2 >> 32
        high0 &= _MASK  # in place on tensors, which halves the time; a new value on integers
        high2 &= _MASK
        high0 ^= c3
        high2 ^= c1
        high0 ^= k1
        high2 ^= k0
        product0 &= _MASK
        product2 &= _MASK
        c0, c1, c2, c3 = high2, product2, high0, product0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def split_key(key: Word) -> tuple[Word, Word]:
    """The low and the high half of a 64-bit key, as two words in [0, 2**32)."""
    return key & _MASK, (key >> 32) & _MASK
