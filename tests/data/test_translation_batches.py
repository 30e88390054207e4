"""Batches of sentence pairs: each once an epoch, ordered by seed and epoch, little padding."""

import random
from collections import Counter

import pytest
import torch

from sdrop.data import DataError, Pair, TranslationBatches

BEGIN, END = 1, 2


def some_pairs(number, seed=0, longest=12):
    drawn = random.Random(seed)

    def words(least):
        return torch.tensor([drawn.randrange(3, 50) for _ in range(drawn.randint(least, longest))])

    return [Pair(words(1), words(0).long()) for _ in range(number)]


def batches(pairs, **options):
    return TranslationBatches(pairs, **{"batch_size": 8, "begin": BEGIN, "end": END, **options})


def contents(batch):
    """The pairs of a batch, as tuples of numbers; the marks are checked."""
    found = []
    given = batch.arguments
    for n, length in enumerate(given["source_lengths"].tolist()):
        source, target = given["source"][:, n], given["target"][:, n]
        assert (source[length:] == END).all()
        counted = target[target != -100].tolist()
        assert (target[len(counted) :] == -100).all()
        assert counted[-1] == END
        assert given["input"][: len(counted), n].tolist() == [BEGIN, *counted[:-1]]
        found.append((tuple(source[:length].tolist()), tuple(counted[:-1])))
    return found


def order(cut, epoch, start=0):
    return [contents(batch) for batch in cut.epoch(epoch, start)]


@pytest.mark.parametrize(("unit", "size"), [("sentences", 8), ("tokens", 60)])
def test_every_pair_comes_once_an_epoch(unit, size):
    pairs = some_pairs(101)
    cut = batches(pairs, unit=unit, batch_size=size)
    expected = Counter((tuple(p.source.tolist()), tuple(p.target.tolist())) for p in pairs)
    for epoch in range(3):
        given = list(cut.epoch(epoch))
        assert Counter(pair for batch in given for pair in contents(batch)) == expected
        assert len(given) == len(cut)
        assert sum(batch.tokens for batch in given) == sum(len(p.target) + 1 for p in pairs)


def test_the_order_follows_from_seed_and_epoch_and_differs_between_them():
    pairs = some_pairs(60)
    first = order(batches(pairs, seed=3), 1)
    assert order(batches(pairs, seed=3), 1) == first
    assert order(batches(pairs, seed=3), 2) != first
    assert order(batches(pairs, seed=4), 1) != first


def test_an_epoch_is_taken_up_where_it_was_left():
    cut = batches(some_pairs(60))
    assert order(cut, 2, start=3) == order(cut, 2)[3:]
    assert order(cut, 2, start=len(cut)) == []


def test_a_batch_holds_no_more_than_its_unit_allows():
    pairs = some_pairs(200)
    for batch in batches(pairs, batch_size=7).epoch(0):
        assert batch.sequences <= 7
    for batch in batches(pairs, batch_size=40, unit="tokens").epoch(0):
        longest = max(batch.arguments["source"].shape[0], batch.arguments["target"].shape[0])
        assert longest * batch.sequences <= 40


def test_a_sentence_longer_than_a_batch_of_tokens_is_one_of_its_own():
    pairs = [*some_pairs(10), Pair(torch.full((5000,), 7), torch.tensor([4]))]
    sizes = {
        batch.arguments["source"].shape[0]: batch.sequences
        for batch in batches(pairs, batch_size=100, unit="tokens").epoch(0)
    }
    assert sizes[5000] == 1


def test_little_of_a_batch_is_padding():
    given = list(batches(some_pairs(2000), batch_size=20).epoch(0))
    padded = sum(int((batch.arguments["target"] == -100).sum()) for batch in given)
    assert padded < 0.02 * sum(batch.arguments["target"].numel() for batch in given)


def test_pairs_of_equal_lengths_change_company_from_epoch_to_epoch():
    pairs = [Pair(torch.tensor([n]), torch.tensor([n])) for n in range(3, 40)]
    cut = batches(pairs)
    first, second = ({frozenset(batch) for batch in order(cut, epoch)} for epoch in (0, 1))
    assert first != second


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_every_batch_without_overlap(world_size):
    pairs = some_pairs(50)
    whole = list(batches(pairs).epoch(1))
    shares = [
        list(batches(pairs, rank=rank, world_size=world_size).epoch(1))
        for rank in range(world_size)
    ]
    assert {len(share) for share in shares} == {len(whole)}
    for batch, *parts in zip(whole, *shares, strict=True):
        together = Counter(pair for part in parts if part.tokens for pair in contents(part))
        assert together == Counter(contents(batch))
        assert sum(part.tokens for part in parts) == batch.tokens


def test_a_rank_without_a_sentence_counts_nothing():
    cut = batches(some_pairs(1), rank=1, world_size=2)
    (batch,) = cut.epoch(0)
    assert (batch.tokens, batch.sequences) == (0, 0)
    assert (batch.arguments["target"] == -100).all()


def test_a_source_without_words_reads_as_the_end():
    empty = torch.tensor([], dtype=torch.int64)
    (batch,) = batches([Pair(empty, torch.tensor([5]))]).epoch(0)
    assert batch.arguments["source"].tolist() == [[END]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size of 1 or more, got 0"),
        ({"rank": 2, "world_size": 2}, "a rank of 0 to 1, got 2"),
    ],
)
def test_sizes_that_are_none_are_refused(options, words):
    with pytest.raises(DataError, match=words):
        batches(some_pairs(3), **options)


def test_no_pair_is_refused():
    with pytest.raises(DataError, match="no sentence pairs"):
        batches([])
