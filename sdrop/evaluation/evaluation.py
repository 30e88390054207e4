"""What an evaluation found, and how a model is put into the right mode for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass(frozen=True)
class Evaluation:
    """The figures of one pass over a split.

    Args:
        loss: mean negative log-likelihood of a counted token, in nats.
        tokens: how many tokens were counted.
        metrics: the task's figures by name, such as `{"perplexity": 82.7}`.
    """

    loss: float
    tokens: int
    metrics: dict[str, float] = field(default_factory=dict)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside; afterwards every submodule has its old mode back.

    Each submodule's own mode is kept, for a part that was frozen in evaluation mode must not
    start to drop because somebody evaluated.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        # Not inference_mode: a copy of a weight that a module caches in here would be an inference
        # tensor, which the next training step cannot save for backward.
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
