"""Lightning Fabric as the trainer uses it: one process, or those that torchrun started."""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
from lightning_fabric import Fabric

from sdrop.training.precision import make_precision


def make_fabric(device: str = "auto", precision: str = "32-true") -> Fabric:
    """A launched Fabric that prints nothing.

    Under `torchrun` it is data-parallel over all processes (DDP; gloo on CPUs, NCCL on GPUs),
    otherwise it is this one process.

    Args:
        device: `"auto"` (a GPU where there is one), `"cpu"`, `"cuda"`, or `"cuda:1"`.
        precision: `"32-true"`, `"64-true"`, `"bf16-mixed"`, `"16-mixed"` (GPU)
            or `"bf16-true"`.

    Raises:
        ValueError: for another device or precision, float16 on a CPU, `"cuda:1"` under torchrun.
        RuntimeError: for CUDA where there is none.
    """
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    accelerator, index = _parse(device)
    processes = _launched_processes()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", processes)) if processes > 1 else 1
    if processes > 1 and index is not None:
        raise ValueError(f"device={device!r}: under torchrun each process takes its own; say cuda")
    fabric = Fabric(
        accelerator=accelerator,
        devices=local if index is None else [index],
        num_nodes=processes // local,
        strategy="ddp" if processes > 1 else "auto",
        plugins=make_precision(precision, accelerator),
    )
    fabric.launch()
    return fabric


def gather(fabric: Fabric, values: list[float]) -> list[list[float]]:
    """The values of each rank, in the order of ranks; float64 all the way."""
    if fabric.world_size == 1:
        return [values]
    own = torch.tensor(values, dtype=torch.float64, device=fabric.device)
    rows = [torch.empty_like(own) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(rows, own)  # Fabric's own goes through a deprecated function
    return [row.tolist() for row in rows]


def gather_objects(fabric: Fabric, value: Any) -> list[Any]:
    """Any picklable value of each rank, in the order of ranks."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(values, value)
    return values


def _parse(device: str) -> tuple[str, int | None]:
    """`"cuda:1"` → `("cuda", 1)`."""
    kind, _, index = device.partition(":")
    if kind == "auto" and not index:
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind not in ("cpu", "cuda") or (index and (kind == "cpu" or not index.isdigit())):
        raise ValueError(f"device={device!r}: expected auto, cpu, cuda or cuda:N")
    if kind == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"device={device!r}: PyTorch sees no GPU here; use device=cpu")
    if index and int(index) >= torch.cuda.device_count():
        raise RuntimeError(f"device={device!r}: PyTorch sees {torch.cuda.device_count()} GPU(s)")
    return kind, int(index) if index else None


def _launched_processes() -> int:
    """How many processes torchrun started; 1 where it started none."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1
