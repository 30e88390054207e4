"""Pictures of what a translator attended to."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from sdrop.evaluation.decoding import Decodable, Ensemble
from sdrop.evaluation.evaluation import evaluating

_INCHES_A_WORD, _INCHES_AROUND, _MOST_INCHES = 0.35, 2.0, 40.0


def attention_weights(
    models: Sequence[Decodable], source: Tensor, words: Tensor, *, begin: int
) -> Tensor:
    """Attention while a translation is written. # shape: (T + 1, S), the end's row included

    Args:
        models: in evaluation mode.
        source: word ids (S,), S >= 1.
        words: of the translation (T,).
        begin: id of the mark of the beginning.
    """
    ensemble = Ensemble(models, source.unsqueeze(1), source.new_tensor([len(source)]))
    with torch.no_grad():
        before = torch.cat([words.new_tensor([begin]), words])
        return torch.cat([ensemble.step(word)[1] for word in before.unsqueeze(1)])


def draw_attention(
    weights: Tensor, source: Sequence[str], target: Sequence[str], picture: Path
) -> None:
    """Writes a PNG: a column a source word, a row a target word, dark where attention was.

    Args:
        weights: (T, S).
        source, target: S and T words.
        picture: the file.
    """
    # Figure and not pyplot: no window, no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = (
        min(_INCHES_A_WORD * len(words) + _INCHES_AROUND, _MOST_INCHES)
        for words in (source, target)
    )
    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(weights.float().cpu().numpy(), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    # parse_math: a word may hold dollar signs.
    axes.set_xticks(range(len(source)), source, rotation=90, parse_math=False)
    axes.set_yticks(range(len(target)), target, parse_math=False)
    content = io.BytesIO()
    figure.savefig(content, format="png")
    picture.write_bytes(content.getvalue())


def save_attention(
    model: nn.Module,
    source: Tensor,
    words: Tensor,
    labels: tuple[Sequence[str], Sequence[str]],
    picture: Path,
    *,
    begin: int,
) -> None:
    """Draws the attention of a model over one sentence; its modes are restored.

    Arguments as for the two functions above; `labels` are the words of both sides, the end's
    mark included on the target's.
    """
    with evaluating(model):
        weights = attention_weights([model], source, words, begin=begin)  # type: ignore[list-item]
    draw_attention(weights, *labels, picture)
