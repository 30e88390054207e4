"""The LSTM of one layer and one direction, over a whole sequence.

`equations.py` is to be read: the LSTM's equations with masks in plain PyTorch, differentiable any
number of times. `packed.py` computes the same on the kept neurons alone, with a backward pass
written by hand. `op.py` registers that as `torch.ops.sdrop.lstm`, `cpu.py` and `cuda.py` the
compiled kernels as `torch.ops.sdrop.lstm_cpu` and `lstm_cuda`; `sdrop/ops/choice.py` takes one of
them.
"""

from sdrop.ops.lstm.equations import lstm_equations
from sdrop.ops.lstm.op import lstm

__all__ = ["lstm", "lstm_equations"]
