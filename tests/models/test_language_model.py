"""The language model: its loss, its state, its sites, and what tying and rates mean."""

import pytest
import torch
from torch import nn

import sdrop
from sdrop.models import DropoutRates, LanguageModel

WORDS = 13


@pytest.fixture
def window():
    return torch.randint(WORDS, (7, 3)), torch.randint(WORDS, (7, 3))


def small(**options):
    return LanguageModel(WORDS, embedding_dim=6, hidden_size=6, **options)


def test_the_loss_is_the_mean_over_counted_targets(window):
    model, (input, target) = small().double(), window
    target[2:, 1] = -100
    loss, _ = model(input, target)
    logits, _ = model.logits(input)
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
    torch.testing.assert_close(loss, expected, rtol=1e-13, atol=0)


def test_two_windows_with_the_state_between_are_one_long_window(window):
    model, (input, target) = small().double(), window
    whole, _ = model(input, target)
    first, state = model(input[:4], target[:4])
    second, _ = model(input[4:], target[4:], state)
    torch.testing.assert_close((4 * first + 3 * second) / 7, whole, rtol=1e-13, atol=0)


def test_the_state_has_one_row_a_layer_and_hangs_in_the_graph(window):
    _, (h, c) = small(num_layers=3)(*window)
    assert h.shape == c.shape == (3, 3, 6)
    assert h.requires_grad


@pytest.mark.parametrize("site", ["input", "between", "recurrent", "output"])
def test_each_rate_drops_at_its_site_and_only_in_training(window, site):
    plain, dropping = small(), small(rates=DropoutRates(**{site: 0.5}))
    dropping.load_state_dict(plain.state_dict())
    sdrop.name_sites(dropping)
    with sdrop.mask_key(1, 2):
        assert dropping(*window)[0] != plain(*window)[0]
    assert dropping.eval()(*window)[0] == plain.eval()(*window)[0]


def test_tied_weights_are_one_k_major_parameter_that_learns_from_both_ends(window):
    model = small(tie_weights=True)
    assert model.embedding.weight is model.decoder.weight
    assert model.decoder.weight.t().is_contiguous()
    model(*window)[0].backward()
    assert model.decoder.weight.grad.t().is_contiguous()
    untied = small()
    untied.load_state_dict(model.state_dict())
    untied(*window)[0].backward()
    total = untied.embedding.weight.grad + untied.decoder.weight.grad
    torch.testing.assert_close(model.decoder.weight.grad, total)


def test_tied_weights_of_two_sizes_are_refused():
    with pytest.raises(ValueError, match="embedding_dim=5 and hidden_size=6"):
        LanguageModel(WORDS, embedding_dim=5, hidden_size=6, tie_weights=True)


def test_parameters_start_within_the_initial_range():
    values = torch.cat([p.detach().flatten() for p in small(init_range=0.02).parameters()])
    assert values.abs().max() <= 0.02
    assert values.std() == pytest.approx(0.02 / 3**0.5, rel=0.2)


def test_a_rate_outside_the_range_is_named():
    with pytest.raises(ValueError, match=r"DropoutRates\.between=1\.5: expected a dropout rate"):
        DropoutRates(between=1.5)


def test_one_layer_has_nothing_between_and_does_not_warn(window):
    small(num_layers=1, rates=DropoutRates(0.5, 0.5, 0.5, 0.5))(*window)
