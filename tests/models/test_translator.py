"""The translator: against plain PyTorch, its sites, its padding, and what is refused."""

import re

import pytest
import torch
from plain_translator import PlainTranslator

import sdrop
from sdrop.models import DropoutRates, Translator, TranslatorSizes

WORDS = (11, 13)
FORMS = {
    "opennmt": TranslatorSizes(5, 6, 2, attention="general", input_feeding=True),
    "luong": TranslatorSizes(
        *(5, 6, 2),
        encoder_num_layers=1,
        encoder_hidden_size=6,
        scaled_attention=True,
        input_feeding=True,
    ),
    "laptop": TranslatorSizes(5, 6, 2, attention="general"),
    "dot, one way": TranslatorSizes(4, 7, 3, bidirectional=False, attention="dot"),
    "concat, tied": TranslatorSizes(6, 6, 1, attention="concat", tie_weights=True),
    "concat, fed": TranslatorSizes(
        *(5, 4, 1), attention="concat", scaled_attention=True, input_feeding=True
    ),
}


@pytest.fixture
def batch():
    """Three pairs of different lengths; behind a sentence's end stands anything."""
    target = torch.randint(WORDS[1], (5, 3))
    target[3:, 1] = -100
    return {
        "source": torch.randint(WORDS[0], (7, 3)),
        "source_lengths": torch.tensor([4, 7, 1]),
        "input": torch.randint(WORDS[1], (5, 3)),
        "target": target,
    }


def small(form="laptop", **options):
    return Translator(*WORDS, FORMS[form], **options)


@pytest.mark.parametrize("form", FORMS)
def test_loss_and_gradients_are_those_of_plain_pytorch(form, batch):
    model = small(form, init_range=0.5).double()
    plain = PlainTranslator(FORMS[form], *WORDS).double()
    plain.load_state_dict(model.state_dict(), strict=True)
    losses = [model(**batch)[0], plain(**batch)]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(*losses, rtol=1e-10, atol=0)
    expected = dict(plain.named_parameters())
    for name, parameter in model.named_parameters():
        assert parameter.grad.abs().max() > 0, name
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_decoding_word_by_word_gives_the_probabilities_of_the_loss(form, batch):
    model = small(form).double().eval()
    memory, state = model.encode(batch["source"], batch["source_lengths"])
    total, counted = 0.0, batch["target"] != -100
    for words, wanted, counts in zip(batch["input"], batch["target"], counted, strict=True):
        log_probabilities, weights, state = model.next_word(words, memory, state)
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(3).double())
        assert weights[memory.padding].abs().max() == 0
        chosen = log_probabilities.gather(1, wanted.clamp(min=0).unsqueeze(1)).squeeze(1)
        total -= chosen[counts].sum()
    torch.testing.assert_close(total / counted.sum(), model(**batch)[0], rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", ["laptop", "opennmt"])
def test_what_stands_in_the_padding_is_of_no_account(form, batch):
    model = small(form).double()
    other = {name: tensor.clone() for name, tensor in batch.items()}
    other["source"][4:, 0] = 0
    other["input"][3:, 1] = 0
    assert model(**other)[0] == model(**batch)[0]


@pytest.mark.parametrize("form", ["laptop", "opennmt"])
@pytest.mark.parametrize("site", ["input", "between", "recurrent", "output"])
def test_each_rate_drops_at_its_site_and_only_in_training(form, site, batch):
    plain = small(form, init_range=0.5)
    dropping = small(form, rates=DropoutRates(**{site: 0.5}))
    dropping.load_state_dict(plain.state_dict())
    sdrop.name_sites(dropping)
    with sdrop.mask_key(1, 2):
        assert dropping(**batch)[0] != plain(**batch)[0]
    assert dropping.eval()(**batch)[0] == plain.eval()(**batch)[0]


@pytest.mark.parametrize("form", ["laptop", "opennmt"])
@pytest.mark.parametrize("time", ["varying", "constant"])
@pytest.mark.parametrize("space", ["structured", "random"])
def test_compiled_kernels_give_loss_and_gradients_of_the_reference(form, space, time, batch):
    pattern = sdrop.DropoutPattern(space=space, time=time)
    found = []
    for backend in ("reference", "auto"):
        torch.manual_seed(0)
        rates = DropoutRates(0.5, 0.5, 0.5, 0.5)
        model = small(form, rates=rates, pattern=pattern, backend=backend)
        sdrop.name_sites(model)
        with sdrop.mask_key(3, 1):
            loss, _ = model(**batch)
        loss.backward()
        found.append([loss, *(parameter.grad for parameter in model.parameters())])
    for reference, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-4, atol=1e-6)


def test_every_gemm_behind_a_dropout_reads_what_it_keeps_only():
    rates = DropoutRates(0.5, 0.5, 0.5, 0.5)
    for form in ("laptop", "opennmt"):
        model = small(form, rates=rates)
        assert model.generator.dropout == model.decoder.attention.output.dropout == 0.5
        assert (model.encoder.input_dropout, model.encoder.recurrent_dropout) == (0.5, 0.5)
        assert model.encoder.dropout == 0.5
    cells = model.decoder.cells
    assert {cell.input_dropout for cell in cells} == {0.5}
    assert {cell.recurrent_dropout for cell in cells} == {0.5}


def test_tied_weights_are_one_k_major_parameter():
    model = small("concat, tied")
    assert model.target_embedding.weight is model.generator.weight
    assert model.generator.weight.t().is_contiguous()


def test_parameters_start_within_the_initial_range_and_the_factor_at_one():
    model = small("luong", init_range=0.02)
    assert model.decoder.attention.scale == 1
    values = [p.flatten() for name, p in model.named_parameters() if not name.endswith("scale")]
    assert torch.cat(values).abs().max() <= 0.02


def test_the_encoders_last_states_are_the_decoders_first(batch):
    model = small("opennmt").double()
    _, first = model.encode(batch["source"][:, :1], batch["source_lengths"][:1])
    _, (h, c) = model.encoder(model.source_embedding(batch["source"][:4, :1]))
    for state, last in ((first.hidden, h), (first.cell, c)):
        torch.testing.assert_close(state[1, 0], torch.cat([last[2, 0], last[3, 0]]))
    _, first = small("luong").encode(batch["source"], batch["source_lengths"])
    assert first.hidden.shape == (2, 3, 6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"embedding_dim": 5, "hidden_size": 6, "tie_weights": True}, "embedding_dim=5"),
        ({"hidden_size": 7}, r"2 layers x 2 directions x 3.*2 layers x 7"),
        ({"encoder_num_layers": 1}, "take encoder_num_layers=1 encoder_hidden_size=hidden_size"),
        ({"num_layers": 0}, "num_layers to be at least 1, got 0"),
        ({"encoder_hidden_size": 0}, "encoder_hidden_size to be at least 1"),
    ],
)
def test_sizes_that_do_not_fit_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        TranslatorSizes(**options)


def test_scores_and_ranges_that_are_none_are_named():
    with pytest.raises(ValueError, match="dot, general, concat, got 'mlp'"):
        Translator(*WORDS, TranslatorSizes(4, 4, attention="mlp"))
    sizes = TranslatorSizes(4, 6, encoder_num_layers=1, encoder_hidden_size=6, attention="dot")
    with pytest.raises(ValueError, match=r"score='dot' needs.*6 features, got 12"):
        Translator(*WORDS, sizes)
    with pytest.raises(ValueError, match="init_range to be a number >= 0, got -1"):
        small(init_range=-1)
    with pytest.raises(ValueError, match="target_vocabulary_size to be at least 1"):
        Translator(3, 0)


def test_lengths_that_do_not_fit_are_named(batch):
    with pytest.raises(RuntimeError, match=re.escape("got shapes (7, 3) and (2,)")):
        small().encode(batch["source"], batch["source_lengths"][:2])
