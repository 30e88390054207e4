"""Beam search: against exhaustive search, against greedy decoding, and its scores recomputed."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from toy_translators import BEGIN, END, exhaustive, plain_beam_search, score, toy_translator

from sdrop.evaluation.beam_search import beam_search
from sdrop.evaluation.decoding import DecodingSettings
from sdrop.evaluation.greedy_search import greedy_search

SOURCES = [torch.tensor(each) for each in ([3, 4], [6], [0, 5, 3, 3, 1], [5, 5, 4])]
FORMS = [{}, {"input_feeding": True}, {"attention": "concat", "scaled_attention": True}]


@torch.no_grad()
def search(models, settings, sources=SOURCES, by=beam_search):
    lengths = torch.tensor([len(source) for source in sources])
    source = pad_sequence(sources, padding_value=END)
    return by(models, source, lengths, begin=BEGIN, end=END, settings=settings)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("coverage_penalty", [0.0, 0.5])
def test_a_beam_as_wide_as_all_prefixes_finds_what_exhaustive_search_finds(
    form, length_penalty, coverage_penalty
):
    settings = DecodingSettings(
        beam_size=3 + 3**2 + 3**3 + 3**4,
        n_best=5,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        max_length_ratio=0,
        max_length_extra=3,
    )
    model = toy_translator(words=4, **form)
    for source, found in zip(SOURCES[:2], search([model], settings, SOURCES[:2]), strict=True):
        best = exhaustive([model], source, settings)[:5]
        assert [each.words for each in found] == [each.words for each in best]
        assert [each.score for each in found] == pytest.approx(
            [each.score for each in best], rel=1e-12
        )


def test_a_wide_beam_of_an_ensemble_finds_the_best_of_the_mean_probabilities():
    models = [toy_translator(seed, words=4) for seed in (1, 2, 3)]
    settings = DecodingSettings(
        beam_size=400, length_penalty=0.5, max_length_ratio=0, max_length_extra=3
    )
    for source, found in zip(SOURCES, search(models, settings), strict=True):
        best = exhaustive(models, source, settings)[0]
        assert found[0].words == best.words
        assert found[0].score == pytest.approx(best.score, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beam_size", [2, 4])
def test_a_beam_finds_all_that_a_plain_one_finds(seed, beam_size):
    model = toy_translator(seed, words=7)
    limits = {"max_length_ratio": 0.0, "max_length_extra": 4}
    settings = DecodingSettings(beam_size=beam_size, n_best=beam_size, **limits)
    for source, found in zip(SOURCES, search([model], settings), strict=True):
        plain = plain_beam_search(model, source, settings)
        assert [each.words for each in found] == [each.words for each in plain]
        scores = [each.score for each in plain]
        assert [each.score for each in found] == pytest.approx(scores, rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_of_one_is_greedy_decoding(seed):
    model = toy_translator(seed, words=9, input_feeding=seed % 2 == 0)
    settings = DecodingSettings(beam_size=1)
    greedy = search([model], settings, by=greedy_search)
    assert [found[0][:1] for found in search([model], settings)] == [each[:1] for each in greedy]
    for (found,), expected in zip(search([model], settings), greedy, strict=True):
        assert found.attended == expected.attended
        assert found[1:3] == pytest.approx(expected[1:3], rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_scores_can_be_recomputed_and_are_in_order(seed):
    models = [toy_translator(seed, words=9), toy_translator(seed + 10, words=9)]
    settings = DecodingSettings(beam_size=6, n_best=4, coverage_penalty=0.2, length_penalty=0.7)
    for source, found in zip(SOURCES, search(models, settings), strict=True):
        assert len(found) == 4
        assert len({tuple(each.words) for each in found}) == 4
        scores = [each.score for each in found]
        assert scores == sorted(scores, reverse=True)
        again = [score(models, source, each.words, settings) for each in found]
        assert scores == pytest.approx(again, rel=1e-12)


def test_a_wider_beam_never_scores_less_than_exhaustive_search_allows():
    model = toy_translator(4, words=4)
    limits = {"max_length_ratio": 0, "max_length_extra": 3, "length_penalty": 0.0}
    every = [exhaustive([model], source, DecodingSettings(**limits))[0].score for source in SOURCES]
    for width in (1, 2, 5, 20):
        found = search([model], DecodingSettings(beam_size=width, **limits))
        for (first, *_), best in zip(found, every, strict=True):
            assert first.score <= best + 1e-12


def test_sentences_in_a_batch_are_translated_as_alone():
    model = toy_translator(5, words=9, input_feeding=True)
    settings = DecodingSettings(beam_size=3, n_best=3, coverage_penalty=0.1)
    together = search([model], settings)
    for source, found in zip(SOURCES, together, strict=True):
        (alone,) = search([model], settings, [source])
        assert [each.words for each in alone] == [each.words for each in found]
        assert [each.attended for each in alone] == [each.attended for each in found]
        assert [each.score for each in alone] == pytest.approx([each.score for each in found])


@pytest.mark.parametrize("by", [beam_search, greedy_search])
def test_no_translation_is_longer_than_its_source_allows(by):
    model = toy_translator()
    model.generator.bias.data[END] = -50.0  # would never end by itself
    settings = DecodingSettings(beam_size=1, max_length_ratio=1.5, max_length_extra=2)
    found = [each[0] if by is beam_search else each for each in search([model], settings, by=by)]
    limits = [int(1.5 * len(source)) + 2 for source in SOURCES]
    assert [len(each.words) for each in found] == limits
    assert [len(each.attended) for each in found] == limits


def test_a_model_that_ends_at_once_gives_empty_translations():
    model = toy_translator()
    model.generator.bias.data[END] = 50.0
    for settings in (DecodingSettings(beam_size=1), DecodingSettings(beam_size=4)):
        assert [found[0].words for found in search([model], settings)] == [[]] * len(SOURCES)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam_size": 0}, "beam_size=0: expected 1 or more"),
        ({"beam_size": 2, "n_best": 3}, "n_best=3: a beam of beam_size=2"),
        ({"length_penalty": -1.0}, "length_penalty=-1.0: expected a number of 0 or more"),
        ({"coverage_penalty": float("nan")}, "coverage_penalty=nan"),
    ],
)
def test_settings_out_of_range_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        DecodingSettings(**options)


def test_decoding_with_no_model_is_refused():
    with pytest.raises(ValueError, match="a model or more"):
        search([], DecodingSettings())
