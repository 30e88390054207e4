"""Which implementations of the ops there are, and why one is missing."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from sdrop.ops.native import NATIVE
from sdrop.ops.native_cuda import CUDA, CudaLibrary, has_kernel, why_not_here

Backend = Literal["auto", "reference", "torch", "cpu", "cuda"]

AVAILABLE = "available"


def backends() -> dict[str, str]:
    """The backends by name, each `"available"` (and with what) or the reason why it is not.

    `backend="auto"` takes the fastest that is available and fits: on a CPU the compiled kernels
    for float32 and half precision, torch's own LSTM where nothing can be skipped and it is faster,
    on a GPU the CUDA kernels, and the reference ops for all else. `backend="torch"` takes torch's
    own modules' kernels on weights in their layout, to be compared with: nothing is skipped, and
    the recurrence of an LSTM layer has no dropout. `sdrop.explain` says which path a call takes.
    """
    if NATIVE.capability is None:
        cpu = NATIVE.reason or "missing"
    else:
        cpu = f"{AVAILABLE} ({NATIVE.capability}{', bfloat16' if NATIVE.bfloat16 else ''})"
    return {"reference": AVAILABLE, "torch": AVAILABLE, "cpu": cpu, "cuda": _cuda()}


def _cuda() -> str:
    if has_kernel("sdrop::lstm_cuda", torch.device("cpu")):
        return f"{AVAILABLE} (emulated on the CPU, for tests)"
    if (reason := why_not_here(CUDA)) is not None:
        return reason
    assert isinstance(CUDA, CudaLibrary)
    return f"{AVAILABLE} ({', '.join(f'sm_{each}' for each in CUDA.architectures)})"


def check_backend(backend: str) -> Backend:
    """Returns `backend`, or says why it cannot be had.

    Raises:
        ValueError: for a name that is none.
        RuntimeError: for a backend that is missing here, with the reason.
    """
    if backend not in get_args(Backend):
        expected = ", ".join(repr(name) for name in get_args(Backend))
        raise ValueError(f"backend={backend!r}: expected one of {expected}")
    status = AVAILABLE if backend == "auto" else backends()[backend]
    if not status.startswith(AVAILABLE):
        raise RuntimeError(f'backend={backend!r} is {status}; use backend="auto"')
    return backend  # type: ignore[return-value]
