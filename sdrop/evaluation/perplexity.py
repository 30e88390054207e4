"""Perplexity: exp of the mean negative log-likelihood over every token, each counted once."""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from sdrop.data.batches import Batches
from sdrop.evaluation.evaluation import Evaluation, evaluating


def perplexity(
    model: nn.Module, batches: Batches, where: Fabric | torch.device | str
) -> Evaluation:
    """Evaluates a language model on all of `batches`.

    Args:
        model: called as `model(**batch.arguments, state=state)`, returns the mean negative
            log-likelihood of a counted token and the new state. Evaluated in eval mode; its
            modes are restored.
        batches: epoch 0 of them is read. The state carries over where `batches.stateful`.
        where: a device: this process evaluates everything in `batches`. A Fabric: its ranks hold
            a share of the batches each, the totals are summed over them, and its precision holds.

    Returns:
        Loss (nats), tokens, and `{"perplexity": exp(loss)}`.

    Raises:
        ValueError: if there is no token to count.
    """
    fabric = where if isinstance(where, Fabric) else None
    device = where.device if isinstance(where, Fabric) else torch.device(where)
    with evaluating(model), fabric.autocast() if fabric else nullcontext():
        totals = _totals(model, batches, device)
    if fabric is not None and fabric.world_size > 1:
        fabric.all_reduce(totals, reduce_op="sum")
    negative_log_likelihood, tokens = totals.tolist()
    if tokens == 0:
        raise ValueError("perplexity: the batches hold no token to predict; is the split empty?")
    loss = negative_log_likelihood / tokens
    return Evaluation(loss, round(tokens), {"perplexity": perplexity_of(loss)})


def perplexity_of(loss: float) -> float:
    """exp(loss), and infinity where that overflows."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _totals(model: nn.Module, batches: Batches, device: torch.device) -> Tensor:
    """Summed negative log-likelihood and number of counted tokens. # shape: (2,), float64"""
    totals = torch.zeros(2, dtype=torch.float64, device=device)
    state = None
    for batch in batches.epoch(0):
        batch = batch.to(device)
        loss, state = model(**batch.arguments, state=state if batches.stateful else None)
        if batch.tokens:  # the mean over no token is not a number
            totals[0] += loss.double() * batch.tokens
            totals[1] += batch.tokens
    return totals
