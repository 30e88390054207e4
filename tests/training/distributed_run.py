"""What each of two processes under torchrun finds; writes FOLDER/rank-N.json.

torchrun --nproc-per-node 2 distributed_run.py FOLDER
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from tiny_run import exact_figures, run, text, tiny_model
from torch import nn

import sdrop
from sdrop.data.batches import BpttBatches
from sdrop.evaluation import perplexity
from sdrop.keys import name_sites
from sdrop.training import NonFiniteError, TrainerSettings, make_fabric, sgd
from sdrop.training.signals import StopRequest
from sdrop.training.state import TrainerState
from sdrop.training.step import TrainingStep, take_group


def gradient(fabric, normalization, accumulated):
    """Minus the gradient over a group of windows, of a model in evaluation mode (no dropout)."""
    model = name_sites(tiny_model()).eval()
    before = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
    wrapped, optimizer = fabric.setup(model, sgd(model.parameters(), 1.0))
    # 75 predictions in 4 columns: the last one is shorter, so the ranks count different numbers.
    batches = BpttBatches(
        text(76), batch_size=4, bptt=5, rank=fabric.global_rank, world_size=fabric.world_size
    )
    settings = TrainerSettings(max_grad_norm=None, loss_normalization=normalization)
    group = take_group(fabric, batches.epoch(0, start=4 - accumulated), accumulated, StopRequest())
    state = TrainerState(mask_seed=0)
    TrainingStep(fabric, wrapped, optimizer, settings, stateful=True)(group, state)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    return {"update": (after - before).tolist(), "loss": state.window.loss, "tokens": group.tokens}


class MaskSum(nn.Module):
    """Remembers which neurons it kept."""

    def __init__(self):
        super().__init__()
        self.dropout = sdrop.Dropout(0.5, sdrop.DropoutPattern())
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, input, target, state=None):
        self.kept = self.dropout(torch.ones(1, 1, 64)).flatten().nonzero().flatten().tolist()
        return self.weight * input.float().mean(), None


def masks(fabric, **settings):
    model = name_sites(MaskSum())
    wrapped, optimizer = fabric.setup(model, sgd(model.parameters(), 1.0))
    batches = BpttBatches(text(80), batch_size=4, bptt=5, rank=fabric.global_rank, world_size=2)
    group = take_group(fabric, batches.epoch(0), 1, StopRequest())
    take_step = TrainingStep(fabric, wrapped, optimizer, TrainerSettings(**settings), False)
    take_step(group, TrainerState(mask_seed=0))
    return model.kept


def resumed(folder):
    """A whole run and a stopped and resumed one: figures and weights."""
    _, whole = run(folder / "whole")
    run(folder / "parts", max_steps=3)
    _, parts = run(folder / "parts", resume="auto")
    return {
        "figures": [exact_figures(folder / name) for name in ("whole", "parts")],
        "equal": all(map(torch.equal, whole.parameters(), parts.parameters())),
        "digest": [parameter.double().sum().item() for parameter in parts.parameters()],
    }


def non_finite(folder, rank):
    """Only one rank's loss is infinite: all of them must stop, in the same step."""

    def spoil(module, arguments, output):
        return (output[0] * torch.inf, output[1]) if rank == 1 else output

    handle = nn.modules.module.register_module_forward_hook(
        lambda module, a, o: spoil(module, a, o) if type(module).__name__ == "TinyModel" else None
    )
    try:
        run(folder)
    except NonFiniteError as error:
        return str(error)
    finally:
        handle.remove()


def main(folder):
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    fabric = make_fabric("cpu")
    batches = BpttBatches(text(76), batch_size=4, bptt=5, rank=fabric.global_rank, world_size=2)
    found = {
        "world_size": fabric.world_size,
        "gradients": {
            f"{normalization} {accumulated}": gradient(fabric, normalization, accumulated)
            for normalization in ("token", "sequence")
            for accumulated in (1, 2)
        },
        "masks": masks(fabric),
        "same masks": masks(fabric, same_across_ranks=True),
        "perplexity": vars(perplexity(tiny_model(), batches, fabric)),
        "resumed": resumed(folder),
        "non-finite": non_finite(folder / "non-finite", fabric.global_rank),
    }
    (folder / f"rank-{fabric.global_rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
