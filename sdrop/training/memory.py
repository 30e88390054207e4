"""Freed memory that stays with the process, for the next training step."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # <malloc.h>
_NEVER, _NONE = -1, 0
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Asks the C library to keep what is freed, instead of giving it back to the system.

    A training step frees tensors that the next one allocates again: gradients, logits, activations.
    glibc returns any above 32 MB to the system at once, which then has to provide cleared pages
    anew. On a virtual machine with two cores of an AMD EPYC a step of stock modules at the sizes of
    Zaremba's large model took 0.90 of its time with this. The most memory that a process had was
    1.04 to 1.2 times as much; in 600 steps of random lengths and batches it stopped growing by the
    hundredth.

    For the whole process and for good: call it in a program, before the first large tensor, not in
    a library. The recipes do, `recipes.bench` too, for stock modules and sdrop's alike.

    Returns:
        whether it was done: nothing changes where the C library is not glibc, and where the
        environment sets up its allocator (`MALLOC_TRIM_THRESHOLD_` and its like, or
        `GLIBC_TUNABLES`). An allocator that is loaded before glibc's takes no notice.
    """
    own = any(name in os.environ for name in _OWN_SETTINGS)
    if own or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - another C library may have a mallopt that differs
    except (OSError, TypeError, AttributeError):
        return False
    settings = ((_M_MMAP_MAX, _NONE), (_M_TRIM_THRESHOLD, _NEVER))
    return all(libc.mallopt(name, value) == 1 for name, value in settings)
