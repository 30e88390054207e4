"""Which implementations of the ops there are, and why one is missing."""

from __future__ import annotations

from typing import Literal, get_args

Backend = Literal["auto", "reference", "cpu", "cuda"]

AVAILABLE = "available"
_NOT_BUILT = "missing: this version has no compiled {} kernels"


def backends() -> dict[str, str]:
    """The backends by name, each `"available"` or the reason why it is not.

    `backend="auto"` takes the fastest that is available and fits: torch's own LSTM where no
    recurrent dropout is at work and nothing else is faster, the reference ops elsewhere.
    """
    return {
        "reference": AVAILABLE,
        "cpu": _NOT_BUILT.format("CPU"),
        "cuda": _NOT_BUILT.format("CUDA"),
    }


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
    if status != AVAILABLE:
        raise RuntimeError(f'backend={backend!r} is {status}; use backend="auto"')
    return backend  # type: ignore[return-value]
