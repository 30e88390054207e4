"""The iwslt recipe's translations: found, scored, validated, pictured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from sdrop.data import BEGIN, END, DataError, MosesText, ParallelText, Side, TranslationBatches
from sdrop.data.lines import read_lines
from sdrop.evaluation import (
    DecodingSettings,
    Evaluation,
    Hypothesis,
    TranslationScores,
    perplexity,
    replaced_unknown,
    translate,
    translation_scores,
)
from sdrop.evaluation.attention_map import save_attention
from sdrop.models import Translator
from sdrop.training import BLEU

from .configuration import Mistake
from .configuration import translation as schema
from .texts import Sides, encoded

GREEDY = DecodingSettings(beam_size=1)  # at each validation in training
_TAB = "\t"


@dataclass(frozen=True)
class Translated:
    """The translations of one line, best first: as words, as lines, and as they were found."""

    words: list[list[str]]
    lines: list[str]
    hypotheses: list[Hypothesis]


@dataclass(frozen=True)
class Scored:
    """Scores, and the texts by the last part of their file's name."""

    scores: TranslationScores
    texts: dict[str, list[str]]

    def save(self, folder: Path, split: str) -> None:
        """Write the texts, to be scored again by others."""
        folder.mkdir(exist_ok=True)
        for name, lines in self.texts.items():
            (folder / f"{split}.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def decoding_settings(options: schema.Decoding) -> DecodingSettings:
    """The search that `decoding.` options ask for."""
    return DecodingSettings(
        beam_size=options.beam_size,
        length_penalty=options.length_penalty,
        coverage_penalty=options.coverage_penalty,
        max_length_ratio=options.max_length_ratio,
        max_length_extra=options.max_length_extra,
        n_best=options.n_best,
    )


def check_beam(options: schema.Decoding, target: Side) -> None:
    """Refuse a beam that is wider than there are words to go on with.

    Raises:
        Mistake: with both numbers.
    """
    words = len(target.vocabulary)
    if options.beam_size > words:
        raise Mistake(
            f"decoding.beam_size={options.beam_size}: the target vocabulary has {words} words, "
            f"marks included; expected {words} or less."
        )


def translated(
    models: Sequence[nn.Module],
    lines: Sequence[str],
    sides: Sides,
    options: schema.Decoding,
    settings: DecodingSettings,
    device: torch.device | str,
) -> list[Translated]:
    """The translations of each line, in the order of the lines."""
    source, target = sides
    sentences = [source.split(line) for line in lines]
    found = translate(
        models,
        [source.vocabulary.encode(words) for words in sentences],
        begin=target.mark(BEGIN),
        end=target.mark(END),
        settings=settings,
        batch_size=options.batch_size,
        device=device,
    )
    dictionary = read_dictionary(options.dictionary)

    def words(hypothesis: Hypothesis, sentence: list[str]) -> list[str]:
        pieces = target.vocabulary.decode(hypothesis.words)
        if options.replace_unknown:
            unknown = target.vocabulary.unknown_token
            pieces = replaced_unknown(pieces, hypothesis.attended, sentence, unknown, dictionary)
        return target.words(pieces)

    results = []
    for hypotheses, sentence in zip(found, sentences, strict=True):
        several = [words(hypothesis, sentence) for hypothesis in hypotheses]
        results.append(
            Translated(several, [target.text.detokenize(each) for each in several], hypotheses)
        )
    return results


def read_dictionary(path: str | None) -> dict[str, str]:
    """Translations of source words: lines of a word, a tab, and its translation.

    Raises:
        DataError: for a line of another form.
    """
    if path is None:
        return {}
    pairs = [line.split(_TAB) for line in read_lines(Path(path))]
    for number, pair in enumerate(pairs, start=1):
        if len(pair) != 2:
            raise DataError(f"{path}, line {number}: expected a word, a tab and its translation")
    return dict(pairs)  # type: ignore[arg-type]


def scored(found: Sequence[Translated], references: Sequence[str], text: MosesText) -> Scored:
    """Scores of the best translations, and the four texts that they rest on."""
    words = [text.tokenize(line) for line in references]
    lines = (
        [text.detokenize(each) for each in words]
        if text.tokenized
        else [line.lower() if text.lowercase else line for line in references]
    )
    texts = {
        "txt": [each.lines[0] for each in found],
        "reference.txt": lines,
        "tokens.txt": [" ".join(each.words[0]) for each in found],
        "reference.tokens.txt": [" ".join(each) for each in words],
    }
    return Scored(translation_scores(*texts.values()), texts)


def validated(
    options: schema.TranslationRun,
    model: Translator,
    text: ParallelText,
    sides: Sides,
    fabric: Fabric,
) -> Evaluation:
    """Loss, and BLEU of greedy translations; a few of them are shown."""
    source, target = sides
    batches = TranslationBatches(
        encoded(text, source, target),
        batch_size=options.data.batch_size,
        begin=target.mark(BEGIN),
        end=target.mark(END),
        shuffle=False,
    )
    found = translated([model], text.source, sides, options.decoding, GREEDY, fabric.device)
    scores = scored(found, text.target, target.text).scores
    loss = perplexity(model, batches, fabric.device)
    for line, reference, given in list(zip(text.source, text.target, found, strict=True))[
        : options.samples
    ]:
        fabric.print(f"  {line}\n  = {reference}\n  > {given.lines[0]}")
    metrics = {"chrf": scores.chrf, "bleu_tokens": scores.tokenized_bleu, **loss.metrics}
    return Evaluation(loss.loss, loss.tokens, {BLEU.name: scores.bleu, **metrics})


def tested(
    options: schema.TranslationRun,
    models: Sequence[Translator],
    text: ParallelText,
    sides: Sides,
    fabric: Fabric,
) -> Scored:
    """Scores of the translations that `decoding.` options find, in the run's precision."""
    settings = decoding_settings(options.decoding)
    with fabric.autocast():
        found = translated(models, text.source, sides, options.decoding, settings, fabric.device)
    return scored(found, text.target, sides[1].text)


def check_attention_maps(numbers: Sequence[int], text: ParallelText) -> None:
    """Refuse numbers of sentences that the test text has not.

    Raises:
        Mistake: naming the first.
    """
    for number in numbers:
        if number >= len(text):
            raise Mistake(f"attention_maps={number}: the test text has {len(text)} sentences.")


def draw_attention_maps(
    options: schema.TranslationRun,
    model: Translator,
    text: ParallelText,
    sides: Sides,
    fabric: Fabric,
    folder: Path,
) -> None:
    """A picture of the attention over each of the chosen test sentences, counted from 0."""
    source, target = sides
    for number in options.attention_maps:
        line = text.source[number]
        (found,) = translated([model], [line], sides, options.decoding, GREEDY, fabric.device)
        words = found.hypotheses[0].words
        save_attention(
            model,
            as_tensor(source.numbers(line).tolist(), fabric.device),
            as_tensor(words, fabric.device),
            (source.split(line), [*target.vocabulary.decode(words), END]),
            folder / f"attention-{number}.png",
            begin=target.mark(BEGIN),
        )


def as_tensor(words: Sequence[int], device: torch.device | str) -> Tensor:
    """Word numbers on a device, int64 (N,)."""
    return torch.tensor(words, dtype=torch.int64, device=device)


def lines_of(found: Translated, number: int, options: schema.TranslationRun) -> Iterator[str]:
    """What is written for one line of the input."""
    several = zip(found.lines, found.words, found.hypotheses, strict=True)
    for line, words, hypothesis in several:
        text = line if options.detokenize else " ".join(words)
        if options.decoding.n_best == 1:
            yield text
        else:
            yield f"{number} ||| {text} ||| {hypothesis.score:.6f}"
