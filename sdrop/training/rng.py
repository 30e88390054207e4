"""The states of all random generators, as tensors, so that a checkpoint can hold them."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch
from torch import Tensor


def seed_generators(seed: int, rank: int) -> None:
    """Seeds torch, Python and numpy from (seed, rank), so that ranks draw different numbers."""
    digest = hashlib.sha256(f"{seed}/{rank}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    random.seed(digest)
    np.random.seed(int.from_bytes(digest[:4], "little"))


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """The state of each default generator that training on `device` may draw from."""
    _, words, _ = random.getstate()
    _, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    states = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor(words, dtype=torch.int64),
        "numpy": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
        "numpy_position": torch.tensor([position, has_gauss]),
        "numpy_gauss": torch.tensor(gauss, dtype=torch.float64),
    }
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_generator_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Puts back what `generator_states` gave."""
    torch.set_rng_state(states["torch"])
    random.setstate((3, tuple(states["python"].tolist()), None))
    keys = states["numpy"].numpy().astype(np.uint32)
    position, has_gauss = states["numpy_position"].tolist()
    np.random.set_state(("MT19937", keys, position, has_gauss, states["numpy_gauss"].item()))
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
