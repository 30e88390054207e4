"""The decoder's loss over the compiled kernels, against its equation in float64."""

import pytest
import torch

from sdrop.functional import KEEP_ALL, Mask, linear_cross_entropy
from sdrop.ops.linear_cross_entropy import linear_cross_entropy_equation
from sdrop.ops.native import NATIVE

pytestmark = pytest.mark.skipif(NATIVE.capability is None, reason=str(NATIVE.reason))


def drawn(sets, size):
    kept = [torch.randperm(size)[: (size + 1) // 2].sort().values for _ in range(sets)]
    return Mask(kept=torch.stack(kept), scale=size / len(kept[0]))


@pytest.mark.parametrize("mask", ["all", "constant", "varying"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("T", "B", "K", "N"), [(7, 3, 17, 63), (1, 1, 5, 100), (12, 65, 33, 20)])
def test_loss_and_gradients_are_the_equations(T, B, K, N, bias, mask):
    x, w, b = torch.randn(T, B, K), torch.randn(K, N).t(), torch.randn(N) if bias else None
    target = torch.randint(N, (T, B))
    target[T // 2, 1:] = -100
    kept = {"all": KEEP_ALL, "constant": drawn(1, K), "varying": drawn(T, K)}[mask]
    leaves = [tensor.requires_grad_() for tensor in (x, w, b) if tensor is not None]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    loss = linear_cross_entropy(x, w, b, target, kept, backend="cpu")
    expected = linear_cross_entropy_equation(*exact, *([] if bias else [None]), target, kept)
    found = [loss, *torch.autograd.grad(3.0 * loss, leaves)]
    wanted = [expected, *torch.autograd.grad(3.0 * expected, exact)]
    for ours, theirs in zip(found, wanted, strict=True):
        assert not ours.isnan().any()
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
