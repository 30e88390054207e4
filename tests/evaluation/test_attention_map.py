"""Pictures of attention."""

import torch
from toy_translators import BEGIN, toy_translator

from sdrop.evaluation.attention_map import attention_weights, save_attention


def test_weights_are_those_of_each_step_and_of_the_end():
    model = toy_translator(input_feeding=True)
    weights = attention_weights([model], torch.tensor([3, 4, 6]), torch.tensor([3, 0]), begin=BEGIN)
    assert weights.shape == (3, 3)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(3).double())
    memory, state = model.encode(torch.tensor([[3], [4], [6]]), torch.tensor([3]))
    for word, expected in zip((BEGIN, 3, 0), weights, strict=True):
        _, found, state = model.next_word(torch.tensor([word]), memory, state)
        torch.testing.assert_close(found[0], expected)


def test_a_picture_is_written_whatever_the_words_and_modes_come_back(tmp_path):
    model = toy_translator().train()
    labels = (["$x$", "_", "</s>"], ["Thứ", "$", "<unk>"])
    path = tmp_path / "attention.png"
    words = torch.tensor([3, 0])
    save_attention(model, torch.tensor([3, 4, 6]), words, labels, path, begin=BEGIN)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert model.training
