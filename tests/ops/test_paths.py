"""The table of paths, row by row, for devices that need not be here."""

import pytest
import torch

from sdrop.ops.masks import KEEP_ALL, Mask
from sdrop.ops.paths import (
    FEW_ROWS,
    MANY_ROWS,
    MIDDLE_ROWS,
    MIDDLE_SIZES,
    WIDE_BATCH,
    Call,
    choose,
    dropped_of,
)

FITS = Call(
    op="lstm",
    backend="auto",
    device="cpu",
    dtype=torch.float32,
    sizes=(4, 4),
    rows=60,
    batch=3,
    input="nothing",
    hidden="nothing",
    multiplied=True,
    gradients=True,
    packed=False,
    projection=False,
    compiling=False,
    transformed=False,
    not_cpu=None,
    not_cuda="no GPU",
)
ON_GPU = FITS._replace(device="cuda", not_cpu="they are on a GPU", not_cuda=None)
WIDE = FITS._replace(op="layer", batch=WIDE_BATCH, rows=MANY_ROWS)
MIDDLE = FITS._replace(
    op="layer", batch=4, rows=MIDDLE_ROWS, sizes=(9, MIDDLE_SIZES.start), gradients=False
)


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (FITS, "cpu"),
        (FITS._replace(not_cpu="no compiler"), "reference"),
        (FITS._replace(backend="reference"), "reference"),
        (FITS._replace(backend="cpu"), "cpu"),
        (FITS._replace(backend="cuda", not_cuda=None), "cuda"),
        (ON_GPU, "cuda"),
        (ON_GPU._replace(op="linear"), "cuda"),
        (ON_GPU._replace(not_cuda="not built"), "reference"),
        (ON_GPU._replace(backend="reference"), "reference"),
        (WIDE, "torch"),
        (WIDE._replace(op="lstm"), "cpu"),
        (WIDE._replace(batch=WIDE_BATCH - 1), "cpu"),
        (WIDE._replace(rows=MANY_ROWS - 1), "cpu"),
        (WIDE._replace(input="elements"), "torch"),
        (WIDE._replace(input="neurons"), "cpu"),
        (WIDE._replace(hidden="elements"), "cpu"),
        (WIDE._replace(packed=True), "cpu"),
        (WIDE._replace(compiling=True), "cpu"),
        (WIDE._replace(transformed=True, not_cpu="transformed"), "reference"),
        (WIDE._replace(backend="cpu"), "cpu"),
        (WIDE._replace(dtype=torch.bfloat16), "torch"),
        (WIDE._replace(dtype=torch.bfloat16, multiplied=False), "cpu"),
        (WIDE._replace(dtype=torch.float64), "cpu"),
        (WIDE._replace(device="cuda", not_cuda=None), "cuda"),
        (WIDE._replace(device="cuda", not_cpu="on a GPU"), "reference"),
        (WIDE._replace(rows=FEW_ROWS, not_cpu="no compiler"), "torch"),
        (WIDE._replace(rows=FEW_ROWS - 1, not_cpu="no compiler"), "reference"),
        (WIDE._replace(packed=True, not_cpu="no compiler"), "torch"),
        (WIDE._replace(projection=True, not_cpu="no projection"), "reference"),
        (WIDE._replace(projection=True, not_cpu="no projection", gradients=False), "torch"),
        (FITS._replace(op="layer", dtype=torch.float64, rows=1, not_cpu="float64"), "torch"),
        (MIDDLE, "torch"),
        (MIDDLE._replace(gradients=True), "cpu"),
        (MIDDLE._replace(dtype=torch.bfloat16), "cpu"),
        (MIDDLE._replace(batch=3), "cpu"),
        (MIDDLE._replace(rows=MIDDLE_ROWS - 1), "cpu"),
        (MIDDLE._replace(sizes=(9, MIDDLE_SIZES.start - 1)), "cpu"),
        (MIDDLE._replace(sizes=(9, MIDDLE_SIZES.stop)), "cpu"),
        (MIDDLE._replace(input="neurons"), "cpu"),
    ],
    ids=str,
)
def test_the_first_row_that_fits_is_taken(call, path):
    assert choose(call).path == path


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({}, "in pairs of bfloat16 numbers"),
        ({"multiplied": False}, "in float32"),
        ({"sizes": (4, 5)}, "in float32"),
        ({"rows": FEW_ROWS - 1}, "in float32"),
        ({"dtype": torch.float16}, "in float32"),
    ],
)
def test_the_reason_says_how_half_precision_is_multiplied(changes, how):
    row = choose(FITS._replace(**({"dtype": torch.bfloat16} | changes)))
    assert row.why == f"the compiled CPU kernels take it; they multiply {how}"
    assert "multiply" not in choose(FITS).why


@pytest.mark.parametrize(
    ("mask", "kind"),
    [
        (KEEP_ALL, "nothing"),
        (Mask(kept=torch.tensor([[0, 2]]), scale=2.0), "neurons"),
        (Mask(mask=torch.ones(2, 1, 4)), "neurons"),
        (Mask(mask=torch.ones(1, 3, 4)), "elements"),
    ],
)
def test_a_mask_is_known_by_what_can_be_skipped(mask, kind):
    assert dropped_of(mask) == kind


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (FITS._replace(not_cpu="no compiler"), "no compiler"),
        (WIDE._replace(not_cpu="no compiler"), "no compiler"),
        (ON_GPU._replace(not_cuda="not built: no nvcc"), "not built: no nvcc"),
    ],
)
def test_the_reason_of_a_fallback_is_what_was_missing(call, missing):
    assert choose(call).why.endswith(missing)


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_backend_that_was_asked_for_and_cannot_is_an_error(backend):
    call = FITS._replace(backend=backend, not_cpu="no compiler", not_cuda="no GPU")
    reason = "no compiler" if backend == "cpu" else "no GPU"
    with pytest.raises(RuntimeError, match=f'backend="{backend}": {reason}; use backend="auto"'):
        choose(call)
