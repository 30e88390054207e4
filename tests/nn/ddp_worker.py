"""One rank of test_ddp.py: `python ddp_worker.py RANK FOLDER`. Writes what it saw to FOLDER."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import sdrop

RANKS, STEPS, BATCH = 2, 6, 4


class Model(nn.Module):
    """All modules that have parameters, in one model."""

    def __init__(self):
        super().__init__()
        rates = {"dropout": 0.5, "input_dropout": 0.5, "recurrent_dropout": 0.5}
        self.lstm = sdrop.LSTM(5, 6, 2, bidirectional=True, proj_size=4, **rates)
        self.cell = sdrop.LSTMCell(8, 6, input_dropout=0.5)
        self.linear = sdrop.Linear(6, 3, dropout=0.5)

    def forward(self, x):
        output, _ = self.lstm(x)
        h, _ = self.cell(output[-1])
        return self.linear(h)


def make_model():
    torch.manual_seed(0)
    return sdrop.name_sites(Model().double())


def make_batch():
    return torch.randn(
        STEPS, BATCH, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )


def train_step(model, x, rank):
    """One step of SGD under the key of `rank`; returns the output and the gradients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    with sdrop.mask_key(3, 4, rank=rank):
        output = model(x)
    output.square().mean().backward()
    grads = {name.removeprefix("module."): p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    return output.detach(), grads


def main(rank, folder):
    store = dist.FileStore(str(folder / "store"), RANKS)  # no port to find
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    own = make_batch().chunk(RANKS, dim=1)[rank]
    seen = {}
    for name, key_rank in (("shared", 0), ("own", rank)):
        for view in (False, True):
            model = DistributedDataParallel(make_model(), gradient_as_bucket_view=view)
            output, grads = train_step(model, own, key_rank)
            weights = {k.removeprefix("module."): p.detach() for k, p in model.named_parameters()}
            k_major = all(g.t().is_contiguous() for g in grads.values() if g.dim() == 2)
            results = {"output": output, "grads": grads, "weights": weights, "k_major": k_major}
            seen[f"{name} {view}"] = results
        seen[f"{name} evaluated"] = model.eval()(own).detach()
    torch.save(seen, folder / f"rank{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), Path(sys.argv[2]))
