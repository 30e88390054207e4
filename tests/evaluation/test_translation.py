"""Texts translated in batches: order, empty sentences, modes, and unknown words."""

import pytest
import torch
from toy_translators import BEGIN, END, toy_translator

from sdrop.evaluation.decoding import DecodingSettings
from sdrop.evaluation.translation import replaced_unknown, translate


def sentences(number, longest=9):
    return [torch.randint(7, (int(torch.randint(longest + 1, ())),)) for _ in range(number)]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_each_sentence_gets_its_own_translation_in_its_place(beam_size):
    model, given = toy_translator(words=9), sentences(40)
    settings = DecodingSettings(beam_size=beam_size)
    marks = {"begin": BEGIN, "end": END, "settings": settings}
    found = translate([model], given, batch_size=7, **marks)
    assert len(found) == 40
    for sentence, (best,) in zip(given, found, strict=True):
        assert best.words == translate([model], [sentence], **marks)[0][0].words
        assert bool(best.words) <= bool(len(sentence))


def test_an_empty_sentence_has_the_empty_translation_and_no_sentence_none():
    options = {"begin": BEGIN, "end": END, "settings": DecodingSettings(n_best=2)}
    model, empty = toy_translator(), torch.tensor([], dtype=torch.int64)
    found = translate([model], [empty, torch.tensor([3]), empty], **options)
    assert [len(each) for each in found] == [1, 2, 1]
    assert found[0][0].words == found[2][0].words == []
    assert translate([model], [], **options) == []


def test_models_get_their_modes_back_and_drop_nothing_meanwhile():
    models = [toy_translator(1).train(), toy_translator(2).eval()]
    models[0].encoder.eval()
    translate(models, sentences(3), begin=BEGIN, end=END, settings=DecodingSettings())
    assert models[0].training
    assert not models[0].encoder.training
    assert not models[1].training


def test_a_very_long_sentence_is_translated_whole():
    model = toy_translator()
    long = torch.randint(7, (5000,))
    settings = DecodingSettings(beam_size=2, max_length_ratio=0.01)
    (found,) = translate([model], [long], begin=BEGIN, end=END, settings=settings)
    assert len(found[0].words) <= 60
    assert all(0 <= position < 5000 for position in found[0].attended)


def test_an_unknown_word_is_looked_up_by_attention_or_copied():
    words, source = ["<unk>", "saw", "<unk>", "."], ["Anna", "sah", "Hunde", "."]
    options = {"attended": [0, 1, 2, 3], "source": source, "unknown": "<unk>"}
    assert replaced_unknown(words, **options) == ["Anna", "saw", "Hunde", "."]
    looked_up = replaced_unknown(words, **options, dictionary={"Hunde": "dogs", "sah": "watched"})
    assert looked_up == ["Anna", "saw", "dogs", "."]
