"""Turn the options that every training recipe has into the parts of `sdrop.training`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.optim import Optimizer

from sdrop import DropoutPattern
from sdrop.models import DropoutRates
from sdrop.training import (
    Metric,
    Schedule,
    TrainerSettings,
    adam,
    adamw,
    constant,
    decay_after,
    decay_inverse_time,
    decay_on_plateau,
    make_fabric,
    sgd,
)

from .configuration import Mistake, schema

Model = TypeVar("Model", bound=nn.Module)


def make_optimizer(options: schema.Optimizer, model: nn.Module) -> Optimizer:
    """The optimizer that `optimizer=` chooses, for all parameters of a model."""
    if isinstance(options, schema.Adam):
        make = adam if options.name == "adam" else adamw
        betas = (options.beta1, options.beta2)
        return make(
            model.parameters(),
            options.lr,
            betas=betas,
            eps=options.eps,
            weight_decay=options.weight_decay,
        )
    assert isinstance(options, schema.Sgd)
    return sgd(
        model.parameters(),
        options.lr,
        momentum=options.momentum,
        nesterov=options.nesterov,
        weight_decay=options.weight_decay,
    )


def make_schedule(options: schema.Schedule, metric: Metric) -> Schedule:
    """The learning rate's course that `schedule=` chooses."""
    if isinstance(options, schema.Decay):
        return decay_after(options.flat_epochs, 1 / options.divide_by)
    if isinstance(options, schema.InverseTime):
        return decay_inverse_time(options.decay)
    if isinstance(options, schema.Plateau):
        return decay_on_plateau(metric, 1 / options.divide_by, options.patience)
    return constant()


def make_settings(options: schema.Trainer, *, same_across_ranks: bool) -> TrainerSettings:
    """The trainer's settings; precision is Fabric's business."""
    settings = dataclasses.asdict(options)
    del settings["precision"]
    return TrainerSettings(**settings, same_across_ranks=same_across_ranks)


def start_fabric(options: schema.Run) -> Fabric:
    """Device and precision; one process of several under torchrun.

    Raises:
        Mistake: for a device or precision that is not to be had, or that the backend has not.
    """
    try:
        fabric = make_fabric(options.device, options.trainer.precision)
    except (ValueError, RuntimeError) as error:
        raise Mistake(str(error)) from error
    if options.backend == "torch" and fabric.device.type != "cpu":
        raise Mistake(
            "backend=torch is for the CPU: cuDNN wants an LSTM's weights in one piece, which "
            f"torch.nn.LSTM alone has. The device is {fabric.device}: add device=cpu, or take "
            "another backend."
        )
    return fabric


def make_rates(options: schema.Dropout) -> DropoutRates:
    """The rate in force at each site."""
    return DropoutRates(options.input, options.between, options.recurrent, options.output)


def make_pattern(options: schema.Dropout) -> DropoutPattern:
    """How draws are shared over batch and time."""
    return DropoutPattern(**dataclasses.asdict(options.pattern))


def build_model(options: schema.Run, make: Callable[..., Model]) -> Model:
    """A model with its first weights, which follow from the seed.

    Args:
        options: of the run.
        make: called with `rates`, `pattern` and `backend`; has what else the model takes.

    Raises:
        Mistake: for what the model refuses, such as sizes that do not fit together, or a backend
            that is missing here or has no dropout where it is wanted.
    """
    rates = make_rates(options.dropout)
    if options.mode != "train":  # nothing is dropped: a backend may lack what training needed
        rates = dataclasses.replace(rates, recurrent=0.0)
    if options.backend == "torch" and rates.recurrent > 0.0:
        raise Mistake(
            f"backend=torch has no dropout in the recurrence, got dropout.recurrent="
            f"{rates.recurrent}: take dropout=none, standard or structured_nr, or another backend."
        )
    torch.manual_seed(options.seed)
    try:
        return make(
            rates=rates,
            pattern=make_pattern(options.dropout),
            backend=options.backend,
        )
    except (ValueError, RuntimeError) as error:
        raise Mistake(str(error)) from error


def number_of_parameters(model: nn.Module) -> int:
    """Weights that are trained; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def describe_dropout(options: schema.Dropout) -> str:
    """The pattern and the rate at each site, in a line."""
    rates = dataclasses.asdict(make_rates(options))
    if not any(rates.values()):
        return "none"
    return f"{make_pattern(options)}: " + ", ".join(
        f"{site} {rate:g}" for site, rate in rates.items()
    )
