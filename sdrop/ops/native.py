"""The compiled CPU kernels: loading them, or knowing why they are missing.

The library is built when sdrop is installed (see setup.py) and lies beside this package. It holds
kernels for operators whose schemas are declared in Python, on torch's stable ABI.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import torch

_PACKAGE = Path(__file__).resolve().parents[1]
LIBRARY = _PACKAGE / "_C.so"
REASON = _PACKAGE / "_C.missing"
"""Where the installation wrote why it built no library."""

_NOT_BUILT = (
    "not built: this is a checkout that was never installed; install a C++ compiler (g++ 12 or "
    "later) and run `pip install --no-build-isolation -e .`"
)


_SWITCH, _CAPABILITIES = "SDROP_CPU_CAPABILITY", ("avx512", "avx2", "default")


class NativeLibrary(NamedTuple):
    """What came of loading.

    Attributes:
        capability: which compilation of the kernels runs; None if there is none.
        reason: why there is none.
        bfloat16: whether the processor multiplies bfloat16 numbers faster than float32 ones.
    """

    capability: str | None
    reason: str | None
    bfloat16: bool


def _load() -> NativeLibrary:
    asked = os.environ.get(_SWITCH, "")
    if asked and asked not in _CAPABILITIES:
        warnings.warn(
            f"{_SWITCH}={asked}: expected {', '.join(_CAPABILITIES)} or nothing; the CPU kernels "
            "run as without it",
            stacklevel=2,
        )
    if not LIBRARY.exists():
        reason = REASON.read_text().strip() if REASON.exists() else _NOT_BUILT
        return NativeLibrary(None, reason, bfloat16=False)
    try:
        torch.ops.load_library(str(LIBRARY))  # type: ignore[no-untyped-call]
        library = ctypes.CDLL(str(LIBRARY))
        name, bfloat16 = library.sdrop_cpu_capability, library.sdrop_cpu_bfloat16
    except (OSError, AttributeError) as error:
        return NativeLibrary(None, f"built, but it does not load: {error}", bfloat16=False)
    name.restype, bfloat16.restype = ctypes.c_char_p, ctypes.c_bool
    return NativeLibrary(name().decode(), None, bfloat16())


NATIVE = _load()
"""Loaded once, at import. Nothing is compiled here, and nothing fails for want of the library."""
