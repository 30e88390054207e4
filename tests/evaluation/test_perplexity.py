"""Perplexity counts every token once, in double precision, and leaves the model as it was."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sdrop.data.batches import Batch, BpttBatches
from sdrop.evaluation import Evaluation, evaluating, perplexity
from sdrop.evaluation.perplexity import perplexity_of
from sdrop.models import DropoutRates, LanguageModel
from sdrop.training import make_fabric

IDS = torch.randint(11, (101,), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def model():
    rates = DropoutRates(0.5, 0.5, 0.5, 0.5)
    return LanguageModel(11, embedding_dim=6, hidden_size=8, rates=rates, init_range=0.5)


def exact(model, ids):
    """Negative log-likelihood of every prediction, the text read in one go, in float64."""
    model = model.double().eval()
    with torch.no_grad():
        logits, _ = model.logits(ids[:-1, None])
        loss = F.cross_entropy(logits[:, 0], ids[1:], reduction="sum").item()
    model.float().train()
    return loss


@pytest.mark.parametrize("bptt", [1, 7, 35, 100])
def test_windows_of_any_length_give_the_figure_of_the_whole_text(bptt, model):
    found = perplexity(model, BpttBatches(IDS, batch_size=1, bptt=bptt), "cpu")
    expected = exact(model, IDS) / 100
    assert found.tokens == 100
    assert found.loss == pytest.approx(expected, rel=1e-6)
    assert found.metrics == {"perplexity": pytest.approx(math.exp(expected), rel=1e-6)}


def test_every_token_is_counted_once_where_columns_are_of_different_length(model):
    found = perplexity(model, BpttBatches(IDS, batch_size=3, bptt=7), "cpu")
    columns = [IDS[0:35], IDS[34:68], IDS[67:101]]  # 34, 33 and 33 predictions
    assert found.tokens == 100
    assert found.loss == pytest.approx(sum(exact(model, ids) for ids in columns) / 100, rel=1e-6)


class Given(nn.Module):
    """Its loss is what the batch says; keeps the states that it was given."""

    def __init__(self):
        super().__init__()
        self.states = []

    def forward(self, loss, state=None):
        self.states.append(state)
        return loss, (state or 0) + 1


class Losses:
    def __init__(self, losses, tokens, stateful=False):
        self.losses, self.tokens, self.stateful = losses, tokens, stateful

    def __len__(self):
        return len(self.losses)

    def epoch(self, epoch, start=0):
        for loss, tokens in zip(self.losses, self.tokens, strict=True):
            yield Batch({"loss": torch.tensor(loss)}, tokens, 1)


def test_batches_count_by_their_tokens_and_those_of_padding_not_at_all():
    batches = Losses([1.0, 3.0, float("nan")], [30, 10, 0])
    assert perplexity(Given(), batches, "cpu") == Evaluation(1.5, 40, {"perplexity": math.exp(1.5)})


def test_sums_are_double_precision():
    # In float32 a sum of 2^25 no longer grows, neither by 1 nor by 2.
    batches = Losses([1.0] + [2.0] * 64, [2**25] + [1] * 64)
    assert perplexity(Given(), batches, "cpu").loss == (2**25 + 128) / (2**25 + 64)


@pytest.mark.parametrize("stateful", [True, False])
def test_state_is_carried_only_where_batches_are_stateful(stateful):
    model = Given()
    perplexity(model, Losses([1.0] * 3, [1] * 3, stateful), "cpu")
    assert model.states == ([None, 1, 2] if stateful else [None] * 3)


def test_an_empty_split_is_an_error():
    with pytest.raises(ValueError, match="no token to predict; is the split empty"):
        perplexity(Given(), Losses([], []), "cpu")


def test_perplexity_that_overflows_is_infinite():
    assert perplexity_of(1e4) == math.inf
    assert perplexity_of(0.0) == 1.0


def test_modes_are_restored_each_its_own_also_after_an_error(model):
    model.lstm.eval()

    def broken():
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        broken()
    assert model.training
    assert model.decoder.training
    assert not model.lstm.training
    assert torch.is_grad_enabled()


def test_what_a_module_caches_while_it_is_evaluated_can_be_trained_with():
    weight = nn.Parameter(torch.ones(2))
    with evaluating(nn.Module()):
        cached = weight.clone()
    (weight * cached).sum().backward()
    assert torch.equal(weight.grad, torch.ones(2))


def test_evaluating_twice_and_training_between_changes_no_figure(model):
    batches = BpttBatches(IDS, batch_size=2, bptt=9)
    first = perplexity(model, batches, "cpu")
    loss, _ = model(IDS[:10, None], IDS[1:11, None])
    loss.backward()
    assert perplexity(model, batches, "cpu") == first


def test_a_fabric_brings_its_precision(model):
    batches = BpttBatches(IDS, batch_size=2, bptt=9)
    plain = perplexity(model, batches, make_fabric("cpu"))
    mixed = perplexity(model, batches, make_fabric("cpu", "bf16-mixed"))
    assert plain == perplexity(model, batches, "cpu")
    assert mixed.loss != plain.loss
    assert mixed.loss == pytest.approx(plain.loss, rel=1e-2)
