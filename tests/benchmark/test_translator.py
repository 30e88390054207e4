"""The step `translator`: the same model as stock modules make, its work, and its rows."""

import pytest
import torch

from sdrop.benchmark import Setting
from sdrop.benchmark.shapes import Shape
from sdrop.benchmark.suites import registered_steps
from sdrop.benchmark.timing import clock_for
from sdrop.benchmark.translator import (
    TRANSLATORS,
    StockTranslator,
    _batch,
    compare_translators,
    translator_work,
)
from sdrop.benchmark.variants import VARIANTS
from sdrop.models import Translator, TranslatorSizes

SMALL = Shape("small", 4, 3, 6, 8, vocabulary_size=11)
STOCK_NAMES = {
    "decoder.lstm.": "decoder.",
    "decoder.attention.key.": "key.",
    "decoder.attention.output.": "output.",
}


def test_stock_modules_make_the_same_model():
    model = Translator(11, 11, TranslatorSizes(6, 8, 2)).double()
    stock = StockTranslator(SMALL, drops=False).double()
    weights = {}
    for name, tensor in model.state_dict().items():
        for ours, theirs in STOCK_NAMES.items():
            name = name.replace(ours, theirs)
        weights[name] = tensor
    stock.load_state_dict(weights, strict=True)
    batch = _batch(SMALL, Setting())
    torch.testing.assert_close(stock(*batch), model(*batch)[0], rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("name", "limit"), [("translator", 1.97), ("translator-p.3", 1.42), ("translator-p.2", 1.25)]
)
def test_limits_are_near_those_of_a_decoder_alone(name, limit):
    assert name in registered_steps()
    rates = VARIANTS["structured"].rates(TRANSLATORS[name])
    assert translator_work(TRANSLATORS[name], rates).limit == pytest.approx(limit, abs=0.006)
    none = VARIANTS["none"].rates(TRANSLATORS[name])
    assert translator_work(TRANSLATORS[name], none).limit == 1.0


def test_each_variant_has_a_row_over_stock_with_and_without_dropout():
    comparison = compare_translators(SMALL, ["none", "structured", "unrolled"], Setting())
    rows = comparison.measure(Setting(), clock_for("cpu", 1), rounds=1)
    assert [(row.variant, row.baseline) for row in rows] == [
        ("none", "stock, no dropout"),
        ("structured", "stock"),
    ]
    assert all(row.suite == "step" and row.ratio_same_tail for row in rows)
