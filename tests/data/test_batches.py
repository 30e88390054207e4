import pytest
import torch

from sdrop.data import NOT_COUNTED, Batch, BpttBatches, DataError

# (tokens, batch_size, bptt): even, ragged, a last step that joins, one column, one step a window.
SIZES = [
    (41, 4, 5),
    (43, 4, 5),
    (23, 4, 5),
    (42, 4, 5),
    (18, 1, 4),
    (22, 6, 1),
    (9, 8, 3),
    (11, 8, 3),
]


def positions(batches, epoch=0):
    """Counted (input, target) pairs of an epoch; with ids = 0, 1, 2, … each is (i, i + 1)."""
    pairs = []
    for batch in batches.epoch(epoch):
        counted = batch.arguments["target"] != NOT_COUNTED
        inputs, targets = batch.arguments["input"][counted], batch.arguments["target"][counted]
        pairs += zip(inputs.tolist(), targets.tolist(), strict=True)
    return pairs


def joined(batches, name):
    return torch.cat([batch.arguments[name] for batch in batches.epoch(0)])


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("tokens", "batch_size", "bptt"), SIZES)
def test_each_prediction_is_made_exactly_once_over_all_ranks(tokens, batch_size, bptt, world_size):
    if batch_size % world_size:
        batch_size *= world_size
    pairs, counts = [], 0
    for rank in range(world_size):
        batches = BpttBatches(
            torch.arange(tokens),
            batch_size=batch_size,
            bptt=bptt,
            rank=rank,
            world_size=world_size,
        )
        pairs += positions(batches)
        counts += sum(batch.tokens for batch in batches.epoch(0))
    assert sorted(pairs) == [(i, i + 1) for i in range(tokens - 1)]
    assert counts == tokens - 1


@pytest.mark.parametrize(("tokens", "batch_size", "bptt"), SIZES)
def test_a_column_runs_on_from_window_to_window(tokens, batch_size, bptt):
    batches = BpttBatches(torch.arange(tokens), batch_size=batch_size, bptt=bptt)
    inputs, targets = joined(batches, "input"), joined(batches, "target")
    for column in range(batch_size):
        stretch = inputs[targets[:, column] != NOT_COUNTED, column]
        assert torch.equal(stretch, torch.arange(len(stretch)) + stretch[0])


@pytest.mark.parametrize(("tokens", "batch_size", "bptt"), SIZES)
def test_padding_is_input_0_and_stands_in_the_last_step_only(tokens, batch_size, bptt):
    batches = BpttBatches(torch.arange(1, tokens + 1), batch_size=batch_size, bptt=bptt)
    padded = joined(batches, "target") == NOT_COUNTED
    assert torch.equal(padded, joined(batches, "input") == 0)
    assert not padded[:-1].any()
    assert padded.sum() == -(tokens - 1) % batch_size


@pytest.mark.parametrize(("tokens", "batch_size", "bptt"), SIZES)
def test_windows_have_bptt_steps_but_for_the_last(tokens, batch_size, bptt):
    batches = BpttBatches(torch.arange(tokens), batch_size=batch_size, bptt=bptt)
    steps = [len(batch.arguments["input"]) for batch in batches.epoch(0)]
    assert len(steps) == len(batches)
    assert all(length == bptt for length in steps[:-1])
    assert 1 <= steps[-1] <= bptt + 1


@pytest.mark.parametrize(("tokens", "batch_size", "bptt"), SIZES)
def test_every_window_of_every_rank_has_something_to_count(tokens, batch_size, bptt):
    for rank in range(batch_size):
        batches = BpttBatches(
            torch.arange(tokens), batch_size=batch_size, bptt=bptt, rank=rank, world_size=batch_size
        )
        assert all(batch.tokens > 0 for batch in batches.epoch(0))


def test_a_step_that_only_some_columns_reach_joins_the_window_before_it():
    batches = BpttBatches(torch.arange(43), batch_size=4, bptt=5)  # 42 predictions: 10 and a half
    assert [len(batch.arguments["input"]) for batch in batches.epoch(0)] == [5, 6]


def test_the_columns_of_the_ranks_side_by_side_are_those_of_one_process():
    ids = torch.arange(101)
    whole = BpttBatches(ids, batch_size=6, bptt=4)
    parts = [BpttBatches(ids, batch_size=6, bptt=4, rank=r, world_size=3) for r in range(3)]
    for name in ("input", "target"):
        assert torch.equal(joined(whole, name), torch.cat([joined(p, name) for p in parts], dim=1))
    assert {len(part) for part in parts} == {len(whole)}


def test_the_layout_of_a_small_text():
    batches = BpttBatches(torch.tensor([5, 6, 7, 8, 9, 10, 11, 12]), batch_size=2, bptt=2)
    first, second = batches.epoch(0)
    assert first.arguments["input"].tolist() == [[5, 9], [6, 10]]
    assert first.arguments["target"].tolist() == [[6, 10], [7, 11]]
    assert second.arguments["input"].tolist() == [[7, 11], [8, 0]]
    assert second.arguments["target"].tolist() == [[8, 12], [9, NOT_COUNTED]]
    assert (first.tokens, second.tokens) == (4, 3)
    assert (first.sequences, second.sequences) == (2, 2)


def test_start_skips_the_first_windows():
    batches = BpttBatches(torch.arange(101), batch_size=4, bptt=5)
    whole = [batch.arguments["input"].tolist() for batch in batches.epoch(0)]
    for start in range(len(batches) + 1):
        rest = [batch.arguments["input"].tolist() for batch in batches.epoch(0, start)]
        assert rest == whole[start:]


def test_every_epoch_has_the_same_order():
    batches = BpttBatches(torch.arange(101), batch_size=4, bptt=5)
    assert positions(batches, epoch=0) == positions(batches, epoch=7)


def test_the_state_carries_over():
    assert BpttBatches(torch.arange(11), batch_size=2, bptt=3).stateful


def test_windows_are_contiguous():
    batches = BpttBatches(torch.arange(101), batch_size=4, bptt=5, rank=1, world_size=2)
    for batch in batches.epoch(0):
        assert all(tensor.is_contiguous() for tensor in batch.arguments.values())


def test_a_batch_moves_to_a_device_with_its_counts():
    batch = Batch({"input": torch.zeros(3, 2)}, tokens=5, sequences=2).to("meta")
    assert batch.arguments["input"].device.type == "meta"
    assert (batch.tokens, batch.sequences) == (5, 2)


@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        (torch.zeros(3, 4, dtype=torch.int64), {}, r"shape \(N,\), int64, got \(3, 4\)"),
        (torch.zeros(30), {}, r"int64, got \(30,\), torch.float32"),
        (torch.arange(30), {"batch_size": 0}, "expected batch_size of 1 or more, got 0"),
        (torch.arange(30), {"bptt": -1}, "expected bptt of 1 or more, got -1"),
        (torch.arange(30), {"world_size": 0}, "expected world_size of 1 or more, got 0"),
        (torch.arange(30), {"rank": 1}, "expected a rank of 0 to 0, got 1"),
        (torch.arange(30), {"world_size": 3}, "among 3 ranks; take a multiple of 3"),
        (torch.arange(4), {}, r"4 tokens has too few predictions \(3\) for batch_size=4"),
        (torch.arange(0), {"batch_size": 1}, r"0 tokens has too few predictions \(0\)"),
    ],
)
def test_sizes_that_do_not_fit_are_named(ids, options, message):
    with pytest.raises(DataError, match=message):
        BpttBatches(ids, **{"batch_size": 4, "bptt": 5, **options})
