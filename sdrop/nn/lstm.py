"""`torch.nn.LSTM` with structured dropout at its inputs and on its recurrent hidden state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sdrop.backends import check_backend
from sdrop.keys import SiteModule, call_key
from sdrop.nn.arguments import check_pattern, telling_what_was_given
from sdrop.nn.autocast import autocast_to
from sdrop.nn.cuda_lstm import cuda_layer
from sdrop.nn.dense_lstm import dense_layer, stacked
from sdrop.nn.k_major import fill_as_row_major, laid_out, warn_if_not_k_major
from sdrop.nn.lstm_arguments import check_input, check_state
from sdrop.nn.row_major_copies import forget_row_major
from sdrop.nn.sequences import in_packed_order
from sdrop.ops import choice
from sdrop.ops.masks import KEEP_ALL, Mask, draw_mask
from sdrop.ops.paths import Path
from sdrop.ops.recording import entered
from sdrop.pattern import DropoutPattern, check_rate

State = tuple[Tensor, Tensor]

SITES_A_LAYER = 4
"""Site ids of a layer: + 0 its input, + 1 its forward hidden state, + 2 its reverse one."""


class DirectionWeights(NamedTuple):
    """The parameters of one layer and direction; P is H without a projection."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    hr: Tensor | None


class LayerMasks(NamedTuple):
    """What one layer keeps of its input, and in each direction of h_{t-1}."""

    input: Mask
    hidden: tuple[Mask, ...]


class LSTM(SiteModule, nn.RNNBase):
    """A drop-in for `torch.nn.LSTM` that drops the same neurons for the whole batch.

    At p = 0 and in evaluation it computes what `torch.nn.LSTM` does, from the same parameters
    under the same names. In training it drops at two kinds of site (Sarma et al., NeurIPS 2021):
    non-recurrent, the input x_t of a layer, and recurrent, h_{t-1} on its way into the gates.
    The cell state and the emitted h_t stay whole.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, bidirectional, proj_size, device,
            dtype: as in `torch.nn.LSTM`.
        dropout: rate on the output of each layer but the last, in [0, 1), as in torch.
        input_dropout: rate on the input of the first layer, in [0, 1).
        recurrent_dropout: rate on h_{t-1} of each layer and direction, in [0, 1); h_0 is dropped
            like any other, and with `proj_size` there are `proj_size` neurons to drop.
        pattern: how draws are shared over batch and time; default case III, structured and
            varying. An input mask is shared by the directions of its layer; each layer and
            direction has recurrent masks of its own. t is the position in the sequence, for both
            directions and for packed input.
        backend: "auto" takes the fastest that is available and fits, "reference" PyTorch ops that
            skip what is dropped, "torch" torch's own LSTM, to compare with; see
            `sdrop.backends()`.

    Shape: as `torch.nn.LSTM`: (T, B, input_size), (B, T, input_size) with `batch_first`,
        (T, input_size), or a `PackedSequence`, and optional (h_0, c_0); returns
        output, (h_n, c_n).

    Parameters keep torch's names and shapes; their memory is K-major (see `sdrop.nn.k_major`), with
    `backend="torch"` torch's.

    Raises:
        ValueError, TypeError: for a rate outside [0, 1), a wrong kind of argument, number of
            dimensions, dtype, pattern or backend, and for a `recurrent_dropout` that the backend
            has not.
        RuntimeError: for sizes or devices that do not fit, and for an empty sequence.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        pattern: DropoutPattern | None = None,
        backend: str = "auto",
    ) -> None:
        check_rate("dropout", dropout)
        with telling_what_was_given(
            "LSTM",
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            bias=bias,
            batch_first=batch_first,
            proj_size=proj_size,
        ):
            super().__init__(
                "LSTM",
                input_size,
                hidden_size,
                num_layers,
                bias,
                batch_first,
                dropout,
                bidirectional,
                proj_size,
                device,
                dtype,
            )
        self.input_dropout = check_rate("input_dropout", input_dropout)
        self.recurrent_dropout = check_rate("recurrent_dropout", recurrent_dropout)
        self.pattern = check_pattern("LSTM", pattern)
        self.backend = check_backend(backend)
        if backend == "torch" and recurrent_dropout > 0.0:
            raise ValueError(
                'LSTM: backend="torch" has no dropout in the recurrence, got '
                f"recurrent_dropout={recurrent_dropout}; expected 0, or another backend"
            )
        for name, parameter in list(self.named_parameters()):
            if parameter.dim() == 2:
                setattr(self, name, laid_out(parameter, self.backend))

    def reset_parameters(self) -> None:
        """As `torch.nn.LSTM`: all from U(-1/sqrt(H), 1/sqrt(H)), the same values for a seed."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            fill_as_row_major(parameter, lambda drawn: drawn.uniform_(-bound, bound))

    def flatten_parameters(self) -> None:
        """Does nothing: there is no flat buffer that could get out of step."""

    def forward(
        self, input: Tensor | PackedSequence, hx: State | None = None
    ) -> tuple[Tensor | PackedSequence, State]:
        """Runs the layers; see the class for shapes."""
        packed = input if isinstance(input, PackedSequence) else None
        data = self._time_major(input)
        unbatched = packed is None and data.dim() == 2
        if unbatched:
            data = data.unsqueeze(1)
        batch = data.shape[1] if packed is None else int(packed.batch_sizes[0])
        h_0, c_0 = self._initial_states(data, hx, batch, unbatched, packed)
        data, *states = autocast_to(data, *h_0, *c_0)
        h_0, c_0 = states[: len(h_0)], states[len(h_0) :]
        output, h_n, c_n = self._run_layers(data, batch, h_0, c_0, packed)
        if packed is not None:
            return self._restore_packed(output, h_n, c_n, packed)
        if unbatched:
            return output.squeeze(1), (h_n.squeeze(1), c_n.squeeze(1))
        return (output.transpose(0, 1) if self.batch_first else output), (h_n, c_n)

    def _time_major(self, input: Tensor | PackedSequence) -> Tensor:
        check_input(self, input)
        if isinstance(input, PackedSequence):
            return input.data
        return input.transpose(0, 1) if self.batch_first and input.dim() == 3 else input

    def _initial_states(
        self,
        data: Tensor,
        hx: State | None,
        batch: int,
        unbatched: bool,
        packed: PackedSequence | None,
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """h_0 and c_0, (B, ...) of each layer and direction, in the order of a packed batch."""
        if hx is None:
            rows = self.num_layers * self._directions
            c_0 = data.new_zeros(batch, self.hidden_size)
            h_0 = data.new_zeros(batch, self.proj_size) if self.proj_size else c_0
            return [h_0] * rows, [c_0] * rows
        check_state(self, hx, batch, unbatched)
        h_0, c_0 = (state.unsqueeze(1) for state in hx) if unbatched else hx
        if packed is not None and packed.sorted_indices is not None:
            h_0, c_0 = (s.index_select(1, packed.sorted_indices) for s in (h_0, c_0))
        return h_0.unbind(), c_0.unbind()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _restore_packed(
        self, output: Tensor, h_n: Tensor, c_n: Tensor, packed: PackedSequence
    ) -> tuple[PackedSequence, State]:
        if packed.unsorted_indices is not None:
            h_n, c_n = (s.index_select(1, packed.unsorted_indices) for s in (h_n, c_n))
        _, sizes, order, back = packed
        return PackedSequence(output, sizes, order, back), (h_n, c_n)

    def _run_layers(
        self,
        data: Tensor,
        batch: int,
        h_0: Sequence[Tensor],
        c_0: Sequence[Tensor],
        packed: PackedSequence | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        entered(self)
        batch_sizes = None if packed is None else packed.batch_sizes
        last_h: list[Tensor] = []
        last_c: list[Tensor] = []
        directions = self._directions
        for layer, masks in enumerate(self._draw_masks(data, batch, packed)):
            own = slice(layer * directions, (layer + 1) * directions)
            weights = [self._weights(names, data.dtype) for names in self._all_weights[own]]
            row = choice.choose_path(
                "layer",
                self.backend,
                (data, weights[0].ih, weights[0].hh),
                input=masks.input,
                hidden=masks.hidden,
                hidden_size=self.hidden_size,
                batch=batch,
                packed=packed is not None,
                projection=self.proj_size > 0,
            )
            if torch.is_grad_enabled() and not torch.compiler.is_compiling():
                forget_row_major(*(each for w in weights for each in (w.ih, w.hh)))
            run = WHOLE_LAYERS.get(row.path) or partial(_packed_layer, row.path)
            data, h, c = run(data, h_0[own], c_0[own], weights, masks, batch_sizes)
            last_h += h
            last_c += c
        return data, stacked(last_h), stacked(last_c)

    def _draw_masks(
        self, data: Tensor, batch: int, packed: PackedSequence | None
    ) -> list[LayerMasks]:
        """The masks of all layers, from one key."""
        input_rates = [self.input_dropout] + [float(self.dropout)] * (self.num_layers - 1)
        dropping = self.training and (any(input_rates) or self.recurrent_dropout > 0.0)
        if not dropping:
            return [LayerMasks(KEEP_ALL, (KEEP_ALL,) * self._directions)] * self.num_layers
        key = call_key(self, data.device)
        steps = data.shape[0] if packed is None else packed.batch_sizes.shape[0]

        def draw(rate: float, site: int, size: int) -> Mask:
            shape: dict[str, Any] = {"steps": steps, "batch": batch, "size": size}
            mask = draw_mask(self.pattern, rate, key, site=site, dtype=data.dtype, **shape)
            return in_packed_order(mask, packed)

        output_size = self.proj_size or self.hidden_size
        drawn = []
        for layer, rate in enumerate(input_rates):
            site = layer * SITES_A_LAYER
            size = self.input_size if layer == 0 else output_size * self._directions
            hidden = tuple(
                draw(self.recurrent_dropout, site + 1 + direction, output_size)
                for direction in range(self._directions)
            )
            drawn.append(LayerMasks(draw(rate, site, size), hidden))
        return drawn

    def _weights(self, names: Sequence[str], dtype: torch.dtype) -> DirectionWeights:
        """The parameters of one layer and direction, in the dtype to compute in."""
        found = [self._parameter(name) for name in names]
        if not torch.compiler.is_compiling():
            warn_if_not_k_major(self, found[:2])
        found = [each if each.dtype == dtype else each.to(dtype) for each in found]
        ih, hh, *others = found
        hr = others.pop() if self.proj_size else None
        bias_ih, bias_hh = others or (None, None)
        return DirectionWeights(ih, hh, bias_ih, bias_hh, hr)

    def _parameter(self, name: str) -> Tensor:
        """By way of getattr only where a parametrisation stands in a parameter's place: asking a
        module for ten attributes takes as long as some layers do."""
        found = self._parameters.get(name)
        return getattr(self, name) if found is None else found

    def extra_repr(self) -> str:
        own = (
            f"input_dropout={self.input_dropout}, recurrent_dropout={self.recurrent_dropout}, "
            f"pattern={self.pattern}"
        )
        return f"{super().extra_repr()}, {own}"


WHOLE_LAYERS = {"torch": dense_layer, "cuda": cuda_layer}
"""What runs a layer's directions together, by path."""


def _packed_layer(
    path: Path,
    data: Tensor,
    h_0: Sequence[Tensor],
    c_0: Sequence[Tensor],
    weights: list[DirectionWeights],
    masks: LayerMasks,
    batch_sizes: Tensor | None,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """One layer by sdrop's own op, direction after direction."""
    outputs, last_h, last_c = [], [], []
    for direction, w in enumerate(weights):
        bias = None if w.bias_ih is None or w.bias_hh is None else w.bias_ih + w.bias_hh
        output, h, c = choice.lstm_by(
            path,
            data,
            h_0[direction],
            c_0[direction],
            w.ih,
            w.hh,
            bias,
            w.hr,
            input_mask=masks.input,
            hidden_mask=masks.hidden[direction],
            batch_sizes=batch_sizes,
            reverse=direction == 1,
        )
        outputs.append(output)
        last_h.append(h)
        last_c.append(c)
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)), last_h, last_c
