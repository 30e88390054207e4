"""An option of the CUDA recurrence: the recurrent weights stay in the second-level cache."""

from __future__ import annotations

import ctypes

import torch

from sdrop.ops.native_cuda import CUDA, LIBRARY, why_not_here


def keep_weights_in_l2(size: int, device: torch.device | int | None = None) -> int:
    """Sets a part of a GPU's second-level cache aside for the recurrent weights W_h.

    Off until called. From then on each launch of an LSTM's recurrence that reads W_h from that
    cache every step (docs/cuda.md: the modes `streamed` and `by_step`) marks its W_h as data to
    keep and everything else it touches as data that passes through. This pays where other work
    between two sequences, or the activations of a long one, would push W_h out; the set-aside part
    is missing for all other kernels of the process on that device. A CUDA graph keeps the marks
    that its launches had when it was captured.

    Args:
        size: bytes, of which the device gives as many as it allows; W_h has 4 * H * H elements,
            a little more where H is no multiple of a block's units. 0 ends it.
        device: which GPU; by default the current one.

    Returns:
        the bytes that are set aside now.

    Raises:
        ValueError: for a negative size.
        RuntimeError: where the CUDA kernels cannot run, or the device has no such cache.
    """
    if size < 0:
        raise ValueError(f"keep_weights_in_l2({size}): expected a number of bytes, or 0 for none")
    if (reason := why_not_here(CUDA)) is not None:
        raise RuntimeError(f"keep_weights_in_l2: the CUDA kernels are {reason}")
    if isinstance(device, torch.device):
        device = device.index
    index = torch.cuda.current_device() if device is None else device
    keep = ctypes.CDLL(str(LIBRARY)).sdrop_keep_weights_in_l2
    keep.argtypes, keep.restype = (ctypes.c_int, ctypes.c_longlong), ctypes.c_longlong
    given = int(keep(index, size))
    if given < 0 or (size > 0 and given == 0):
        raise RuntimeError(
            f"keep_weights_in_l2: device {index} sets nothing of its second-level cache aside; "
            "this needs compute capability 8.0 or later, and a GPU that is not divided (MIG)"
        )
    return given
