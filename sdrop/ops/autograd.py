"""Autograd for the compiled operators, at less cost a call than `torch.library.register_autograd`.

That one fills in the schema's defaults at each call, of which these operators have none: 0.1 ms,
as long as a small layer. All else is as there: below autograd the operator is called again, and
what it needs is kept by `setup_context`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Outputs = Tensor | tuple[Tensor, ...]

_library = torch.library.Library("sdrop", "FRAGMENT")  # type: ignore[no-untyped-call]


def register_autograd(
    name: str,
    backward: Callable[..., tuple[Tensor | None, ...]],
    setup_context: Callable[[Any, tuple[Any, ...], Any], None],
) -> None:
    """Makes `torch.ops.sdrop.<name>`, whose arguments have no defaults, differentiable.

    Args:
        name: of an operator that is declared.
        backward: (ctx, *grads of the outputs) to one gradient an argument.
        setup_context: (ctx, inputs, output), called after the forward pass.
    """
    operator = getattr(torch.ops.sdrop, name).default

    def below_autograd(keyset: Any, arguments: tuple[Any, ...]) -> Outputs:
        with torch._C._AutoDispatchBelowAutograd():
            output: Outputs = operator.redispatch(
                keyset & torch._C._after_autograd_keyset, *arguments
            )
        return output

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Outputs:
            *inputs, keyset = arguments
            output = below_autograd(keyset, tuple(inputs))
            setup_context(ctx, tuple(inputs), output)
            return output

        @staticmethod
        def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            return (*backward(ctx, *grads), None)

    def implementation(keyset: Any, *arguments: Any) -> Outputs:
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            output: Outputs = Differentiable.apply(*arguments, keyset)  # type: ignore[no-untyped-call]
            return output
        return below_autograd(keyset, arguments)

    _library.impl(  # type: ignore[no-untyped-call]
        name, implementation, "Autograd", with_keyset=True
    )
