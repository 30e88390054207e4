"""The optimizers, each in the form that is fastest on sdrop's weights.

Those are K-major: transposed views of contiguous tensors. A fused step walks through the memory of
parameter, gradient and state side by side, so it is silently wrong where their strides differ.
Autograd brings each gradient into its parameter's strides; `align_state` does so for state that
was loaded.

On a CPU torch's fused step copies tensors that are not contiguous. For SGD, one pass over the
memory in any form, that costs five times the step (22.8 ms for a (10000, 650) weight, 4.6 ms
unfused) and memory for a second weight, so there it stays unfused.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

Parameters = Iterable[nn.Parameter]


def sgd(
    parameters: Parameters,
    lr: float,
    *,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> SGD:
    """Stochastic gradient descent, plain or with momentum, as `torch.optim.SGD`."""
    trained, fused = _trained(parameters)
    on_cpu = any(parameter.device.type == "cpu" for parameter in trained)
    return SGD(
        trained,
        lr=lr,
        momentum=momentum,
        nesterov=nesterov,
        weight_decay=weight_decay,
        foreach=False if on_cpu else None,
        fused=fused and not on_cpu,
    )


def adam(
    parameters: Parameters,
    lr: float,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Adam:
    """Adam (Kingma & Ba 2015), as `torch.optim.Adam`; weight decay is added to the gradient."""
    trained, fused = _trained(parameters)
    return Adam(trained, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)


def adamw(
    parameters: Parameters,
    lr: float,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019), as `torch.optim.AdamW`."""
    trained, fused = _trained(parameters)
    return AdamW(trained, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)


@torch.no_grad()
def align_state(optimizer: Optimizer) -> None:
    """Brings loaded state into the strides of the parameter that it belongs to.

    Call it after `optimizer.load_state_dict` where a parameter may not be contiguous: loading
    keeps the strides of what was saved, and a fused step on strides that differ is silently wrong.
    State in the right strides is left as it is.
    """
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if _differs_in_strides(parameter, value):
                state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _differs_in_strides(parameter: Tensor, value: object) -> bool:
    return (
        isinstance(value, Tensor)
        and value.shape == parameter.shape
        and value.stride() != parameter.stride()
    )


def _trained(parameters: Parameters) -> tuple[list[nn.Parameter], bool]:
    """The parameters that are trained, and whether a fused step can take them all."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        raise ValueError("the optimizer was given no parameter that requires a gradient")
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in trained)
    return trained, fused
