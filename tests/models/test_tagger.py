"""The tagger: what it computes, in plain PyTorch ops, and that padding and order change nothing."""

import pytest
import torch
from torch import nn

import sdrop
from sdrop.data.forms import CAPITALS, FormEncoder
from sdrop.data.tag_batches import EncodedSentences, TagBatches
from sdrop.data.tags import all_tags, constraints
from sdrop.models import DropoutRates, Tagger

TOKENS = [("Anna", "saw", "a", "cat"), ("Boris",), ("the", "Cat", "saw", "Anna", "again")]
NAMES = all_tags(["X"], "iob2")
ENCODER = FormEncoder.build(TOKENS)


def make_batch(sentences=TOKENS):
    tags = torch.cat([torch.tensor([1, *[0] * (len(each) - 1)]) for each in sentences])
    encoded = EncodedSentences.of(sentences, ENCODER, tags)
    return next(iter(TagBatches(encoded, batch_size=8).placed()))


def make_tagger(**options):
    torch.manual_seed(3)
    sizes = {"embedding_dim": 5, "hidden_size": 4, "character_dim": 3, "spelling_size": 6}
    sizes |= {"num_capitals": len(CAPITALS), "constraints": constraints(NAMES, "iob2")}
    model = Tagger(len(ENCODER.words), len(ENCODER.characters), len(NAMES), **sizes | options)
    return sdrop.name_sites(model).double()


def spelt_by_hand(model, form, spelling):
    signs = model.spelling.embedding(ENCODER.characters.encode(list(form)))
    if spelling == "cnn":
        return model.spelling.convolution(signs.t()[None])[0].amax(1)
    stock = nn.LSTM(3, 6, bidirectional=True).double()
    stock.load_state_dict(model.spelling.lstm.state_dict())
    return stock(signs)[1][0].flatten()


@pytest.mark.parametrize("hidden_layer", [False, True])
@pytest.mark.parametrize("spelling", ["lstm", "cnn", "none"])
def test_scores_equal_those_of_each_sentence_alone_in_plain_torch(spelling, hidden_layer):
    model = make_tagger(spelling=spelling, hidden_layer=hidden_layer, capital_dim=2, num_layers=2)
    model.eval()
    batch, places = make_batch()
    arguments = dict(batch.arguments)
    arguments.pop("tags")
    rows = torch.empty(len(places), len(NAMES), dtype=torch.float64)
    rows[places] = model.emissions(**arguments).data.detach()
    stock = nn.LSTM(model.lstm.input_size, 4, 2, bidirectional=True).double()
    stock.load_state_dict(model.lstm.state_dict())
    begin = 0
    for sentence in TOKENS:
        table = ENCODER(list(sentence))
        parts = [model.embedding(table.words)]
        if spelling != "none":
            parts.append(torch.stack([spelt_by_hand(model, f, spelling) for f in sentence]))
        parts.append(model.capitals(table.capitals))
        output = stock(torch.cat(parts, dim=1))[0]
        if hidden_layer:
            output = nn.functional.linear(output, model.hidden.weight, model.hidden.bias).tanh()
        expected = nn.functional.linear(output, model.scores.weight, model.scores.bias)
        found = rows[begin : begin + len(sentence)]
        torch.testing.assert_close(found, expected.detach(), rtol=0, atol=1e-12)
        begin += len(sentence)


def test_the_loss_is_the_mean_of_a_token():
    batch, _ = make_batch()
    tags, sizes = batch.arguments["tags"], batch.arguments["batch_sizes"]
    crf = make_tagger().eval()
    scores = crf.emissions(**{k: v for k, v in batch.arguments.items() if k != "tags"})
    expected = -crf.crf(scores, tags).sum() / 10
    torch.testing.assert_close(crf(**batch.arguments)[0], expected)
    softmax = make_tagger(output="softmax").eval()
    scores = softmax.emissions(**{k: v for k, v in batch.arguments.items() if k != "tags"})
    expected = nn.functional.cross_entropy(scores.data, tags)
    torch.testing.assert_close(softmax(**batch.arguments)[0], expected)
    assert softmax.decode(scores).tolist() == scores.data.argmax(1).tolist()
    assert int(sizes.sum()) == 10


def test_every_parameter_gets_a_gradient():
    for options in ({}, {"spelling": "lstm", "output": "softmax"}, {"hidden_layer": True}):
        model = make_tagger(capital_dim=2, rates=DropoutRates(0.5, 0.5, 0.5, 0.5), **options)
        with sdrop.mask_key(1, 1):
            model(**make_batch()[0].arguments)[0].backward()
        without = [name for name, p in model.named_parameters() if p.grad is None]
        assert without == []


def loss_of(step, **options):
    model = make_tagger(rates=DropoutRates(0.4, 0.4, 0.4, 0.4), **options)
    with sdrop.mask_key(1, step):
        return model(**make_batch()[0].arguments)[0].item()


@pytest.mark.parametrize("spelling", ["lstm", "cnn"])
def test_masks_follow_from_the_key(spelling):
    assert loss_of(1, spelling=spelling) == loss_of(1, spelling=spelling)
    assert loss_of(1, spelling=spelling) != loss_of(2, spelling=spelling)


def test_nothing_may_be_dropped_in_the_spelling_alone():
    for spelling in ("lstm", "cnn"):
        rates = DropoutRates(input=0.5, recurrent=0.5)
        model = make_tagger(spelling=spelling, rates=rates, drop_spelling=False)
        arguments = make_batch()[0].arguments
        spell = (arguments["characters"], arguments["character_lengths"])
        assert torch.equal(model.spelling(*spell), model.eval().spelling(*spell))
        assert not make_tagger(spelling=spelling, rates=rates).training or not torch.equal(
            make_tagger(spelling=spelling, rates=rates).spelling(*spell), model.spelling(*spell)
        )


def test_forget_gates_start_open_and_embeddings_small():
    model = make_tagger()
    bias = model.lstm.bias_ih_l0.detach()
    assert bias[4:8].tolist() == [1.0] * 4
    assert bias[:4].abs().sum() + bias[8:].abs().sum() + model.lstm.bias_hh_l0.abs().sum() == 0
    assert model.embedding.weight.abs().max() <= (3 / 5) ** 0.5


@pytest.mark.parametrize("option", ["spelling", "output"])
def test_another_spelling_or_output_is_refused(option):
    with pytest.raises(ValueError, match=f"{option}='no'"):
        make_tagger(**{option: "no"})
