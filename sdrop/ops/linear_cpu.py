"""`torch.ops.sdrop.linear_cpu`: the compiled packed linear layer, for float32."""

from __future__ import annotations

from torch import Tensor

from sdrop.ops.linear_compiled import define_linear
from sdrop.ops.masks import Mask

_call = define_linear("linear_cpu")


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Mask,
    batch_sizes: Tensor | None = None,
) -> Tensor:
    """Calls the operator; arguments and result as in `linear_equation`."""
    output: Tensor = _call(input, weight, bias, mask.kept, mask.mask, mask.scale, batch_sizes)
    return output
