"""One optimizer step: normalisation, accumulation, clipping, checks, masks."""

import pytest
import torch
from lightning_fabric import Fabric
from tiny_run import TinyModel, text
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import sdrop
from sdrop.data.batches import Batch, BpttBatches
from sdrop.keys import name_sites
from sdrop.training import NonFiniteError, TrainerSettings, make_fabric, sgd
from sdrop.training.precision import Autocast
from sdrop.training.signals import StopRequest
from sdrop.training.state import TrainerState
from sdrop.training.step import Group, TrainingStep, take_group


class Linear(nn.Module):
    """Stateless: counts what it is called with, (T, B, 3) inputs and (T, B) targets."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 5)

    def forward(self, input, target, state=None):
        assert state is None
        logits = self.layer(input)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100), None


def batch(steps, columns, padded=0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(5, (steps, columns), generator=generator)
    target.view(-1)[:padded] = -100
    input = torch.randn(steps, columns, 3, generator=generator, dtype=torch.float64)
    return Batch({"input": input, "target": target}, steps * columns - padded, columns)


def columns(whole, first, last):
    """The batch of some of the columns."""
    arguments = {name: tensor[:, first:last] for name, tensor in whole.arguments.items()}
    return Batch(arguments, int((arguments["target"] != -100).sum()), last - first)


def step_of(model, stateful=False, precision="64-true", lr=1.0, fabric=None, **settings):
    fabric = fabric or make_fabric("cpu", precision)
    optimizer = sgd(model.parameters(), lr)
    wrapped, wrapped_optimizer = fabric.setup(name_sites(model), optimizer)
    settings = TrainerSettings(**{"max_grad_norm": None, **settings})
    return TrainingStep(fabric, wrapped, wrapped_optimizer, settings, stateful)


def group_of(take_step, batches):
    return take_group(take_step.fabric, iter(batches), len(batches), StopRequest())


def update(batches, model=None, **settings):
    """The update of one step: minus the gradient at learning rate 1."""
    torch.manual_seed(0)
    model = model or Linear()
    take_step = step_of(model, **settings)
    before = flat(model)
    state = TrainerState(mask_seed=0)
    take_step(group_of(take_step, batches), state)
    return flat(model) - before, state


def flat(model):
    """All parameters in one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("normalization", ["token", "sequence"])
def test_two_half_batches_accumulated_give_the_gradient_of_the_whole(normalization):
    whole = batch(7, 4, padded=5)
    halves = [columns(whole, 0, 2), columns(whole, 2, 4)]
    expected, _ = update([whole], loss_normalization=normalization)
    accumulated, state = update(halves, loss_normalization=normalization)
    torch.testing.assert_close(accumulated, expected, rtol=1e-12, atol=1e-14)
    assert (state.step, state.micro_step, state.batch) == (1, 2, 2)


def test_token_normalization_is_the_mean_over_the_tokens_of_the_group():
    batches = [batch(7, 4, padded=5, seed=1), batch(2, 4, seed=2)]
    found, state = update(batches)
    model, total = reference(batches)
    (total / (23 + 8)).backward()
    torch.testing.assert_close(found, minus_gradient(model))
    assert state.window.tokens == 31
    assert state.window.loss == pytest.approx(total.item())


def test_sequence_normalization_sums_over_time_and_averages_over_columns():
    batches = [batch(7, 4, seed=1)]
    found, _ = update(batches, loss_normalization="sequence")
    model, total = reference(batches)
    (total / 4).backward()  # Zaremba et al.: the gradient grows with the window's length
    torch.testing.assert_close(found, minus_gradient(model))


def test_sequence_normalization_averages_over_accumulated_windows():
    batches = [batch(7, 4, seed=1), batch(5, 4, seed=2)]
    found, _ = update(batches, loss_normalization="sequence")
    model, total = reference(batches)
    (total / 4 / 2).backward()
    torch.testing.assert_close(found, minus_gradient(model))


def reference(batches):
    """A model equal to the one that `update` trains, and its summed loss."""
    torch.manual_seed(0)
    model = Linear().double()
    losses = [model(**batch.arguments)[0] * batch.tokens for batch in batches]
    return model, torch.stack(losses).sum()


def minus_gradient(model):
    return -torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_a_batch_of_padding_alone_changes_nothing():
    whole = batch(7, 4)
    expected, _ = update([whole])
    found, state = update([whole, batch(3, 4, padded=12)])
    torch.testing.assert_close(found, expected)
    assert state.window.tokens == 28


def test_gradients_are_clipped_to_the_global_norm_and_the_norm_is_told():
    free, told = update([batch(7, 4)], loss_normalization="sequence")
    assert told.window.gradient_norm == pytest.approx(free.norm().item())
    clipped, told = update([batch(7, 4)], loss_normalization="sequence", max_grad_norm=0.25)
    assert told.window.gradient_norm == pytest.approx(free.norm().item())
    torch.testing.assert_close(clipped, free / free.norm() * 0.25, rtol=1e-5, atol=0.0)


def test_a_small_gradient_is_not_clipped():
    free, _ = update([batch(7, 4)])
    unclipped, _ = update([batch(7, 4)], max_grad_norm=1e3)
    assert torch.equal(free, unclipped)


@pytest.mark.parametrize("max_grad_norm", [None, 5.0])
def test_a_gradient_that_is_not_finite_stops_before_the_update(max_grad_norm):
    model = Linear()
    take_step = step_of(model, max_grad_norm=max_grad_norm)
    model.layer.weight.register_hook(lambda gradient: gradient * torch.inf)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    state = TrainerState(mask_seed=0, step=6, epoch=1)
    with pytest.raises(NonFiniteError, match=r"gradient norm is (inf|nan) in step 7 \(epoch 2\)"):
        take_step(group_of(take_step, [batch(2, 2)]), state)
    assert all(map(torch.equal, before, model.parameters()))
    assert state.step == 6


def test_a_loss_that_is_not_finite_stops_before_the_update():
    model = Linear()
    take_step = step_of(model)
    bad = batch(2, 2)
    bad.arguments["input"][0, 0, 0] = torch.nan
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(NonFiniteError, match="the loss is nan") as caught:
        take_step(group_of(take_step, [batch(2, 2), bad]), TrainerState(mask_seed=0))
    assert (caught.value.what, caught.value.step, caught.value.epoch) == ("loss", 1, 1)
    assert all(map(torch.equal, before, model.parameters()))


def test_half_precision_searches_a_loss_scale_instead_of_stopping():
    model = Linear()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)  # overflows float16 at first
    fabric = Fabric(accelerator="cpu", devices=1, plugins=Autocast("16-mixed", "cpu", scaler))
    take_step = step_of(model, fabric=fabric)
    before = model.layer.weight.detach().clone()
    example = batch(2, 2)
    example.arguments["input"] = example.arguments["input"].float()
    state = TrainerState(mask_seed=0)
    for _ in range(3):
        take_step(group_of(take_step, [example]), state)
    assert torch.equal(model.layer.weight, before)
    assert (scaler.get_scale(), state.step) == (2.0**37, 3)
    for _ in range(30):
        take_step(group_of(take_step, [example]), state)
    assert not torch.equal(model.layer.weight, before)
    assert model.layer.weight.isfinite().all()


class StateKeeper(nn.Module):
    """Returns how often it was called as its state, and remembers the states it was given."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.given = []

    def forward(self, input, target, state=None):
        self.given.append(state)
        calls = torch.zeros(()) if state is None else state[0]
        return (self.weight * input).mean(), (calls + self.weight,)


def test_hidden_state_is_detached_and_carried_only_where_batches_are_stateful():
    for stateful in (True, False):
        model = StateKeeper()
        take_step = step_of(model, stateful, lr=0.0)
        group = group_of(take_step, [batch(2, 2)] * 3)
        take_step(group, TrainerState(mask_seed=0))
        given = [None if state is None else state[0] for state in model.given]
        assert given == ([None, 1.0, 2.0] if stateful else [None] * 3)
        assert not any(state.requires_grad for state in given if state is not None)


def test_a_hidden_state_that_no_checkpoint_could_hold_is_an_error():
    class Strange(StateKeeper):
        def forward(self, input, target, state=None):
            return self.weight.mean(), {1, 2}

    take_step = step_of(Strange(), stateful=True)
    with pytest.raises(TypeError, match="set in its hidden state: expected None, a tensor"):
        take_step(group_of(take_step, [batch(2, 2)]), TrainerState(mask_seed=0))


class Recomputing(TinyModel):
    """Computes its activations again in the backward pass."""

    def forward(self, input, target, state=None):
        embedded = self.embedding(input)
        hidden, state = checkpoint(self.lstm, embedded, state, use_reentrant=False)
        logits = self.decoder(hidden)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100), state


class Plain(Recomputing):
    def forward(self, input, target, state=None):
        hidden, state = self.lstm(self.embedding(input), state)
        logits = self.decoder(hidden)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100), state


def test_recomputed_activations_draw_the_masks_of_the_first_time():
    windows = list(BpttBatches(text(80), batch_size=4, bptt=5).epoch(0))[:2]
    updates = []
    for kind in (Plain, Recomputing):
        torch.manual_seed(0)
        model = kind()
        updates.append(update(windows, model, stateful=True)[0])
    torch.testing.assert_close(*updates, rtol=0.0, atol=1e-12)


class Recorder(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = sdrop.Dropout(0.5, sdrop.DropoutPattern())
        self.weight = nn.Parameter(torch.ones(()))
        self.seen = []

    def forward(self, input, target, state=None):
        self.seen.append(self.dropout(torch.ones(3, 2, 16)))
        return self.weight.mean(), None


def test_each_micro_step_has_its_own_masks_from_seed_and_micro_step():
    model = Recorder()
    take_step = step_of(model, precision="32-true")
    state = TrainerState(mask_seed=7, micro_step=10)
    take_step(group_of(take_step, [batch(2, 2)] * 2), state)
    names = name_sites(Recorder())
    for number, seen in enumerate(model.seen):
        with sdrop.mask_key(7, 10 + number):
            assert torch.equal(seen, names.dropout(torch.ones(3, 2, 16)))
    assert not torch.equal(*model.seen)


def test_groups_are_smaller_at_the_end_of_an_epoch_then_empty():
    fabric = make_fabric("cpu")
    batches = iter([batch(2, 2)] * 5)
    groups = [take_group(fabric, batches, 2, StopRequest()) for _ in range(4)]
    assert [len(group.batches) for group in groups] == [2, 2, 1, 0]
    assert [group.tokens for group in groups] == [8, 8, 4, 0]
    assert [group.sequences for group in groups] == [4, 4, 2, 0]


def test_ranks_with_different_numbers_of_batches_are_an_error(monkeypatch):
    monkeypatch.setattr(
        "sdrop.training.step.gather", lambda fabric, values: [values, [0, 0, 0, False]]
    )
    with pytest.raises(RuntimeError, match=r"the ranks have \[1, 0\] batches left"):
        take_group(make_fabric("cpu"), iter([batch(2, 2)]), 2, StopRequest())


def test_a_request_to_stop_on_any_rank_holds_for_all(monkeypatch):
    monkeypatch.setattr("sdrop.training.step.gather", lambda fabric, values: [values, [1, 4, 2, 1]])
    group = take_group(make_fabric("cpu"), iter([batch(2, 2)]), 1, StopRequest())
    assert group == Group(group.batches, tokens=8, sequences=4, stop=True)
