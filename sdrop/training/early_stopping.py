"""When to stop because the validation metric no longer improves."""

from __future__ import annotations

from collections.abc import Sequence

from sdrop.training.metric import Metric


def has_stalled(metric: Metric, values: Sequence[float], patience: int | None) -> bool:
    """Whether the last `patience` validations brought no new best.

    A function of the values alone, so that a resumed run decides as the uninterrupted one.

    Args:
        metric: which direction is better.
        values: the metric at each validation so far.
        patience: validations to wait for a new best, at least 1; None never stalls.
    """
    if patience is None:
        return False
    best = metric.best(values)
    since = len(values) if best is None else len(values) - 1 - best
    return since >= patience
