"""Small runs for looking at the code: fewer batches, a profile, the origin of a NaN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import torch
from torch.profiler import ProfilerActivity, profile

from sdrop.data import Batch, Batches
from sdrop.training import RunFolder

from .configuration import schema

_ROWS = 12  # of the profile's table


class FirstBatches(Batches):
    """The first `count` batches of each epoch of `batches`."""

    def __init__(self, batches: Batches, count: int) -> None:
        self.batches, self.count, self.stateful = batches, count, batches.stateful

    def __len__(self) -> int:
        return min(self.count, len(self.batches))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of `epoch` (from 0) from number `start` on."""
        return islice(self.batches.epoch(epoch, start), max(0, self.count - start))


def limited(batches: Batches, count: int | None) -> Batches:
    """`batches` themselves where there is no limit, else the first of each epoch."""
    return batches if count is None else FirstBatches(batches, count)


@contextmanager
def watched(options: schema.Debug, run_folder: RunFolder) -> Iterator[None]:
    """Train inside: with anomalies traced, or profiled, as `debug=` says.

    The profile goes into the run folder as profile.json, and its longest operations to the screen.
    """
    with torch.autograd.set_detect_anomaly(options.detect_anomaly):
        if not options.profile:
            yield
            return
        with profile(activities=list(_activities())) as profiler:
            yield
        print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=_ROWS))
        profiler.export_chrome_trace(str(run_folder.path / "profile.json"))


def _activities() -> Iterator[ProfilerActivity]:
    yield ProfilerActivity.CPU
    if torch.cuda.is_available():
        yield ProfilerActivity.CUDA
