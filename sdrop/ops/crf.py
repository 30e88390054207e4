"""The recursions of a linear-chain CRF (Lafferty et al. 2001) over the rows of a packed batch.

Rows are those of a `PackedSequence`: all sequences' first steps, then their second ones, sequences
in descending order of length. Nothing loops over tags or sequences.

The log-partition function comes twice: in logarithms, which is right for any scores, and in scaled
probabilities (Rabiner 1989, section V.A), four small operations a step where logarithms and
autograd take thirty. Those are taken where no number in them came near to underflowing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Not -inf, for differences of those would not be numbers.
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


class _Scaled(NamedTuple):
    """The forward recursion in probabilities.

    Attributes:
        factors: exp(emissions), the greatest of a row 1. # shape: (N, C)
        tags: probability of each tag given the tokens up to a row. # shape: (N, C)
        norms: what each row was divided by. # shape: (N,)
        pairs: exp(transitions), the greatest 1. # shape: (C, C)
        ends: exp(end scores), the greatest 1. # shape: (C,)
        total: what the last row of each sequence gives with `ends`. # shape: (B,)
    """

    factors: Tensor
    tags: Tensor
    norms: Tensor
    pairs: Tensor
    ends: Tensor
    total: Tensor


def log_partition(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The log of the summed exponentiated scores of all tag sequences, with gradients.

    Args:
        emissions: (N, C) score of each tag at each row.
        scores: of tags at the ends and of pairs of them.
        rows: of the packed batch.

    Returns:
        (B,), in the order of the packed batch.
    """
    if not torch.compiler.is_compiling():  # which cannot look at numbers, and fuses anyway
        with torch.no_grad():
            scaled = _scaled_forward(emissions, scores, rows)
        if _is_exact(scaled.tags[len(rows.last) :], scaled.total):
            result: Tensor = _LogPartition.apply(emissions, *scores, scaled, rows)  # type: ignore[no-untyped-call]
            return result
    return log_partition_in_logarithms(emissions, scores, rows)


def log_partition_in_logarithms(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The same for any scores, by autograd."""
    step = emissions[: rows.bounds[0][1]] + scores.start
    steps = [step]
    for begin, end in rows.bounds[1:]:
        before = step[: end - begin].unsqueeze(2)  # (b, from, 1)
        step = torch.logsumexp(before + scores.transitions, dim=1) + emissions[begin:end]
        steps.append(step)
    return torch.logsumexp(torch.cat(steps)[rows.last] + scores.end, dim=1)


def marginals(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The probability of each tag at each row, (N, C): the gradient of the log-partition."""
    emissions = emissions.detach().requires_grad_()
    with torch.enable_grad():
        total = log_partition(emissions, Scores(*(each.detach() for each in scores)), rows).sum()
    return torch.autograd.grad(total, emissions)[0]


class _LogPartition(torch.autograd.Function):
    """Its gradient is the expected count of each tag and pair, by the backward recursion."""

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        start: Tensor,
        transitions: Tensor,
        end: Tensor,
        scaled: _Scaled,
        rows: Rows,
    ) -> Tensor:
        ctx.scaled, ctx.rows = scaled, rows
        ctx.save_for_backward(emissions, start, transitions, end)
        logs = scaled.norms.log() + emissions.amax(1)
        logs[len(rows.last) :] += transitions.amax()
        result = scaled.total.log() + (start.amax() + end.amax())
        return result.index_add_(0, rows.sequence, logs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        scaled, rows = ctx.scaled, ctx.rows
        first = len(rows.last)
        follows = _scaled_backward(scaled, rows)
        if not _is_exact(follows[rows.earlier], scaled.total):
            inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors]
            with torch.enable_grad():
                total = log_partition_in_logarithms(inputs[0], Scores(*inputs[1:]), rows)
            return *torch.autograd.grad(total, inputs, gradient), None, None
        weighted = follows.mul_(gradient[rows.sequence].unsqueeze(1))
        tags = scaled.tags * weighted
        after = (weighted * scaled.factors / scaled.norms.unsqueeze(1))[first:]
        pairs = (scaled.tags[rows.earlier].t() @ after).mul_(scaled.pairs)
        return tags, tags[:first].sum(0), pairs, tags[rows.last].sum(0), None, None


def _scaled_forward(emissions: Tensor, scores: Scores, rows: Rows) -> _Scaled:
    factors = (emissions - emissions.amax(1, keepdim=True)).exp_()
    start, pairs, ends = ((each - each.max()).exp_() for each in scores)
    tags, norms = torch.empty_like(factors), factors.new_empty(len(factors), 1)
    step = tags[: rows.bounds[0][1]]
    torch.mul(factors[: len(step)], start, out=step)
    for begin, end in rows.bounds:
        here = tags[begin:end]
        if begin:
            torch.mm(step[: end - begin], pairs, out=here)
            here.mul_(factors[begin:end])
        norm = norms[begin:end]
        torch.sum(here, 1, keepdim=True, out=norm)
        step = here.div_(norm)
    return _Scaled(factors, tags, norms.squeeze(1), pairs, ends, tags[rows.last] @ ends)


def _scaled_backward(scaled: _Scaled, rows: Rows) -> Tensor:
    """What the tokens after a row say of its tags: times `tags` it is their probability. (N, C)"""
    last = scaled.ends / scaled.total.unsqueeze(1)
    found = last[rows.sequence]
    weights = scaled.factors / scaled.norms.unsqueeze(1)
    back = scaled.pairs.t()
    for (begin, _), (later, end) in zip(rows.bounds[-2::-1], rows.bounds[:0:-1], strict=True):
        weighted = weights[later:end].mul_(found[later:end])
        torch.mm(weighted, back, out=found[begin : begin + end - later])
    return found


def _is_exact(probabilities: Tensor, total: Tensor) -> bool:
    """Whether underflow can have taken nothing that counts within the type's precision."""
    limits = torch.finfo(total.dtype)
    least = limits.tiny / limits.eps
    smallest = total.amin()
    if probabilities.numel():
        smallest = torch.minimum(smallest, probabilities.amin())
    return bool(smallest > least)


def viterbi(emissions: Tensor, scores: Scores, rows: Rows) -> Tensor:
    """The tags of the best-scored sequence (Viterbi 1967) at each row, int64 (N,)."""
    first = rows.bounds[0][1]
    step = emissions[:first] + scores.start
    ends = step + scores.end
    pointers = []
    for begin, end in rows.bounds[1:]:
        best, pointer = (step[: end - begin].unsqueeze(2) + scores.transitions).max(dim=1)
        step = best.add_(emissions[begin:end])
        ends[: end - begin] = step + scores.end  # those that go on replace it
        pointers.append(pointer)
    here = ends.argmax(dim=1)
    found = here.new_empty(len(emissions))
    for (begin, end), pointer in zip(rows.bounds[:0:-1], reversed(pointers), strict=True):
        found[begin:end] = here[: end - begin]
        before = pointer.gather(1, here[: end - begin].unsqueeze(1)).squeeze(1)
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
