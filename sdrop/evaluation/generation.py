"""Text from a language model, a word at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sdrop.evaluation.evaluation import evaluating


def generate(
    model: nn.Module,
    prompt: Tensor,
    *,
    length: int,
    temperature: float = 1.0,
    seed: int = 0,
    never: Sequence[int] = (),
) -> Tensor:
    """Draw words that go on from a prompt.

    Args:
        model: has `logits(input (T, B), state) -> (logits (T, B, V), state)`, such as
            `sdrop.models.LanguageModel`. Its modes are restored.
        prompt: numbers of the words read first, int64 (N,), N >= 1, on the model's device.
        length: words to draw.
        temperature: the logits are divided by it: below 1 likelier words come more often, 0 takes
            the likeliest always.
        seed: the same seed draws the same words; drawn on the CPU, whatever the model's device.
        never: numbers of words that must not be drawn.

    Returns:
        The drawn words, int64 (length,), on the CPU; the prompt is not among them.

    Raises:
        ValueError: for an empty prompt, a length below 1 or a negative temperature.
    """
    _check(prompt, length, temperature)
    generator = torch.Generator().manual_seed(seed)
    words: list[int] = []
    with evaluating(model):
        logits, state = _logits(model, prompt, None)
        for _ in range(length):
            logits[list(never)] = -torch.inf
            words.append(_draw(logits, temperature, generator))
            logits, state = _logits(model, prompt.new_tensor(words[-1:]), state)
    return torch.tensor(words, dtype=torch.int64)


def _logits(model: Any, words: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Scores of the word after `words` (N,), and the state. # shape: (V,)"""
    logits, state = model.logits(words.unsqueeze(1), state)
    return logits[-1, 0].float().cpu(), state


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    probabilities = torch.softmax(logits / temperature, dim=0)
    return int(torch.multinomial(probabilities, 1, generator=generator))


def _check(prompt: Tensor, length: int, temperature: float) -> None:
    if prompt.dim() != 1 or prompt.dtype != torch.int64 or not len(prompt):
        raise ValueError(
            f"expected a prompt of shape (N,), int64, with a word or more, got "
            f"{tuple(prompt.shape)}, {prompt.dtype}"
        )
    if length < 1:
        raise ValueError(f"expected a length of 1 or more, got {length}")
    if temperature < 0:
        raise ValueError(f"expected a temperature of 0 or more, got {temperature}")
