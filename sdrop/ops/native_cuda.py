"""The compiled CUDA kernels: loading them, or knowing why they cannot run here.

Like `native.py`, but what is missing may also be a GPU, its driver, or kernels for its
architecture. The library is loaded at import where torch itself knows CUDA; whether a device can
run it is asked when somebody wants to know, for the answer starts CUDA.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import torch

_PACKAGE = Path(__file__).resolve().parents[1]
LIBRARY = _PACKAGE / "_CUDA.so"
REASON = _PACKAGE / "_CUDA.missing"
"""Where the installation wrote why it built no library."""

DTYPES = (torch.float32, torch.bfloat16)
"""What the kernels take; bfloat16 is added up in float32."""

_NOT_BUILT = (
    "not built: this is a checkout that was never installed with nvcc at hand; install the CUDA "
    "toolkit and run `pip install --no-build-isolation -e .`"
)


class CudaLibrary(NamedTuple):
    """What the library was built for.

    Attributes:
        architectures: those that it has code for, such as (80, 86); later ones get the last.
        runtime_version: of CUDA's runtime in it, as 1000 * major + 10 * minor.
        driver_version: the newest CUDA that the driver here knows; 0 without a driver.
    """

    architectures: tuple[int, ...]
    runtime_version: int
    driver_version: int


def inspect(library: Path = LIBRARY, reason: Path = REASON) -> CudaLibrary | str:
    """What the library says of itself, or in a line why there is nothing to ask.

    Torch's libraries must be loaded. Opening it registers its kernels, for CUDA tensors alone.
    """
    if not library.exists():
        return reason.read_text().strip() if reason.exists() else _NOT_BUILT
    try:
        opened = ctypes.CDLL(str(library))
        opened.sdrop_cuda_architectures.restype = ctypes.c_char_p
        names = opened.sdrop_cuda_architectures().decode().split(",")
        versions = (opened.sdrop_cuda_runtime_version(), opened.sdrop_cuda_driver_version())
    except (OSError, AttributeError) as error:
        return f"built, but it does not load: {error}"
    return CudaLibrary(tuple(int(name.removeprefix("sm_")) for name in names), *versions)


def _load() -> CudaLibrary | str:
    """Registers the operators where torch knows CUDA; the library, or why there is none."""
    found = inspect()
    if isinstance(found, str) or torch.version.cuda is None:
        return found
    try:
        torch.ops.load_library(str(LIBRARY))  # type: ignore[no-untyped-call]
    except OSError as error:
        return f"built, but it does not load: {error}"
    return found


CUDA = _load()
"""Loaded once, at import; a reason where there is none."""


def why_not_here(library: CudaLibrary | str) -> str | None:
    """Why no GPU of this machine can run `library`; None where the current one can."""
    if isinstance(library, str):
        return library
    if torch.version.cuda is None:
        return f"built, but this torch ({torch.__version__}) is a build without CUDA"
    if library.driver_version == 0:
        return "built, but there is no NVIDIA driver here"
    if (reason := why_driver_too_old(library)) is not None:
        return reason
    if not torch.cuda.is_available():
        return f"built, but torch sees no GPU here ({_torch_says()})"
    return why_not_architecture(library, torch.cuda.get_device_capability())


def why_driver_too_old(library: CudaLibrary) -> str | None:
    """A driver runs all releases of CUDA of its own major number, and older ones."""
    built, known = library.runtime_version, library.driver_version
    if known // 1000 >= built // 1000:
        return None
    return (
        f"built, but the driver here is too old: it knows CUDA {_dotted(known)}, and the kernels "
        f"were built with {_dotted(built)}; update the driver, or build with an older nvcc"
    )


def why_not_architecture(library: CudaLibrary, capability: tuple[int, int]) -> str | None:
    """Why there is no code for a GPU of `capability`; None where there is."""
    number, architectures = 10 * capability[0] + capability[1], library.architectures
    same_family = any(each // 10 == capability[0] and each <= number for each in architectures)
    if same_family or number >= architectures[-1]:  # the last is there as PTX, too
        return None
    names = ", ".join(f"sm_{each}" for each in architectures)
    return f"built, but not for this GPU's sm_{number}: there are {names} and later"


def why_no_kernel(op: str, device: torch.device) -> str | None:
    """Why an operator such as `"sdrop::lstm_cuda"` has no kernel that runs on `device`."""
    if not has_kernel(op, device):
        if isinstance(CUDA, CudaLibrary) and torch.version.cuda is not None:
            return f"the compiled CUDA kernels need tensors on a GPU, got {device}"
        return f"the compiled CUDA kernels are {why_not_here(CUDA)}"
    return _why_not_device(device) if device.type == "cuda" else None


@functools.cache
def _why_not_device(device: torch.device) -> str | None:
    assert isinstance(CUDA, CudaLibrary)
    reason = why_driver_too_old(CUDA)
    reason = reason or why_not_architecture(CUDA, torch.cuda.get_device_capability(device))
    return reason and f"the compiled CUDA kernels are {reason}"


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _torch_says() -> str:
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return str(error).splitlines()[0]
    return "no device"


PRECISIONS = ("float32", "tf32", "bfloat16")
PATTERNS = ("keep_all", "each_element", "one_set", "counted_on_device", "set_a_step")
"""As kernels/cuda/choice.h orders them."""


def method(precision: str, pattern: str, rows: int, library: Path = LIBRARY) -> str | None:
    """How the CUDA kernels compute the three products of a dropout site, and why.

    Args:
        precision, pattern: one of PRECISIONS and one of PATTERNS.
        rows: of a step, or of all steps where one set serves them all.
        library: which one to ask.

    Returns:
        forward, data gradient and weight gradient as kernels/cuda/choice.h names them, then the
        reason; None where there is no library.
    """
    if not library.exists():
        return None
    ask = ctypes.CDLL(str(library)).sdrop_cuda_method
    ask.restype, ask.argtypes = ctypes.c_char_p, (ctypes.c_int, ctypes.c_int, ctypes.c_longlong)
    said: bytes = ask(PRECISIONS.index(precision), PATTERNS.index(pattern), rows)
    return said.decode()


MODES = ("resident", "streamed", "by_step")
"""How a recurrence runs, as kernels/cuda/occupancy.h orders them; docs/cuda.md describes them."""


def recurrence_mode(
    device: int,
    batch: int,
    hidden_size: int,
    directions: int,
    dtype: torch.dtype,
    library: Path = LIBRARY,
) -> str | None:
    """Which of MODES the recurrence of a layer runs in on a GPU.

    Args:
        device: its number.
        batch, hidden_size, directions: B, H, and how many directions run in the same launches.
        dtype: of the layer.
        library: which one to ask.

    Returns:
        one of MODES; None where there is no library.
    """
    if not library.exists():
        return None
    ask = ctypes.CDLL(str(library)).sdrop_recurrence_mode
    return MODES[ask(device, batch, hidden_size, directions, dtype.itemsize)]


emulated = False
"""Whether CPU tensors may run the CUDA kernels' own source, by the emulation that tests load."""


def has_kernel(op: str, device: torch.device) -> bool:
    """Whether an operator such as `"sdrop::lstm_cuda"` has a kernel for tensors on `device`."""
    if device.type == "cpu" and not emulated:
        return False
    key = {"cuda": "CUDA", "cpu": "CPU"}.get(device.type)
    if key is None:
        return False
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(op, key)
    except RuntimeError:  # nobody has defined the operator
        return False


# What torch.compiler.assume_constant_result sets, which itself imports all of Dynamo.
has_kernel._dynamo_marked_constant = True  # type: ignore[attr-defined]
