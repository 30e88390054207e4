"""What each suite compares: the right work, on the right modules, with nothing carried over."""

import pytest
import torch
from torch import nn

from sdrop.benchmark import gemm, step
from sdrop.benchmark.rows import Setting
from sdrop.benchmark.shapes import SHAPES, parse_shape
from sdrop.benchmark.step import SameTailLanguageModel, StockLanguageModel
from sdrop.benchmark.suites import SUITES, comparisons, register_step, registered_steps
from sdrop.benchmark.unrolled import UnrolledLSTM
from sdrop.models import LanguageModel

TINY = parse_shape("T5-B3-in9-H7-p.4-V11")
VARIANTS = ("none", "structured_nr", "structured", "structured_constant", "unrolled")
REFERENCE = Setting(backend="reference")


def measured(suite, clock, variants=VARIANTS, shape=TINY, setting=None):
    setting = setting or Setting()
    return SUITES[suite](shape, variants, setting).measure(setting, clock, rounds=2, peak=50.0)


def by_variant(rows):
    return {row.variant: row for row in rows}


def test_the_layer_suite_times_stock_modules_and_every_variant(steady):
    rows = by_variant(measured("layer", steady))
    assert list(rows) == list(VARIANTS)
    baselines = [row.baseline for row in rows.values()]
    assert baselines == ["nn.LSTM"] + ["nn.Dropout + nn.LSTM"] * 4
    limits = [round(row.flop_limit, 3) for row in rows.values()]
    # 9 inputs keep 5 and 7 hidden ones keep 4.
    assert limits == [1.0, round(16 / 12, 3), round(16 / 9, 3), round(16 / 9, 3), 1.0]
    assert {row.phase for row in rows.values()} == {"total"}


def test_a_variant_may_be_left_out(steady):
    (row,) = measured("layer", steady, ["structured"])
    assert row.variant == "structured"


def test_generation_runs_forward_in_evaluation_and_nothing_is_dropped(steady):
    (row,) = measured("layer", steady, shape=SHAPES["generation"])
    assert (row.variant, row.baseline, row.phase) == ("none", "nn.LSTM", "forward")
    for suite in ("gemm", "step", "scaling"):
        assert SUITES[suite](SHAPES["generation"], VARIANTS, Setting()) is None


def test_bfloat16_is_compared_with_both_precisions(steady):
    rows = measured("layer", steady, ["structured"], setting=Setting(dtype="bfloat16"))
    assert [row.baseline for row in rows] == [
        "nn.Dropout + nn.LSTM",
        "nn.Dropout + nn.LSTM in float32",
    ]
    assert {row.dtype for row in rows} == {"bfloat16"}


def test_the_gemm_suite_takes_the_phases_apart_where_the_kernels_do(steady):
    rows = measured("gemm", steady)
    phases = ("forward", "backward_data", "backward_weight")
    compiled = {row.phase for row in rows} == set(phases)
    assert compiled or {row.phase for row in rows} == {"forward", "total"}
    assert {row.variant for row in rows} == {"none", "structured", "structured_constant"}
    assert {row.baseline for row in rows} == {"torch.mm"}
    assert {row.flop_limit for row in rows if row.variant != "none"} == {9 / 5}


def test_backward_data_is_what_the_backward_pass_takes_more_for_it():
    times = {"structured backward": [9.0, 5.0], "structured backward_weight": [4.0, 6.0]}
    found = gemm._phases_apart(["structured"], times)
    # The second round is noise: no less than a hundredth of the whole.
    assert found["structured backward_data"] == [5.0, 0.05]


def test_the_gemm_suite_of_the_reference_adds_the_phases_up(steady):
    rows = measured("gemm", steady, ["structured"], setting=REFERENCE)
    forward, total = rows
    assert (forward.phase, total.phase) == ("forward", "total")
    assert total.milliseconds > forward.milliseconds


def test_the_step_suite_has_a_second_ratio(steady):
    rows = by_variant(measured("step", steady))
    assert list(rows) == list(VARIANTS[:-1])
    assert rows["none"].baseline == "stock, no dropout"
    assert rows["structured"].baseline == "stock"
    assert all(row.ratio_same_tail not in (None, row.ratio) for row in rows.values())


def test_the_scaling_suite_compares_with_live_work(steady):
    rows = measured("scaling", steady)
    longer = next(row for row in rows if row.shape.startswith("T10-"))
    assert longer.flop_limit == pytest.approx(0.5)
    assert rows[0].ratio == rows[0].flop_limit == 1.0
    assert len({row.shape for row in rows}) == len(rows) == 12


def test_a_call_leaves_no_gradient_to_the_next():
    comparison = SUITES["layer"](TINY, VARIANTS, Setting())
    for candidate in comparison.candidates.values():
        seen = []
        for _ in range(2):
            candidate.prepare()
            torch.manual_seed(0)
            candidate.run()
            grads = gradients(candidate)
            assert grads
            seen.append(grads)
        for once, again in zip(*seen, strict=True):
            torch.testing.assert_close(once, again, rtol=0, atol=0)


def test_a_layers_input_has_a_gradient_too():
    for candidate in SUITES["layer"](TINY, VARIANTS, Setting()).candidates.values():
        candidate.run()
        assert [5, 3, 9] in [list(grad.shape) for grad in gradients(candidate)]


def test_every_step_clips_and_updates(monkeypatch):
    monkeypatch.setattr(step, "MAX_GRAD_NORM", 1e-3)
    for candidate in SUITES["step"](TINY, ["none", "structured"], Setting()).candidates.values():
        (model,) = (each for each in held_by(candidate) if isinstance(each, nn.Module))
        before = [parameter.clone() for parameter in model.parameters()]
        candidate.run()
        grads = [parameter.grad for parameter in model.parameters()]
        assert nn.utils.get_total_norm(grads).item() == pytest.approx(1e-3, rel=1e-3)
        for old, new, grad in zip(before, model.parameters(), grads, strict=True):
            torch.testing.assert_close(new, old - step.LEARNING_RATE * grad)


def held_by(candidate):
    return [cell.cell_contents for cell in candidate.run.__closure__]


def gradients(candidate):
    """The gradients of the tensors and modules that a candidate runs on."""
    held = held_by(candidate)
    tensors = [each for each in held if isinstance(each, torch.Tensor)]
    tensors += [p for each in held if isinstance(each, nn.Module) for p in each.parameters()]
    return [tensor.grad.clone() for tensor in tensors if tensor.grad is not None]


def test_the_unrolled_layer_computes_what_torch_does():
    unrolled, lstm = UnrolledLSTM(9, 7, rate=0.0), nn.LSTM(9, 7)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    with torch.no_grad():
        for name in names:
            getattr(unrolled.cell, name).copy_(getattr(lstm, f"{name}_l0"))
    input = torch.randn(5, 3, 9)
    weights = torch.randn(5, 3, 7)
    outputs = unrolled(input), lstm(input)[0]
    torch.testing.assert_close(*outputs)
    (outputs[0] * weights).sum().backward()
    (outputs[1] * weights).sum().backward()
    for name in names:
        torch.testing.assert_close(
            getattr(unrolled.cell, name).grad, getattr(lstm, f"{name}_l0").grad
        )


def test_the_unrolled_layer_drops_in_the_recurrence():
    unrolled = UnrolledLSTM(9, 7, rate=0.5)
    input = torch.zeros(5, 3, 9)
    assert not torch.equal(unrolled(input), unrolled(input))
    unrolled.eval()
    torch.testing.assert_close(unrolled(input), unrolled(input), rtol=0, atol=0)


@pytest.mark.parametrize("tail", [False, True])
def test_the_stock_model_is_the_same_model(tail):
    ours = LanguageModel(11, embedding_dim=9, hidden_size=7, init_range=0.5)
    if tail:
        stock = SameTailLanguageModel(TINY, drops=False, backend="auto")
    else:
        stock = StockLanguageModel(TINY, drops=False)
    stock.load_state_dict(ours.state_dict())
    input, target = torch.randint(11, (2, 5, 3))
    torch.testing.assert_close(stock(input, target), ours(input, target)[0])


def test_a_recipe_registers_the_step_of_its_model(steady, monkeypatch):
    monkeypatch.setattr("sdrop.benchmark.suites._STEPS", {})

    def make(variants, setting):
        return SUITES["step"](TINY, variants, setting)

    register_step("translator", make)
    assert registered_steps() == ["translator"]
    made = list(comparisons(["layer", "step"], ["translator"], ["structured"], Setting()))
    (row,) = made[0]().measure(Setting(), steady, rounds=1)
    assert (len(made), row.suite) == (1, "step")
    with pytest.raises(ValueError, match="'translator' is registered already"):
        register_step("translator", make)
