"""Suite `memory`: the peak memory of a training step, in one fresh process each.

    python -m sdrop.benchmark.memory ptb_large structured

prints the megabytes that were resident at most, Python and torch included. Freed memory goes back
to the system as in a plain program; the recipes keep it (`sdrop.training.keep_freed_memory`).
"""

from __future__ import annotations

import dataclasses
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from sdrop.benchmark.machine import torch_threads
from sdrop.benchmark.process import in_a_process_of_its_own
from sdrop.benchmark.rows import Row, Setting
from sdrop.benchmark.shapes import Shape, parse_shape
from sdrop.benchmark.step import sdrop_step, stock_step
from sdrop.benchmark.variants import VARIANTS

_STEPS = 3
_PLAIN, _DROPPED = "stock, no dropout", "stock"
_KILOBYTES_A_MEGABYTE = 1024
_STATUS = Path("/proc/self/status")


def memory_rows(
    shape: Shape, variants: Sequence[str], setting: Setting, *, machine: str = ""
) -> list[Row]:
    """A row a variant: how much more memory the baseline's step takes.

    Raises:
        RuntimeError: where a process fails, with what it said.
    """
    chosen = [name for name in variants if name in VARIANTS]
    if not shape.training or setting.device != "cpu":
        return []
    peaks: dict[str, float] = {}
    rows = []
    for name in chosen:
        baseline = _PLAIN if name == "none" else _DROPPED
        for each in (baseline, name):
            if each not in peaks:
                peaks[each] = in_a_process_of_its_own(
                    "sdrop.benchmark.memory", shape.name, each, setting
                )["megabytes"]
        ratio = peaks[baseline] / peaks[name]
        rows.append(
            Row(
                suite="memory",
                shape=shape.name,
                phase="total",
                variant=name,
                baseline=baseline,
                **dataclasses.asdict(setting),
                ratio=ratio,
                ratio_min=ratio,
                ratio_max=ratio,
                rounds=1,
                megabytes=peaks[name],
                baseline_megabytes=peaks[baseline],
                machine=machine,
            )
        )
    return rows


def peak_megabytes() -> float:
    """The most memory that this process had resident.

    Linux hands the `ru_maxrss` of the parent on to a process that it starts, so the figure of
    this process alone is taken where it can be read.
    """
    if _STATUS.exists():
        lines = _STATUS.read_text().splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
        return int(peak) / _KILOBYTES_A_MEGABYTE
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / _KILOBYTES_A_MEGABYTE / (1024 if sys.platform == "darwin" else 1)


def main(arguments: Sequence[str]) -> None:
    """Take a few steps and print the peak."""
    shape, name, *rest = arguments
    setting = Setting(**json.loads(rest[0])) if rest else Setting()
    with torch_threads(setting.threads):
        if name in VARIANTS:
            step = sdrop_step(parse_shape(shape), VARIANTS[name], setting)
        else:
            step = stock_step(parse_shape(shape), setting, drops=name != _PLAIN)
        for _ in range(_STEPS):
            step.prepare()
            step.run()
    print(json.dumps({"megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main(sys.argv[1:])
