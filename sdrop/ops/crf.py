"""The recursions of a linear-chain CRF (Lafferty et al. 2001) over the rows of a packed batch.

Rows are those of a `PackedSequence`: all sequences' first steps, then their second ones, sequences
in descending order of length. Inside, tags stand before rows, (C, N): a step is then a few
operations over C·C·B contiguous numbers, and nothing loops over tags or sequences.

Scores that forbid something are `FORBIDDEN`, not -inf: differences of those would not be numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

FORBIDDEN = -1e30
"""So low that its exponential is exactly 0 beside any score; far from the end of float32."""


class Scores(NamedTuple):
    """Of the first tag (C,), from one tag (row) to the next (column) (C, C), of the last (C,)."""

    start: Tensor
    transitions: Tensor
    end: Tensor


class Rows(NamedTuple):
    """Where the rows of each step and of each sequence stand.

    Attributes:
        bounds: first and last row of each step; the last one is not of it.
        last: row of the last step of each sequence. # shape: (B,)
        sequence: which sequence a row is of. # shape: (N,)
        later: rows of all steps but the first. # shape: (N - B,)
        earlier: the row of the same sequence one step before each of these. # shape: (N - B,)
    """

    bounds: list[tuple[int, int]]
    last: Tensor
    sequence: Tensor
    later: Tensor
    earlier: Tensor

    @staticmethod
    def of(batch_sizes: Sequence[int], device: torch.device) -> Rows:
        """From how many sequences reach each step."""
        bounds = list(pairwise(accumulate(batch_sizes, initial=0)))
        first, total = batch_sizes[0], bounds[-1][1]
        sizes = torch.tensor(list(batch_sizes), device=device)
        begins = sizes.cumsum(0) - sizes
        rows = torch.arange(total, device=device)
        step = torch.repeat_interleave(sizes, output_size=total)
        sequence = rows - begins[step]
        lengths = (sizes.unsqueeze(1) > rows[:first]).sum(0)
        later = rows[first:]
        earlier = later - sizes[step[first:] - 1]
        return Rows(bounds, begins[lengths - 1] + rows[:first], sequence, later, earlier)


def log_partition(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The log of the summed exponentiated scores of all tag sequences, with gradients.

    Args:
        emissions: (N, C) score of each tag at each row.
        scores: of tags at the ends and of pairs of them.
        rows: of the packed batch.

    Returns:
        (B,), in the order of the packed batch.
    """
    result: Tensor = _LogPartition.apply(emissions, *scores, *rows)  # type: ignore[no-untyped-call]
    return result


class _LogPartition(torch.autograd.Function):
    """Its gradient is the expected count of each tag and pair, which the backward recursion gives.

    By hand, for autograd would record and play back some ten operations a step.
    """

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, start: Tensor, transitions: Tensor, end: Tensor, *places: Any
    ) -> Tensor:
        scores, rows = Scores(start, transitions, end), Rows(*places)
        tags_first = emissions.t().contiguous()
        forward = forward_scores(tags_first, scores, rows)
        result = torch.logsumexp(forward[:, rows.last] + end.unsqueeze(1), dim=0)
        ctx.bounds = rows.bounds
        ctx.save_for_backward(tags_first, forward, result, *scores, *rows[1:])
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tags_first, forward, result, *parts = ctx.saved_tensors
        scores, rows = Scores(*parts[:3]), Rows(ctx.bounds, *parts[3:])
        backward = backward_scores(tags_first, scores, rows)
        weight = gradient[rows.sequence]
        total = result[rows.sequence]
        tags = (forward + backward).sub_(total).exp_().mul_(weight)
        pairs = _pair_weights(tags_first, forward, backward, total, weight, scores, rows)
        first = len(rows.last)
        ends = tags[:, :first].sum(1), pairs, tags[:, rows.last].sum(1)
        return tags.t(), *ends, *(None for _ in rows)


def forward_scores(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """log of the summed exponentiated scores of all sequences that end in a tag at a row.

    Args:
        emissions: (C, N).

    Returns:
        (C, N).
    """
    found = torch.empty_like(emissions)
    pairs = scores.transitions.unsqueeze(2)  # (from, to, 1)
    first = emissions[:, : rows.bounds[0][1]]
    step = torch.add(first, scores.start.unsqueeze(1))
    found[:, : first.shape[1]] = step
    for begin, end in rows.bounds[1:]:
        here = _log_sum_exp(pairs + step[:, : end - begin].unsqueeze(1), 0)
        step = here.add_(emissions[:, begin:end])
        found[:, begin:end] = step
    return found


def backward_scores(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """log of the summed exponentiated scores of all that may follow a tag at a row; (C, N)."""
    found = scores.end.unsqueeze(1).expand_as(emissions).contiguous()
    pairs = scores.transitions.t().unsqueeze(2)  # (to, from, 1)
    for (begin, _), (later, end) in zip(rows.bounds[-2::-1], rows.bounds[:0:-1], strict=True):
        follows = found[:, later:end] + emissions[:, later:end]
        found[:, begin : begin + end - later] = _log_sum_exp(pairs + follows.unsqueeze(1), 0)
    return found


def marginals(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The probability of each tag at each row, (N, C)."""
    tags_first = emissions.t().contiguous()
    forward = forward_scores(tags_first, scores, rows)
    total = torch.logsumexp(forward[:, rows.last] + scores.end.unsqueeze(1), dim=0)
    backward = backward_scores(tags_first, scores, rows)
    return (forward + backward).sub_(total[rows.sequence]).exp_().t()


def viterbi(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The tags of the best-scored sequence (Viterbi 1967) at each row, int64 (N,)."""
    tags_first = emissions.t().contiguous()
    pairs = scores.transitions.unsqueeze(2)
    first = rows.bounds[0][1]
    step = tags_first[:, :first] + scores.start.unsqueeze(1)
    ends = step + scores.end.unsqueeze(1)
    pointers = []
    for begin, end in rows.bounds[1:]:
        best, pointer = (pairs + step[:, : end - begin].unsqueeze(1)).max(dim=0)
        step = best.add_(tags_first[:, begin:end])
        ends[:, : end - begin] = step + scores.end.unsqueeze(1)  # those that go on replace it
        pointers.append(pointer)
    here = ends.argmax(dim=0)
    found = here.new_empty(len(emissions))
    for (begin, end), pointer in zip(rows.bounds[:0:-1], reversed(pointers), strict=True):
        found[begin:end] = here[: end - begin]
        before = pointer.gather(0, here[: end - begin].unsqueeze(0))[0]
        here = torch.cat([before, here[end - begin :]])
    found[:first] = here
    return found


def path_score(emissions: Tensor, tags: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The score of one tag sequence each: emissions (N, C) and tags (N,) to (B,)."""
    first = len(rows.last)
    single = emissions.gather(1, tags.unsqueeze(1)).squeeze(1)
    pair = scores.transitions[tags[rows.earlier], tags[rows.later]]
    steps = torch.cat([single[:first] + scores.start[tags[:first]], single[first:] + pair])
    total = steps.new_zeros(first).index_add(0, rows.sequence, steps)
    return total + scores.end[tags[rows.last]]


def _log_sum_exp(values: Tensor, dim: int) -> Tensor:
    """As `torch.logsumexp` for finite values, in place and in half the operations."""
    greatest = values.amax(dim, keepdim=True)
    return values.sub_(greatest).exp_().sum(dim).log_().add_(greatest.squeeze(dim))


def _pair_weights(
    emissions: Tensor,
    forward: Tensor,
    backward: Tensor,
    total: Tensor,
    weight: Tensor,
    scores: Scores,
    rows: Rows,
) -> Tensor:
    """The expected count of each pair of tags, each sequence with its weight. # shape: (C, C)"""
    if not len(rows.later):
        return torch.zeros_like(scores.transitions)
    before = forward[:, rows.earlier].unsqueeze(1)
    after = (backward + emissions - total)[:, rows.later].unsqueeze(0)
    pairs = scores.transitions.unsqueeze(2) + before
    return pairs.add_(after).exp_() @ weight[rows.later]
