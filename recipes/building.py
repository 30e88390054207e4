"""Turn the options that every training recipe has into the parts of `sdrop.training`."""

from __future__ import annotations

import dataclasses

from torch import nn
from torch.optim import Optimizer

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
    sgd,
)

from .configuration import schema


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
