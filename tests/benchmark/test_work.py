"""FLOP counts against published figures and against torch's own counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sdrop.benchmark.shapes import SHAPES, parse_shape
from sdrop.benchmark.unrolled import UnrolledLSTM
from sdrop.benchmark.work import gemm_work, layer_work, step_work
from sdrop.models import DropoutRates


@pytest.mark.parametrize(
    ("shape", "gflop", "limits"),
    [
        # A step's GFLOP, and its limit with NR, with NR and RH, and with the decoder's dropout too.
        ("ptb_medium", 55.7, (1.15, 1.34, 2.00)),
        ("ptb_large", 214, (1.30, 1.85, 2.86)),
        ("iwslt", 134, (1.08, 1.17, 2.00)),
    ],
)
def test_a_step_has_the_limits_that_arithmetic_gives(shape, gflop, limits):
    rate = SHAPES[shape].rate
    sites = {"input": rate, "between": rate}
    for more, limit in zip(
        ({}, {"recurrent": rate}, {"recurrent": rate, "output": rate}), limits, strict=True
    ):
        work = step_work(SHAPES[shape], DropoutRates(**sites, **more))
        assert work.dense / 1e9 == pytest.approx(gflop, rel=5e-3)
        assert work.limit == pytest.approx(limit, abs=5e-3)


def test_the_decoders_share_of_a_step():
    whole = step_work(SHAPES["ptb_medium"], DropoutRates()).dense
    layers = 2 * layer_work(SHAPES["ptb_medium"], DropoutRates()).dense
    assert 1 - layers / whole == pytest.approx(0.49, abs=5e-3)


def test_a_layer_is_what_torch_counts():
    shape = parse_shape("T5-B3-in4-H6")
    module = UnrolledLSTM(4, 6, rate=0.0)
    input = torch.randn(5, 3, 4, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        module(input).sum().backward()
    # Forward and data gradient of the first step's h_0, which is zero and wants no gradient.
    without_h_0 = 2 * 3 * 6 * 24
    assert counter.get_total_flops() == layer_work(shape, DropoutRates()).dense - without_h_0


def test_each_rate_acts_at_its_own_site():
    shape = parse_shape("T1-B1-in10-H20-V40")
    dense = {"input": 10 * 80, "between": 20 * 80, "recurrent": 2 * 20 * 80, "output": 20 * 40}
    for site, weights in dense.items():
        work = step_work(shape, DropoutRates(**{site: 0.5}))
        assert work.dense == 2 * 3 * sum(dense.values())
        assert work.dense - work.live == 2 * 3 * weights / 2


def test_a_kept_count_is_rounded_as_the_masks_are():
    assert gemm_work(1, 5, 1, 0.5).live == 2 * 3
    assert gemm_work(1, 5, 1, 0.0).live == gemm_work(1, 5, 1, 0.0).dense
    assert gemm_work(1, 2, 1, 0.9).live == 2


def test_a_shape_that_is_not_trained_runs_forward_alone():
    assert layer_work(SHAPES["generation"], DropoutRates()).dense == 2 * 4 * 650 * 1300
