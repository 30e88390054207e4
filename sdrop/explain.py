"""Which path each layer and site of a module takes, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sdrop.nn import LSTM
from sdrop.nn.lstm import WHOLE_LAYERS
from sdrop.ops.masks import Mask
from sdrop.ops.native_cuda import method, recurrence_mode
from sdrop.ops.paths import Call, Path, Row
from sdrop.ops.recording import recorded_by


@dataclass(frozen=True)
class Explained:
    """One layer of a module.

    Attributes:
        name: the module's in the model, and of an LSTM the layer and direction.
        path: "reference", "cpu", "cuda" or "torch", as the table of `sdrop/ops/paths.py` has them.
        why: the reason.
        dropped: what is dropped in front of its GEMMs, in words.
    """

    name: str
    path: Path
    why: str
    dropped: str

    def __str__(self) -> str:
        return f"{self.name}: {self.path}, {self.why}; {self.dropped}"


@dataclass(frozen=True)
class Explanation:
    """What `sdrop.explain` found: iterate over it, or print it, a line a layer."""

    layers: tuple[Explained, ...]

    def __iter__(self) -> Iterator[Explained]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __str__(self) -> str:
        return "\n".join(map(str, self.layers)) or "nothing of sdrop's was called"

    __repr__ = __str__


def explain(module: nn.Module, *inputs: Any, **named_inputs: Any) -> Explanation:
    """Tells which path every layer of sdrop's in `module` takes for these inputs, and why.

    The module is called once, in the mode it is in and with gradients or, inside `torch.no_grad()`,
    without; random numbers are drawn as in any call and then put back. A compiled module is to be
    explained before it is compiled.

    Args:
        module: a `sdrop.LSTM`, `sdrop.LSTMCell`, `sdrop.Linear`, or a model with some of them.
        inputs, named_inputs: the arguments of the call.

    Returns:
        a line for each layer, in the order of the calls; `print` shows it.

    Raises:
        TypeError: for what is no module.

    Example:
        >>> lstm = sdrop.LSTM(8, 8, input_dropout=0.5)
        >>> print(sdrop.explain(lstm, torch.randn(3, 2, 8)))
        LSTM, layer 0: cpu, the compiled CPU kernels take it; x: 4 of 8 neurons, anew each step
    """
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"explain: expected a torch.nn.Module and the inputs of its call, got {_shown(module)}"
        )
    names = {id(each): name or type(each).__name__ for name, each in module.named_modules()}
    listener = _Listener(names)
    gpus = {p.device for p in module.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(sorted(gpus, key=str)), recorded_by(listener):
        module(*inputs, **named_inputs)
    return Explanation(tuple(listener.found))


@dataclass
class _Listener:
    """Puts names to the choices: modules announce themselves when they are called."""

    names: dict[int, str]
    found: list[Explained] = field(default_factory=list)
    module: str = ""
    is_lstm: bool = False
    layer: int = -1
    projected: int = 0

    def enter(self, module: nn.Module) -> None:
        self.module = self.names.get(id(module), type(module).__name__)
        self.is_lstm, self.layer = isinstance(module, LSTM), -1
        self.projected = module.proj_size if isinstance(module, LSTM) else 0

    def add(self, call: Call, row: Row, input: Mask, hidden: tuple[Mask, ...]) -> None:
        if call.op == "layer":
            self.layer += 1
        together = call.op == "layer" and row.path in WHOLE_LAYERS
        told = hidden[:1] if together else hidden
        why = row.why
        if row.path == "cuda":
            why += f"; products with x: {_cuda_products(call, input)}"
            if call.op != "linear":
                why += f"; recurrence: {_cuda_recurrence(call, input, hidden)}"
        for direction, mask in enumerate(told):
            hidden_size = (call.projection and self.projected) or call.sizes[1]
            dropped = _dropped(call, input, mask, hidden_size)
            self.found.append(Explained(self._name(direction), row.path, why, dropped))

    def add_plain(self, why: str) -> None:
        self.found.append(Explained(self.module, "torch", why, "nothing is dropped"))

    def _name(self, direction: int) -> str:
        if not self.is_lstm:
            return self.module
        return f"{self.module}, layer {self.layer}{', reverse' if direction else ''}"


def _shown(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def _dropped(call: Call, input: Mask, hidden: Mask, hidden_size: int) -> str:
    sites = [("x", input, call.sizes[0]), ("h", hidden, hidden_size)]
    several = call.rows > call.batch
    said = [
        f"{name}: {_kept(mask, size, several)}" for name, mask, size in sites if not mask.is_all
    ]
    return ", ".join(said) or "nothing is dropped"


def _cuda_products(call: Call, mask: Mask) -> str:
    """Which kernels compute the products with the input, by the table of kernels/cuda/choice.h."""
    pattern = _cuda_pattern(mask)
    shared = pattern in ("keep_all", "one_set") or (mask.mask is not None and len(mask.mask) == 1)
    precision = str(call.dtype).removeprefix("torch.")
    if precision == "float32" and torch.get_float32_matmul_precision() != "highest":
        precision = "tf32"
    return method(precision, pattern, call.rows if shared else call.batch) or "by the emulation"


def _cuda_recurrence(call: Call, input: Mask, hidden: tuple[Mask, ...]) -> str:
    """In which mode the steps run, by the rules of kernels/cuda/occupancy.h."""
    if call.device != "cuda":
        return "by the emulation"
    tensors = [each for mask in (input, *hidden) for each in (mask.kept, mask.mask)]
    devices = [each.device.index for each in tensors if each is not None]
    device = devices[0] if devices else torch.cuda.current_device()
    mode = recurrence_mode(device, call.batch, call.sizes[1], len(hidden), call.dtype)
    return f"{mode} (docs/cuda.md)"


def _cuda_pattern(mask: Mask) -> str:
    if mask.kept is not None:
        return "one_set" if len(mask.kept) == 1 else "set_a_step"
    if mask.mask is None:
        return "keep_all"
    return "counted_on_device" if mask.mask.shape[1] == 1 else "each_element"


def _kept(mask: Mask, size: int, several: bool) -> str:
    """What is kept, and where there are several steps whether they keep the same."""
    if mask.kept is not None:
        steps, kept = mask.kept.shape
        who = f"{kept} of {size} neurons"
    else:
        assert mask.mask is not None
        steps, columns, _ = mask.mask.shape
        who = f"neurons drawn for {'the whole batch' if columns == 1 else 'each sequence'}"
    return f"{who}, {'once' if steps == 1 else 'anew each step'}" if several else who
