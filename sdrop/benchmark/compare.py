"""The bench recipe's row for a model of the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.optim import Optimizer

from sdrop.benchmark.comparison import Comparison, forgets_gradients
from sdrop.benchmark.machine import check_threads, describe_machine, torch_threads
from sdrop.benchmark.report import noise, table
from sdrop.benchmark.rows import Pair, Row, Setting
from sdrop.benchmark.timing import Candidate, clock_for


def compare(
    make_model: Callable[[Any], nn.Module],
    make_batch: Callable[[], tuple[Any, ...]],
    dropout: Sequence[Any],
    *,
    make_optimizer: Callable[[nn.Module], Optimizer] | None = None,
    threads: int = 1,
    rounds: int | None = None,
    seconds: float = 10.0,
) -> list[Row]:
    """Times a training step of a model under several dropouts, and prints a row each.

    A step is the model called with the batch, the backward pass, and the optimizer's step where
    there is an optimizer. All models are kept in memory and take turns, as in the bench recipe.
    That keeps freed memory, which is left to the caller here: `sdrop.training.keep_freed_memory`.

    Args:
        make_model: makes the model for one element of `dropout`. Called with the batch, the model
            returns its loss, a 0-dim tensor, or a tuple that begins with it.
        make_batch: makes the arguments of a call, on the device of the model.
        dropout: what `make_model` is given, such as `[None, "structured"]`; the first is the
            baseline, and each is named by `str`.
        make_optimizer: of a model; default none, so that the step ends with the backward pass.
        threads: for torch; with one, process CPU time is taken, else wall time.
        rounds: default as many as fit in `seconds`, from 3 to 50.
        seconds: the time to spend.

    Returns:
        a row for each dropout but the first; `flop_limit` is None, for the work is not known.

    Raises:
        TypeError: where `dropout` is a string, a maker cannot be called, or one makes no module,
            no tuple or no optimizer.
        ValueError: for fewer than two different dropouts, a time, or number of rounds or threads,
            that is not positive, or a model that returns no loss or has nothing to train.
    """
    if isinstance(dropout, str):
        raise TypeError(f"compare: expected a list of dropouts, got the string {dropout!r}")
    makers = {"make_model": make_model, "make_batch": make_batch}
    if make_optimizer is not None:
        makers["make_optimizer"] = make_optimizer
    for name, maker in makers.items():
        if not callable(maker):
            raise TypeError(f"compare: {name} must be a function, got {maker!r}")
    if not _positive(seconds, float) or not (rounds is None or _positive(rounds, int)):
        raise ValueError(
            f"compare(rounds={rounds!r}, seconds={seconds!r}): expected rounds of 1 or more, a "
            "whole number or None, and finite seconds above 0"
        )
    if not _positive(threads, int):
        raise ValueError(f"compare(threads={threads!r}): expected a whole number of 1 or more")
    names = [str(each) for each in dropout]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            f"compare: expected two or more different dropouts, got {names}; the first is the "
            "baseline"
        )
    models = {name: make_model(each) for name, each in zip(names, dropout, strict=True)}
    for name, model in models.items():
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"compare: make_model must make a torch.nn.Module for dropout {name}, got "
                f"{type(model).__name__}"
            )
    batch = make_batch()
    if not isinstance(batch, tuple):
        raise TypeError(
            "compare: make_batch must return a tuple, the arguments of a call, such as "
            f"(input, target); got {_described(batch)}"
        )
    device = next((p.device.type for p in models[names[0]].parameters()), "cpu")
    check_threads(threads, device)
    candidates = {
        name: _candidate(name, model, batch, make_optimizer) for name, model in models.items()
    }
    model_name = type(models[names[0]]).__name__
    pairs = [Pair(name, names[0]) for name in names[1:]]
    comparison = Comparison("compare", model_name, model_name, candidates, pairs)
    setting, clock = Setting(threads, device, _dtype(models[names[0]])), clock_for(device, threads)
    with torch_threads(threads):
        rows = comparison.measure(
            setting,
            clock,
            rounds=rounds,
            seconds=seconds,
            machine=describe_machine(device, threads),
        )
    console = Console()
    console.print(table(rows, comparison.about, clock.name))
    if said := noise(rows):
        console.print(said)
    return rows


def _candidate(
    name: str,
    model: nn.Module,
    batch: tuple[Any, ...],
    make_optimizer: Callable[[nn.Module], Optimizer] | None,
) -> Candidate:
    optimizer = None if make_optimizer is None else make_optimizer(model)
    if make_optimizer is not None and not callable(getattr(optimizer, "step", None)):
        raise TypeError(
            f"compare: make_optimizer must make an optimizer for dropout {name}, got "
            f"{_described(optimizer)}"
        )

    def run() -> None:
        result = model(*batch)
        loss = result[0] if isinstance(result, tuple) else result
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            raise ValueError(
                f"compare: the model for dropout {name} must return its loss, a 0-dim tensor, or "
                f"a tuple that begins with it; got {_described(loss)}"
            )
        if not loss.requires_grad:
            trained = [each.requires_grad for each in model.parameters()]
            raise ValueError(
                f"compare: the loss of the model for dropout {name} has no gradient: "
                f"{sum(trained)} of its {len(trained)} parameters want one; expected one or more"
            )
        torch.autograd.backward(loss)
        if optimizer is not None:
            optimizer.step()

    return Candidate(run, forgets_gradients(model))


def _positive(value: Any, kind: type) -> bool:
    """Whether it is a finite number above 0, and a whole one where `kind` is int."""
    kinds = (int,) if kind is int else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 < value < math.inf


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return type(value).__name__


def _dtype(model: nn.Module) -> str:
    dtype = next((p.dtype for p in model.parameters()), torch.get_default_dtype())
    return str(dtype).removeprefix("torch.")
