"""The tagger's step in the benchmark."""

import torch

from sdrop.benchmark import tagger
from sdrop.benchmark.rows import Setting
from sdrop.benchmark.suites import comparisons, registered_steps


def test_shape_tagger_is_a_step_of_variants_over_stock(steady, monkeypatch):
    monkeypatch.setattr(tagger, "WORDS", 50)
    assert "tagger" in registered_steps()
    setting = Setting()
    (make,) = comparisons(["gemm", "step"], ["tagger"], ["none", "structured"], setting)
    rows = make().measure(setting, steady, rounds=1)
    assert [(row.variant, row.baseline) for row in rows] == [
        ("none", "stock, no dropout"),
        ("structured", "stock"),
    ]
    assert {(row.suite, row.shape) for row in rows} == {("step", "tagger")}
    assert [round(row.flop_limit, 2) for row in rows] == [1.0, 2.0]


def test_both_models_compute_the_same_without_dropout_on_forms_of_one_length():
    torch.manual_seed(1)
    stock = tagger.StockTagger(tagger.SHAPE, drops=False).double()
    ours = tagger.Tagger(
        tagger.WORDS,
        tagger.CHARACTERS,
        tagger.TAGS,
        embedding_dim=tagger.EMBEDDING,
        hidden_size=tagger.SHAPE.hidden_size,
        spelling="lstm",
        character_dim=tagger.CHARACTER,
        spelling_size=tagger.SPELLING,
    ).double()
    weights = {
        name.replace("spelling.lstm", "spelling"): w for name, w in ours.state_dict().items()
    }
    weights["characters.weight"] = weights.pop("spelling.embedding.weight")
    stock.load_state_dict(weights)
    batch = tagger._batch("cpu")
    batch["character_lengths"] = torch.full_like(
        batch["character_lengths"], batch["characters"].shape[1]
    )
    torch.testing.assert_close(stock(**batch), ours(**batch)[0])
