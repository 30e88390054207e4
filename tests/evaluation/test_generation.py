"""Text that a language model writes."""

import pytest
import torch

from sdrop.evaluation.generation import generate
from sdrop.models import DropoutRates, LanguageModel

PROMPT = torch.tensor([1, 2, 3])


@pytest.fixture
def model():
    rates = DropoutRates(input=0.5, between=0.5, recurrent=0.5, output=0.5)
    return LanguageModel(11, embedding_dim=6, hidden_size=6, rates=rates, init_range=1.0)


class Successor(torch.nn.Module):
    """Knows that each word is followed by the next number, and which word it saw last."""

    def logits(self, input, state=None):
        seen = [] if state is None else state
        likely = 9.0 * torch.nn.functional.one_hot((input + 1) % 11, 11)
        return likely, [*seen, *input.flatten().tolist()]


def test_the_likeliest_word_is_taken_at_temperature_zero_and_fed_back():
    written = generate(Successor(), PROMPT, length=9, temperature=0.0)
    assert written.tolist() == [4, 5, 6, 7, 8, 9, 10, 0, 1]


def test_words_follow_from_the_seed(model):
    first = generate(model, PROMPT, length=20, seed=1)
    assert torch.equal(first, generate(model, PROMPT, length=20, seed=1))
    assert not torch.equal(first, generate(model, PROMPT, length=20, seed=2))


def test_the_global_generator_is_left_alone(model):
    before = torch.get_rng_state()
    generate(model, PROMPT, length=2)
    assert torch.equal(before, torch.get_rng_state())


def test_the_state_is_carried_from_word_to_word(model):
    written = generate(model, PROMPT, length=5, temperature=0.0)
    model.eval()
    for known in range(5):
        words = torch.cat([PROMPT, written[:known]]).unsqueeze(1)
        logits, _ = model.logits(words)
        assert int(logits[-1, 0].argmax()) == int(written[known])


class Total(torch.nn.Module):
    """Expects the sum of all words seen so far, so that a lost state gives another word."""

    def logits(self, input, state=None):
        total = (0 if state is None else state) + int(input.sum())
        likely = torch.nn.functional.one_hot(torch.tensor(total % 11), 11).float()
        return likely.expand(*input.shape, 11).clone(), total


def test_a_lost_state_would_show():
    assert generate(Total(), PROMPT, length=5, temperature=0.0).tolist() == [6, 1, 2, 4, 8]


def test_a_low_temperature_prefers_likely_words():
    cold = generate(Successor(), PROMPT, length=50, temperature=0.1)
    hot = generate(Successor(), PROMPT, length=50, temperature=100.0)
    steps = [((words[1:] - words[:-1]) % 11 == 1).sum() for words in (cold, hot)]
    assert steps[0] == 49
    assert steps[1] < 25


def test_a_word_that_must_not_come_does_not_come():
    written = generate(Successor(), PROMPT, length=30, temperature=5.0, never=[4, 7])
    assert not {4, 7} & set(written.tolist())


def test_dropout_is_off_and_the_mode_is_restored(model):
    model.train()
    model.decoder.eval()
    first = generate(model, PROMPT, length=5, temperature=0.0)
    assert torch.equal(first, generate(model, PROMPT, length=5, temperature=0.0))
    assert (model.training, model.lstm.training, model.decoder.training) == (True, True, False)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"prompt": torch.tensor([], dtype=torch.int64)}, r"prompt of shape \(N,\)"),
        ({"prompt": torch.ones(2)}, "float32"),
        ({"prompt": torch.ones(2, 2, dtype=torch.int64)}, r"\(2, 2\)"),
        ({"length": 0}, "length of 1 or more, got 0"),
        ({"temperature": -1.0}, r"temperature of 0 or more, got -1\.0"),
    ],
)
def test_misuse_is_told(arguments, wanted):
    with pytest.raises(ValueError, match=wanted):
        generate(Successor(), **{"prompt": PROMPT, "length": 1, **arguments})
