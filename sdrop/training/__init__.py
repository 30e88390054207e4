"""Training: one loop for all recipes, its settings, its checkpoints, its metrics."""

from sdrop.training.averaging import load_average, newest
from sdrop.training.checkpoint import Manifest, best, describe, latest, load_weights
from sdrop.training.curves import draw_curves
from sdrop.training.errors import CheckpointError, NonFiniteError
from sdrop.training.fabric import make_fabric
from sdrop.training.fitting import FitResult, fit
from sdrop.training.memory import keep_freed_memory
from sdrop.training.metric import BLEU, F1, LOSS, PERPLEXITY, Metric
from sdrop.training.metrics import read_metrics
from sdrop.training.optimizers import adam, adamw, align_state, sgd
from sdrop.training.run_folder import RunFolder, find_checkpoint
from sdrop.training.schedules import (
    Schedule,
    constant,
    decay_after,
    decay_inverse_time,
    decay_on_plateau,
)
from sdrop.training.settings import TrainerSettings
from sdrop.training.summary import write_summary

__all__ = [
    "BLEU",
    "F1",
    "LOSS",
    "PERPLEXITY",
    "CheckpointError",
    "FitResult",
    "Manifest",
    "Metric",
    "NonFiniteError",
    "RunFolder",
    "Schedule",
    "TrainerSettings",
    "adam",
    "adamw",
    "align_state",
    "best",
    "constant",
    "decay_after",
    "decay_inverse_time",
    "decay_on_plateau",
    "describe",
    "draw_curves",
    "find_checkpoint",
    "fit",
    "keep_freed_memory",
    "latest",
    "load_average",
    "load_weights",
    "make_fabric",
    "newest",
    "read_metrics",
    "sgd",
    "write_summary",
]
