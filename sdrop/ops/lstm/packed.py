"""The LSTM on kept neurons alone, in PyTorch ops, with its backward pass written by hand.

What is packed (Sarma et al. 2021, section 3.2): a dropped neuron is a column of the activation
and a row of the transposed weight, so a mask that is constant in time shrinks all three GEMMs of
its site: forward `X[:, S] W[S]`, backward data `dX[:, S] = dY W[S]^T`, weight gradient
`dW[S] = X[:, S]^T dY`. With a mask that varies in time a gather of the weight at each step costs
what it saves in PyTorch ops; there the activation is masked and the GEMMs stay whole.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sdrop.ops.lstm.steps import Steps
from sdrop.ops.masks import Mask, dense_mask


class Saved(NamedTuple):
    """What the backward pass needs of the forward pass; N rows, H units, P outputs.

    Attributes:
        gates: (N, 4H), i, f, g, o after their nonlinearities.
        cells: (N, H), c_t.
    """

    gates: Tensor
    cells: Tensor


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Cells and gates of half-precision inputs are kept in float32, as cuDNN and oneDNN do."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


class SiteProduct:
    """The product `drop(X) W` of one site, where W is (K, N), and the two that follow backward."""

    def __init__(self, mask: Mask, weight: Tensor, steps: Steps) -> None:
        self.weight = weight
        self.kept: Tensor | None = None
        self.factor: Tensor | None = None
        if mask.kept is not None and mask.kept.shape[0] == 1:
            self.kept = mask.kept[0]
            self.weight = weight.index_select(0, self.kept) * mask.scale
            self.scale = mask.scale
        else:
            self.factor = dense_mask(mask, weight.shape[0], weight.dtype)
        self._weight_rows = weight.shape[0]
        self._steps = steps

    def _step_factor(self, t: int, size: int) -> Tensor | None:
        if self.factor is None:
            return None
        return self.factor[t if self.factor.shape[0] > 1 else 0, :size]

    def _drop_rows(self, rows: Tensor) -> Tensor:
        if self.kept is not None:
            return rows.index_select(1, self.kept)
        return rows if self.factor is None else rows * self._steps.expand(self.factor)

    def _restore(self, grad: Tensor) -> Tensor:
        """Puts the kept columns of a gradient into their places; the others are exactly 0."""
        assert self.kept is not None
        whole = grad.new_zeros(grad.shape[0], self._weight_rows)
        return whole.index_copy_(1, self.kept, grad)

    def all_steps(self, rows: Tensor) -> Tensor:
        """drop(rows) W for all rows of the sequence at once."""
        return self._drop_rows(rows) @ self.weight

    def step(self, t: int, rows: Tensor) -> Tensor:
        """drop(rows) W for the rows of step t."""
        factor = self._step_factor(t, rows.shape[0])
        if self.kept is not None:
            rows = rows.index_select(1, self.kept)
        elif factor is not None:
            rows = rows * factor
        return rows @ self.weight

    def step_data_grad(self, t: int, grad: Tensor) -> Tensor:
        """The gradient of step t's rows."""
        rows = grad @ self.weight.t()
        factor = self._step_factor(t, grad.shape[0])
        if self.kept is not None:
            return self._restore(rows)
        return rows if factor is None else rows * factor

    def all_data_grad(self, grad: Tensor) -> Tensor:
        """The gradient of all rows."""
        rows = grad @ self.weight.t()
        if self.kept is not None:
            return self._restore(rows)
        return rows if self.factor is None else rows.mul_(self._steps.expand(self.factor))

    def weight_grad(self, rows: Tensor, grad: Tensor) -> Tensor:
        """The gradient of W: (K, N), rows of neurons that no step kept are exactly 0."""
        product = self._drop_rows(rows).t() @ grad
        if self.kept is None:
            return product
        whole = product.new_zeros(self._weight_rows, product.shape[1])
        return whole.index_copy_(0, self.kept, product.mul_(self.scale))


def forward(
    x: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    weight_hr: Tensor | None,
    input_mask: Mask,
    hidden_mask: Mask,
    steps: Steps,
) -> tuple[Tensor, Tensor, Tensor, Saved]:
    """Runs the sequence; rows as in `Steps`, weights in torch's shapes.

    Returns:
        output (N, P), h_n (B, P), c_n (B, H), and what `backward` needs.
    """
    recurrent = SiteProduct(hidden_mask, weight_hh.t(), steps)
    wide = accumulation_dtype(x.dtype)
    gates = SiteProduct(input_mask, weight_ih.t(), steps).all_steps(x).to(wide)
    if bias is not None:
        gates += bias
    hidden_size = c_0.shape[1]
    cells = gates.new_empty(gates.shape[0], hidden_size)
    output = x.new_empty(gates.shape[0], h_0.shape[1])
    h, c = h_0, c_0.to(wide)
    for t, rows in steps.rows():
        size = rows.stop - rows.start
        pre = gates[rows]
        pre += recurrent.step(t, h[:size])
        pre[:, : 2 * hidden_size].sigmoid_()
        pre[:, 2 * hidden_size : 3 * hidden_size].tanh_()
        pre[:, 3 * hidden_size :].sigmoid_()
        i, f, g, o = pre.chunk(4, dim=1)
        cell = torch.mul(f, c[:size], out=cells[rows]).addcmul_(i, g)
        hidden = torch.tanh(cell).mul_(o).to(x.dtype)
        output[rows] = hidden if weight_hr is None else hidden @ weight_hr.t()
        h, c = _replace(h, output[rows]), _replace(c, cell)
    return output, h.clone(), c.to(x.dtype, copy=True), Saved(gates, cells)


def _replace(state: Tensor, new: Tensor) -> Tensor:
    """`state` with its first rows replaced: sequences that have ended keep what they had."""
    return new if new.shape[0] == state.shape[0] else torch.cat([new, state[new.shape[0] :]])


class Gradients(NamedTuple):
    """One gradient an argument; those of the weights are views of K-major storage."""

    x: Tensor
    h_0: Tensor
    c_0: Tensor
    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor
    weight_hr: Tensor | None


def backward(
    grad_output: Tensor,
    grad_h_n: Tensor,
    grad_c_n: Tensor,
    x: Tensor,
    h_0: Tensor,
    c_0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    weight_hr: Tensor | None,
    input_mask: Mask,
    hidden_mask: Mask,
    steps: Steps,
    output: Tensor,
    saved: Saved,
) -> Gradients:
    """Backpropagation through time: the recurrence alone a step, the rest over all rows at once."""
    recurrent = SiteProduct(hidden_mask, weight_hh.t(), steps)
    grad_gates, hidden_grads, dh, dc = _recurrence(
        grad_output, grad_h_n, grad_c_n, c_0, weight_hr, recurrent, steps, saved
    )
    narrow = grad_gates.to(x.dtype)
    product = SiteProduct(input_mask, weight_ih.t(), steps)
    return Gradients(
        x=product.all_data_grad(narrow),
        h_0=dh.to(h_0.dtype),
        c_0=dc.to(c_0.dtype),
        weight_ih=product.weight_grad(x, narrow).t(),
        weight_hh=recurrent.weight_grad(steps.before(output, h_0), narrow).t(),
        bias=grad_gates.sum(0).to(x.dtype),
        weight_hr=None if weight_hr is None else _projection_grad(hidden_grads, saved, x.dtype),
    )


def _recurrence(
    grad_output: Tensor,
    grad_h_n: Tensor,
    grad_c_n: Tensor,
    c_0: Tensor,
    weight_hr: Tensor | None,
    recurrent: SiteProduct,
    steps: Steps,
    saved: Saved,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of the gates before their nonlinearities, of each h_t, of h_0 and of c_0.

    With s = o * (1 - tanh(c)^2), dc_t = dc + dh_t * s and the gates' gradients are dc_t, or for o
    dh_t, times factors that need no recurrence and are computed for all rows in one go.
    """
    gates, cells = saved
    wide = gates.dtype
    hidden_size = cells.shape[1]
    i, f, g, o = gates.chunk(4, dim=1)
    tanh_c = cells.tanh()
    local = torch.cat(
        [
            g * i * (1 - i),
            steps.before(cells, c_0.to(wide)) * f * (1 - f),
            i * (1 - g * g),
            tanh_c * o * (1 - o),
        ],
        dim=1,
    )
    through_tanh = o * (1 - tanh_c * tanh_c)
    hidden_grads = torch.empty_like(grad_output, memory_format=torch.contiguous_format)
    dh, dc = grad_h_n, grad_c_n.to(wide)
    for t, rows in reversed(steps.rows()):
        size = rows.stop - rows.start
        dh_t = torch.add(grad_output[rows], dh[:size], out=hidden_grads[rows])
        dh_t = (dh_t if weight_hr is None else dh_t @ weight_hr).to(wide)
        dc_t = torch.addcmul(dc[:size], dh_t, through_tanh[rows])
        by_gate = local[rows].view(size, 4, hidden_size)
        by_gate[:, :3] *= dc_t.unsqueeze(1)
        by_gate[:, 3] *= dh_t
        dh_in = recurrent.step_data_grad(t, local[rows].to(grad_output.dtype))
        dh, dc = _replace(dh, dh_in), _replace(dc, dc_t * f[rows])
    return local, hidden_grads, dh, dc


def _projection_grad(hidden_grads: Tensor, saved: Saved, dtype: torch.dtype) -> Tensor:
    """dW_hr (P, H), a view of K-major storage as the parameter is."""
    o = saved.gates.chunk(4, dim=1)[3]
    hidden = (o * saved.cells.tanh()).to(dtype)
    return (hidden.t() @ hidden_grads).t()
