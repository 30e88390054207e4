"""A linear-chain conditional random field on top of scores of tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sdrop.nn.arguments import check_packed, check_size, check_target
from sdrop.ops import crf
from sdrop.ops.class_ids import check_class_ids
from sdrop.ops.crf import FORBIDDEN, Rows, Scores


class CRF(nn.Module):
    """Scores whole tag sequences: emissions, and a score for each tag after another.

    The score of tags y over emissions e is start[y_1] + Σ e_t[y_t] + Σ transitions[y_t-1, y_t] +
    end[y_T], and their probability its exponential over the sum of all sequences' (Lafferty et al.
    2001; Lample et al. 2016, equations 1 to 4).

    Args:
        num_tags: C.
        constraints: what is allowed: first tags (C,), pairs of neighbours (C, C) and last tags
            (C,), bool, such as `sdrop.data.constraints` makes. Anything else has probability 0.
            Default: everything.

    Shape: emissions are (T, B, C) with a mask (T, B), true at tokens, or a `PackedSequence`. The
        mask is true up to each sequence's end and false from there; a sequence may have no token.

    Raises:
        TypeError, ValueError: for sizes, dtypes or constraints of another kind, and a mask that is
            not a prefix of each sequence.
        IndexError: for a tag below 0 or from C on, on a CPU.
        RuntimeError: for shapes or devices that do not fit.
    """

    def __init__(
        self,
        num_tags: int,
        constraints: Sequence[Tensor] | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("CRF", "num_tags", num_tags, at_least=1)
        self.num_tags = num_tags
        where = {"device": device, "dtype": dtype}
        self.start = nn.Parameter(torch.empty(num_tags, **where))  # type: ignore[arg-type]
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags, **where))  # type: ignore[arg-type]
        self.end = nn.Parameter(torch.empty(num_tags, **where))  # type: ignore[arg-type]
        for name, forbidden in self._forbidden(constraints).items():
            self.register_buffer(f"forbidden_{name}", forbidden.to(device), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all scores from U(-0.1, 0.1)."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(
        self, emissions: Tensor | PackedSequence, tags: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """The log-likelihood of tags.

        Args:
            emissions: see the class.
            tags: int64, (T, B), what stands at padding is not looked at; (N,) beside a
                `PackedSequence`.
            mask: bool (T, B); default: every token counts.

        Returns:
            (B,): 0 for a sequence without a token, -inf for tags that the constraints forbid.
        """
        batch = _Batch.of(self, emissions, mask)
        tags = batch.rows_of(tags)
        if batch.rows is None:
            return batch.in_order(batch.data.sum(1))  # of no rows, yet a gradient can pass
        scores = self._scores()
        own = crf.path_score(batch.data, tags, scores, batch.rows)
        likelihood = own - crf.log_partition(batch.data, scores, batch.rows)
        return batch.in_order(likelihood.masked_fill(own < FORBIDDEN / 2, -torch.inf))

    @torch.no_grad()
    def decode(self, emissions: Tensor | PackedSequence, mask: Tensor | None = None) -> Tensor:
        """The most probable tags, int64: (T, B), -1 at padding, or (N,) for packed rows."""
        batch = _Batch.of(self, emissions, mask)
        if batch.rows is None:
            return batch.in_place(torch.empty(0, dtype=torch.int64, device=batch.data.device), -1)
        return batch.in_place(crf.viterbi(batch.data, self._scores(), batch.rows), -1)

    @torch.no_grad()
    def marginals(self, emissions: Tensor | PackedSequence, mask: Tensor | None = None) -> Tensor:
        """The probability of each tag at each token: (T, B, C), 0 at padding, or (N, C)."""
        batch = _Batch.of(self, emissions, mask)
        if batch.rows is None:
            return batch.in_place(batch.data, 0)
        return batch.in_place(crf.marginals(batch.data, self._scores(), batch.rows), 0)

    def _scores(self) -> Scores:
        """In float32 at least, with what is forbidden."""
        found = []
        for name in Scores._fields:
            score, forbidden = getattr(self, name), self.get_buffer(f"forbidden_{name}")
            found.append(in_float32(score).masked_fill(forbidden, FORBIDDEN))
        return Scores(*found)

    def _forbidden(self, constraints: Sequence[Tensor] | None) -> dict[str, Tensor]:
        size = self.num_tags
        shapes = {"start": (size,), "transitions": (size, size), "end": (size,)}
        if constraints is None:
            return {name: torch.zeros(shape, dtype=torch.bool) for name, shape in shapes.items()}
        if len(constraints) != 3:
            raise ValueError(
                f"CRF: expected constraints of three parts ({', '.join(shapes)}), got "
                f"{len(constraints)}"
            )
        found = {}
        for (name, shape), allowed in zip(shapes.items(), constraints, strict=True):
            if tuple(allowed.shape) != shape or allowed.dtype != torch.bool:
                raise ValueError(
                    f"CRF: expected constraints for {name} of shape {shape}, bool, got "
                    f"{tuple(allowed.shape)}, {allowed.dtype}"
                )
            found[name] = ~allowed
        return found

    def extra_repr(self) -> str:
        return f"{self.num_tags}"


@dataclass(frozen=True)
class _Batch:
    """Emissions as rows of a packed batch, and the way back.

    Attributes:
        data: (N, C), in float32 at least.
        rows: where they stand; None where there is no token at all.
        shape: of one value a token: (T, B), or (N,) for packed rows.
        where: time and sequence of each row, where a mask left some out.
        back: where each sequence went, if they were sorted.
    """

    data: Tensor
    rows: Rows | None
    shape: tuple[int, ...]
    where: tuple[Tensor, Tensor] | None = None
    back: Tensor | None = None

    @staticmethod
    def of(module: CRF, emissions: Tensor | PackedSequence, mask: Tensor | None) -> _Batch:
        """Reads emissions and mask."""
        if isinstance(emissions, PackedSequence):
            return _Batch._of_packed(module, emissions, mask)
        _check_emissions(module, emissions, 3)
        data = in_float32(emissions)
        if mask is None:
            steps, batch, _ = data.shape
            rows = Rows.of([batch] * steps, data.device) if batch else None
            return _Batch(data.flatten(0, 1), rows, tuple(data.shape[:2]))
        order = _lengths(mask, emissions).argsort(descending=True, stable=True)
        time, column = mask[:, order].nonzero(as_tuple=True)
        sizes = [size for size in mask.sum(1).tolist() if size]
        where = time, order[column]
        found = Rows.of(sizes, data.device) if sizes else None
        return _Batch(data[where], found, tuple(mask.shape), where, order.argsort())

    @staticmethod
    def _of_packed(module: CRF, packed: PackedSequence, mask: Tensor | None) -> _Batch:
        check_packed("CRF", packed)
        _check_emissions(module, packed.data, 2)
        if mask is not None:
            raise ValueError("CRF: a PackedSequence has no padding: leave out the mask")
        data = in_float32(packed.data)
        rows = Rows.of(packed.batch_sizes.tolist(), data.device)
        return _Batch(data, rows, tuple(data.shape[:1]), back=packed.unsorted_indices)

    def rows_of(self, tags: Tensor) -> Tensor:
        """The tags of the rows, (N,)."""
        check_target("CRF", tags, torch.Size(self.shape), self.data.device)
        ids = tags.flatten() if self.where is None else tags[self.where]
        check_class_ids("CRF", ids, self.data.shape[-1])
        return ids

    def in_order(self, values: Tensor) -> Tensor:
        """(B,) of the values of the sequences that have a token, 0 for the others."""
        if self.back is None:
            return values
        missing = len(self.back) - len(values)
        return torch.cat([values, values.new_zeros(missing)])[self.back]

    def in_place(self, values: Tensor, padding: int) -> Tensor:
        """Values of the rows where their tokens stand."""
        shape = (*self.shape, *values.shape[1:])
        if self.where is None:
            return values.reshape(shape)
        return values.new_full(shape, padding).index_put_(self.where, values)


def in_float32(scores: Tensor) -> Tensor:
    """Half precision as float32: sums of exponentials need more than its few digits."""
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def _check_emissions(module: CRF, emissions: Tensor, dimensions: int) -> None:
    names = "(time, batch, tags)" if dimensions == 3 else "(rows, tags)"
    if not isinstance(emissions, Tensor):
        raise TypeError(
            f"CRF: expected emissions to be a tensor or a PackedSequence, got "
            f"{type(emissions).__name__}"
        )
    if emissions.dim() != dimensions or emissions.shape[-1] != module.num_tags:
        raise RuntimeError(
            f"CRF: expected emissions of shape {names} with {module.num_tags} tags, got "
            f"{tuple(emissions.shape)}"
        )
    if emissions.shape[0] == 0:
        raise RuntimeError(f"CRF: expected at least one step, got {tuple(emissions.shape)}")
    if not emissions.is_floating_point():
        raise ValueError(f"CRF: expected emissions of floating point, got {emissions.dtype}")
    if emissions.device != module.start.device:
        raise RuntimeError(
            f"CRF: the emissions are on {emissions.device}, the parameters on "
            f"{module.start.device}: move one of them"
        )


def _lengths(mask: Tensor, emissions: Tensor) -> Tensor:
    """Tokens of each sequence, (B,); refuses a mask with a hole in it or one at the front."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"CRF: expected a mask of torch.bool, true at tokens, got {kind}")
    if mask.shape != emissions.shape[:2] or mask.device != emissions.device:
        raise RuntimeError(
            f"CRF: expected a mask of shape {tuple(emissions.shape[:2])} on {emissions.device}, "
            f"got {tuple(mask.shape)} on {mask.device}"
        )
    wrong = (mask[1:] & ~mask[:-1]).any(0).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(
            f"CRF: the mask of sequence {wrong[0]} is true again after it was false: expected "
            "tokens first and padding after them"
        )
    return mask.sum(0)
