"""Batches of tagged sentences: everything once, about one length, the same for (seed, epoch)."""

import random

import pytest
import torch

from sdrop.data.columns import Sentence
from sdrop.data.errors import DataError
from sdrop.data.forms import FormEncoder
from sdrop.data.tag_batches import EncodedSentences, TagBatches, tag_numbers

NAMES = ["O", "B-X", "I-X"]


def make_sentences(count=103):
    generator = random.Random(3)
    words = ["a", "Bb", "ccc", "dddd", "a1"]
    return [
        Sentence(tuple(tokens), tuple(generator.choice(NAMES) for _ in tokens))
        for tokens in (
            [f"{generator.choice(words)}{generator.randint(0, 300)}"
             for _ in range(generator.randint(1, 12))]
            for _ in range(count)
        )
    ]  # fmt: skip


SENTENCES = make_sentences()
ENCODER = FormEncoder.build([each.tokens for each in SENTENCES])


def encoded(sentences=SENTENCES):
    tokens = [each.tokens for each in sentences]
    return EncodedSentences.of(tokens, ENCODER, tag_numbers(sentences, NAMES))


def contents(batch):
    """The sentences of a batch, read back from its packed rows, as (words spelt, tags)."""
    a = batch.arguments
    sizes = a["batch_sizes"].tolist()
    spelt = [
        "".join(ENCODER.characters.decode(row[:length]))
        for row, length in zip(a["characters"], a["character_lengths"], strict=True)
    ]
    found = [[] for _ in range(sizes[0])]
    row = 0
    for size in sizes:
        for column in range(size):
            tag = NAMES[a["tags"][row]]
            found[column].append((spelt[a["forms"][row]], tag, int(a["words"][row])))
            row += 1
    assert row == len(a["words"]) == batch.tokens
    return found


def plain(sentences):
    return sorted(
        [(token, tag, ENCODER.words.encode([ENCODER.word(token)]).item())
         for token, tag in zip(each.tokens, each.tags, strict=True)]
        for each in sentences
    )  # fmt: skip


def test_an_epoch_gives_every_sentence_once_as_it_is():
    batches = list(TagBatches(encoded(), batch_size=8).epoch(0))
    assert len(batches) == len(TagBatches(encoded(), batch_size=8)) == 13
    assert sorted(s for batch in batches for s in contents(batch)) == plain(SENTENCES)
    assert sum(batch.sequences for batch in batches) == len(SENTENCES)


def test_rows_are_packed_and_forms_spelt_once_the_longest_first():
    for batch in TagBatches(encoded(), batch_size=8).epoch(0):
        sizes = batch.arguments["batch_sizes"].tolist()
        assert sizes == sorted(sizes, reverse=True)
        lengths = batch.arguments["character_lengths"].tolist()
        assert lengths == sorted(lengths, reverse=True)
        forms = {token for sentence in contents(batch) for token, _, _ in sentence}
        assert len(forms) == len(lengths)


def test_sentences_of_a_batch_are_of_about_one_length():
    spans = []
    for batch in TagBatches(encoded(), batch_size=8).epoch(0):
        lengths = [len(each) for each in contents(batch)]
        spans.append(max(lengths) - min(lengths))
    assert sum(spans) / len(spans) < 2


def same(one, other):
    return all(torch.equal(a, other.arguments[name]) for name, a in one.arguments.items())


def test_the_order_follows_from_seed_and_epoch():
    def make(seed):
        return TagBatches(encoded(), batch_size=8, seed=seed, word_dropout=0.3)

    first, again = list(make(1).epoch(2)), list(make(1).epoch(2))
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    skipped = list(make(1).epoch(2, start=5))
    assert all(same(a, b) for a, b in zip(first[5:], skipped, strict=True))
    for other in (make(1).epoch(3), make(2).epoch(2)):
        sizes = [batch.tokens for batch in other]
        assert sizes != [batch.tokens for batch in first]


def hidden_share(**options):
    batches = TagBatches(encoded(), batch_size=8, seed=1, **options)
    words = torch.cat([b.arguments["words"] for epoch in range(20) for b in batches.epoch(epoch)])
    return (words == 0).float().mean().item()


def test_words_are_hidden_at_the_rate_given():
    assert hidden_share() == 0
    assert hidden_share(word_dropout=0.3) == pytest.approx(0.3, abs=0.02)
    table = encoded()
    rare = table.table.rare[table.forms].float().mean().item()
    assert rare > 0
    assert hidden_share(rare_dropout=0.5) == pytest.approx(0.5 * rare, abs=0.02)


def test_ranks_share_each_batch_out():
    whole = list(TagBatches(encoded(), batch_size=8, seed=4).epoch(1))
    shares = [
        list(TagBatches(encoded(), batch_size=8, seed=4, rank=rank, world_size=4).epoch(1))
        for rank in range(4)
    ]
    for number, batch in enumerate(whole):
        mine = [share[number] for share in shares]
        assert sum(each.tokens for each in mine) == batch.tokens
        found = sorted(s for each in mine if each.tokens for s in contents(each))
        assert found == sorted(contents(batch))


def test_a_rank_without_a_sentence_takes_the_step_and_counts_nothing():
    shares = [
        list(TagBatches(encoded(SENTENCES[:5]), batch_size=4, rank=rank, world_size=4).epoch(0))
        for rank in range(4)
    ]
    assert {len(share) for share in shares} == {2}
    assert sum(batch.tokens == 0 for share in shares for batch in share) == 3
    assert all(len(batch.arguments["words"]) for share in shares for batch in share)


def test_placed_rows_say_which_token_they_are():
    data = encoded()
    words = torch.zeros_like(data.forms)
    for batch, places in TagBatches(data, batch_size=8, word_dropout=0.9).placed():
        words[places] = batch.arguments["words"]
    assert torch.equal(words, data.table.words[data.forms])


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="multiple of 3"):
        TagBatches(encoded(), batch_size=8, world_size=3)
    with pytest.raises(DataError, match="without a token"):
        EncodedSentences.of([["a"], []], ENCODER)
    with pytest.raises(DataError, match="line 7: the tag 'B-Y' is none of O, B-X, I-X"):
        tag_numbers([Sentence(("a",), ("B-Y",), (7,))], NAMES)
