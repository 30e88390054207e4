"""`torch.nn.LSTMCell` with dropout on its input and its recurrent hidden state."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sdrop import functional
from sdrop.backends import check_backend
from sdrop.keys import SiteModule, step_key
from sdrop.nn.arguments import (
    check_like_weight,
    check_pattern,
    check_size,
    check_state_kind,
)
from sdrop.nn.autocast import autocast_to
from sdrop.nn.k_major import fill_as_row_major, laid_out, warn_if_not_k_major
from sdrop.ops.masks import KEEP_ALL, Mask, draw_mask
from sdrop.ops.recording import entered
from sdrop.pattern import DropoutPattern, check_rate

State = tuple[Tensor, Tensor]

INPUT_SITE, HIDDEN_SITE = 0, 1


class LSTMCell(SiteModule, nn.RNNCellBase):
    """A drop-in for `torch.nn.LSTMCell`: one step of an LSTM, with new masks at each call.

    Inside `with sdrop.sequence():` the n-th call is step t = n - 1, and a pattern with
    `time="constant"` keeps its masks until the context ends; outside, such a pattern is an error.

    Args:
        input_size, hidden_size, bias, device, dtype: as in `torch.nn.LSTMCell`.
        input_dropout: rate on the input, in [0, 1).
        recurrent_dropout: rate on h on its way into the gates, in [0, 1).
        pattern: how draws are shared over batch and time; default case III.
        backend: "auto", "reference", "torch", "cpu" or "cuda"; see `sdrop.backends()`.

    Shape: input (B, input_size) or (input_size,), optional (h, c) of (B, hidden_size) or
        (hidden_size,); returns the next (h, c).

    Raises:
        ValueError, TypeError: for a rate outside [0, 1), a negative size, a wrong kind of
            argument, number of dimensions, dtype, pattern or backend.
        RuntimeError: for sizes or devices that do not fit; for a constant pattern outside
            `sdrop.sequence()`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        pattern: DropoutPattern | None = None,
        backend: str = "auto",
    ) -> None:
        check_size("LSTMCell", "input_size", input_size)
        check_size("LSTMCell", "hidden_size", hidden_size)
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)
        self.input_dropout = check_rate("input_dropout", input_dropout)
        self.recurrent_dropout = check_rate("recurrent_dropout", recurrent_dropout)
        self.pattern = check_pattern("LSTMCell", pattern)
        self.backend = check_backend(backend)
        self.weight_ih = laid_out(self.weight_ih, backend)
        self.weight_hh = laid_out(self.weight_hh, backend)

    def reset_parameters(self) -> None:
        """As `torch.nn.LSTMCell`: all from U(-1/sqrt(H), 1/sqrt(H))."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            fill_as_row_major(parameter, lambda drawn: drawn.uniform_(-bound, bound))

    def forward(self, input: Tensor, hx: State | None = None) -> State:
        """One step; see the class for shapes."""
        self._check_kind(input)
        unbatched = input.dim() == 1
        x = input.unsqueeze(0) if unbatched else input
        h, c = self._state(x, hx, unbatched)
        self._check(x, h, c)
        x, h, c, w_ih, w_hh, b_ih, b_hh = autocast_to(
            x, h, c, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        if not torch.compiler.is_compiling():
            warn_if_not_k_major(self, [self.weight_ih, self.weight_hh])
        entered(self)
        input_mask, hidden_mask = self._draw_masks(x)
        _, (h, c) = functional.lstm(
            x.unsqueeze(0),
            (h, c),
            w_ih,
            w_hh,
            None if b_ih is None else b_ih + b_hh,
            input_mask=input_mask,
            hidden_mask=hidden_mask,
            backend=self.backend,
        )
        return (h.squeeze(0), c.squeeze(0)) if unbatched else (h, c)

    def _state(self, x: Tensor, hx: State | None, unbatched: bool) -> State:
        if hx is None:
            zeros = x.new_zeros(x.shape[0], self.hidden_size)
            return zeros, zeros
        check_state_kind("LSTMCell", hx, ("h", "c"))
        h, c = hx
        return (h.unsqueeze(0), c.unsqueeze(0)) if unbatched else (h, c)

    def _check_kind(self, input: Tensor) -> None:
        if not isinstance(input, Tensor):
            raise TypeError(f"LSTMCell: expected a tensor, got {type(input).__name__}")
        if input.dim() not in (1, 2):
            raise ValueError(
                f"LSTMCell: expected a 1-D (unbatched) or 2-D input, got {input.dim()}-D: "
                f"{tuple(input.shape)}"
            )

    def _check(self, x: Tensor, h: Tensor, c: Tensor) -> None:
        batch, hidden = x.shape[0], self.hidden_size
        expected = {
            "the input": (batch, self.input_size),
            "h": (batch, hidden),
            "c": (batch, hidden),
        }
        for (name, shape), tensor in zip(expected.items(), (x, h, c), strict=True):
            if tuple(tensor.shape) != shape:
                raise RuntimeError(
                    f"LSTMCell: expected {name} of shape {shape}, got {tuple(tensor.shape)}"
                )
            check_like_weight("LSTMCell", name, tensor, self.weight_ih)
        check_like_weight("LSTMCell", "weight_hh", self.weight_hh, self.weight_ih)

    def _draw_masks(self, x: Tensor) -> tuple[Mask, Mask]:
        if not self.training or not (self.input_dropout or self.recurrent_dropout):
            return KEEP_ALL, KEEP_ALL
        key, step = step_key(self, self.pattern, x.device)

        def draw(rate: float, site: int, size: int) -> Mask:
            return draw_mask(
                self.pattern,
                rate,
                key,
                site=site,
                steps=1,
                batch=x.shape[0],
                size=size,
                dtype=x.dtype,
                first_step=step,
            )

        return (
            draw(self.input_dropout, INPUT_SITE, self.input_size),
            draw(self.recurrent_dropout, HIDDEN_SITE, self.hidden_size),
        )

    def extra_repr(self) -> str:
        own = (
            f"input_dropout={self.input_dropout}, recurrent_dropout={self.recurrent_dropout}, "
            f"pattern={self.pattern}"
        )
        return f"{super().extra_repr()}, {own}"
