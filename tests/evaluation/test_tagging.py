"""Tagging a set or a stream of sentences: one tag a token, in the order given."""

import torch

from sdrop.data.forms import FormEncoder
from sdrop.data.tag_batches import EncodedSentences, TagBatches
from sdrop.data.tags import all_tags, constraints
from sdrop.evaluation.tag_stream import tag_stream
from sdrop.evaluation.tagging import entity_evaluation, tag_all, tag_lists
from sdrop.models import Tagger

NAMES = all_tags(["X", "Y"], "iob2")
WORDS = ["a", "bb", "ccc", "dddd"]


def sentences(count):
    generator = torch.Generator().manual_seed(1)

    def number(limit):
        return int(torch.randint(limit, (), generator=generator))

    return [[WORDS[number(4)] for _ in range(1 + number(7))] for _ in range(count)]


TOKENS = sentences(90)
ENCODER = FormEncoder.build(TOKENS)


def make_model():
    torch.manual_seed(2)
    sizes = {"embedding_dim": 4, "hidden_size": 5, "spelling_size": 3}
    allowed = constraints(NAMES, "iob2")
    model = Tagger(len(ENCODER.words), len(ENCODER.characters), 5, **sizes, constraints=allowed)
    with torch.no_grad():
        model.scores.bias.normal_()
        model.embedding.weight.mul_(9)
    return model.train()


def one_by_one(model, tokens):
    found = []
    for each in tokens:
        batches = TagBatches(EncodedSentences.of([each], ENCODER), batch_size=1)
        tags = tag_all(model, batches, "cpu").tags
        found += tag_lists(tags, torch.tensor([len(each)]), NAMES)
    return found


def test_a_batch_gives_each_sentence_the_tags_that_it_gets_alone():
    model = make_model()
    alone = one_by_one(model, TOKENS)
    encoded = EncodedSentences.of(TOKENS, ENCODER)
    found = tag_all(model, TagBatches(encoded, batch_size=16), "cpu")
    assert tag_lists(found.tags, encoded.lengths, NAMES) == alone
    assert found.loss != found.loss  # NaN: nobody knows the right tags
    assert {tag for tags in alone for tag in tags} > {"O"}
    assert model.training


def test_an_evaluation_has_loss_and_f1():
    model = make_model()
    truth = one_by_one(model, TOKENS)
    tags = torch.tensor([NAMES.index(tag) for each in truth for tag in each])
    batches = TagBatches(EncodedSentences.of(TOKENS, ENCODER, tags), batch_size=16)
    found = entity_evaluation(model, batches, truth, NAMES, "iob2", "cpu")
    assert found.metrics == {"f1": 1.0}
    assert found.tokens == len(tags)
    assert 0 < found.loss < 3


def test_a_stream_keeps_order_empty_sentences_and_marks(monkeypatch):
    monkeypatch.setattr("sdrop.evaluation.tag_stream._CHUNK", 7)
    model = make_model()
    given = [[], *TOKENS[:20], ["-DOCSTART-"], [], *TOKENS[20:33]]
    found = list(tag_stream(model, iter(given), ENCODER, NAMES, "cpu"))
    assert [tokens for tokens, _ in found] == given
    real = [tags for tokens, tags in found if tokens and tokens != ["-DOCSTART-"]]
    assert real == one_by_one(model, TOKENS[:33])
    assert found[21] == (["-DOCSTART-"], ["O"])


def test_a_stream_is_read_a_chunk_at_a_time(monkeypatch):
    monkeypatch.setattr("sdrop.evaluation.tag_stream._CHUNK", 7)
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield ["a", "bb"]

    stream = tag_stream(make_model(), endless(), ENCODER, NAMES, "cpu")
    for _ in range(14):
        next(stream)
    assert len(taken) == 14
