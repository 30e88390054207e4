"""Options that training recipes share, and those of ptb and bench: type, default and range."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from .option import as_list, option

SUITES = ("all", "gemm", "layer", "step", "scaling", "memory")
DROPOUTS = ("none", "structured_nr", "structured", "structured_constant", "unrolled")


@dataclass
class Model:
    """A word embedding, stacked LSTM layers and a softmax over the vocabulary."""

    embedding_dim: int = option(256, at_least=1)
    hidden_size: int = option(256, at_least=1)
    num_layers: int = option(2, at_least=1)
    tie_weights: bool = option(False)  # embedding and softmax share a matrix: sizes must agree
    init_range: float = option(0.05, more_than=0)  # weights start in U(-init_range, init_range)


@dataclass
class Data:
    """What every corpus has."""

    name: str = option()


@dataclass
class LanguageModelData(Data):
    """How any text is cut into batches."""

    batch_size: int = option(20, at_least=1)  # columns over all ranks
    bptt: int = option(35, at_least=1)  # steps of one window of truncated backpropagation
    valid_batch_size: int = option(20, at_least=1)
    test_batch_size: int = option(1, at_least=1)  # one column: no past is cut off
    max_vocabulary: int | None = option(None, at_least=2)
    min_frequency: int = option(2, at_least=1)  # rarer words become <unk>, which is learnt so


@dataclass
class Ptb(LanguageModelData):
    """Penn Treebank as Mikolov prepared it."""

    name: str = option("ptb", choices=("ptb",))
    root: str | None = option(None, path=True)  # folder of ptb.{train,valid,test}.txt
    download: bool = option(False)
    min_frequency: int = option(1, at_least=1)  # the files have their rare words replaced already


@dataclass
class Pydoc(LanguageModelData):
    """The documentation topics inside every Python."""

    name: str = option("pydoc", choices=("pydoc",))


@dataclass
class Text(LanguageModelData):
    """The user's own plain-text files, one sentence a line."""

    name: str = option("text", choices=("text",))
    root: str | None = option(None, path=True)  # the three files stand in here, where it is given
    train: str = option(path=True)
    valid: str = option(path=True)
    test: str = option(path=True)


@dataclass
class Rates:
    """Rate of each site as an experiment publishes it, whether or not a preset switches it on."""

    input: float = option(0.5, at_least=0, below=1)
    between: float = option(0.5, at_least=0, below=1)
    recurrent: float = option(0.5, at_least=0, below=1)
    output: float = option(0.5, at_least=0, below=1)


@dataclass
class Pattern:
    """Which neurons are dropped together; the fields of `sdrop.DropoutPattern`."""

    space: str = option("structured", choices=("structured", "random"))
    time: str = option("varying", choices=("varying", "constant"))
    keep: str = option("count", choices=("count", "bernoulli"))


@dataclass
class Dropout:
    """Rate in force at each site (a preset takes it from `rates` or sets 0), and the pattern."""

    input: float = option(0.0, at_least=0, below=1)
    between: float = option(0.0, at_least=0, below=1)
    recurrent: float = option(0.0, at_least=0, below=1)
    output: float = option(0.0, at_least=0, below=1)
    pattern: Pattern = field(default_factory=Pattern)
    same_across_ranks: bool = option(False)
    rates: Rates = field(default_factory=Rates)


@dataclass
class Optimizer:
    """What every optimizer has."""

    name: str = option()
    lr: float = option(1.0, more_than=0)


@dataclass
class Sgd(Optimizer):
    """Stochastic gradient descent."""

    name: str = option("sgd", choices=("sgd",))
    momentum: float = option(0.0, at_least=0, below=1)
    nesterov: bool = option(False)
    weight_decay: float = option(0.0, at_least=0)


@dataclass
class Adam(Optimizer):
    """Adam (weight decay as part of the gradient), or AdamW (decoupled weight decay)."""

    name: str = option("adam", choices=("adam", "adamw"))
    lr: float = option(3e-3, more_than=0)
    beta1: float = option(0.9, at_least=0, below=1)
    beta2: float = option(0.999, at_least=0, below=1)
    eps: float = option(1e-8, more_than=0)
    weight_decay: float = option(0.0, at_least=0)


@dataclass
class Schedule:
    """Learning rate by epoch."""

    name: str = option()


@dataclass
class Constant(Schedule):
    """The same learning rate throughout."""

    name: str = option("constant", choices=("constant",))


@dataclass
class Decay(Schedule):
    """A flat start, then the learning rate divided once an epoch."""

    name: str = option("decay", choices=("decay",))
    flat_epochs: int = option(5, at_least=1)  # epochs at the full rate
    divide_by: float = option(2.0, at_least=1)


@dataclass
class Plateau(Schedule):
    """The learning rate divided whenever the validation metric has stopped getting better."""

    name: str = option("plateau", choices=("plateau",))
    divide_by: float = option(2.0, at_least=1)
    patience: int = option(0, at_least=0)  # epochs without a better metric that are let pass


@dataclass
class InverseTime(Schedule):
    """The learning rate over 1 + decay x (epochs before this one)."""

    name: str = option("inverse_time", choices=("inverse_time",))
    decay: float = option(0.05, at_least=0)


@dataclass
class Trainer:
    """The training loop; the fields of `sdrop.training.TrainerSettings`, and the precision."""

    max_epochs: int = option(8, at_least=1)
    max_steps: int | None = option(None, at_least=1)
    max_grad_norm: float | None = option(5.0, more_than=0)
    gradient_accumulation_steps: int = option(1, at_least=1)
    precision: str = option(
        "32-true", choices=("32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true")
    )
    loss_normalization: str = option("token", choices=("token", "sequence"))
    log_every_steps: int = option(50, at_least=1)
    validate_every_epochs: int = option(1, at_least=1)
    validate_every_steps: int | None = option(None, at_least=1)
    checkpoint_every_steps: int | None = option(None, at_least=1)
    keep_checkpoints: int = option(1, at_least=1)
    early_stopping_patience: int | None = option(None, at_least=1)


@dataclass
class Logger:
    """What is written beside metrics.jsonl, which is always there."""

    csv: bool = option(False)
    tensorboard: bool = option(False)


@dataclass
class Debug:
    """Small runs for looking at the code; everything off where no debug= is given."""

    train_batches: int | None = option(None, at_least=1)  # batches an epoch
    evaluation_batches: int | None = option(None, at_least=1)
    overfit: bool = option(False)  # validate on the training batches
    detect_anomaly: bool = option(False)  # name the operation that made a NaN
    profile: bool = option(False)  # print where the time goes, write profile.json


@dataclass
class Run:
    """Options that stand at the top of every training recipe."""

    mode: str = option("train", choices=("train", "evaluate"))
    experiment: str | None = option(None)
    seed: int = option(1, at_least=0, at_most=2**32 - 1)
    device: str = option("auto")
    backend: str = option("auto", choices=("auto", "reference", "torch", "cpu", "cuda"))
    resume: str | None = option(None)  # a run folder, a checkpoint, or auto
    checkpoint: str | None = option(None, path=True)  # a run folder or a checkpoint
    model: Model = MISSING
    data: Data = MISSING
    dropout: Dropout = MISSING
    optimizer: Optimizer = MISSING
    schedule: Schedule = MISSING
    trainer: Trainer = MISSING
    logger: Logger = MISSING
    debug: Debug = field(default_factory=Debug)


@dataclass
class LanguageModelRun(Run):
    """The top of the ptb recipe."""

    data: LanguageModelData = MISSING  # keeps Run's place, as does mode
    mode: str = option("train", choices=("train", "evaluate", "generate"))
    prompt: str = option("")
    length: int = option(100, at_least=1)  # words to write
    temperature: float = option(1.0, at_least=0)  # 0 always takes the likeliest word


@dataclass
class BenchRun:
    """The top of the bench recipe; an option that takes several may be given one."""

    mode: str = option("measure", choices=("measure", "readme"))
    suite: Any = option("all", several=str, choices=SUITES)
    shape: Any = option(["ptb_medium", "conll_200", "generation"], several=str)
    variant: Any = option([*DROPOUTS], several=str, choices=DROPOUTS)
    threads: Any = option(1, several=int, at_least=1)
    device: str = option("cpu")
    dtype: str = option("float32", choices=("float32", "bfloat16"))
    backend: str = option("auto", choices=("auto", "reference", "torch", "cpu", "cuda"))
    rounds: int | None = option(None, at_least=1)  # null: as many as fit in `seconds`, 3 to 50
    seconds: float = option(90.0, more_than=0)  # to spend on all comparisons together
    peers: Any = option([], several=str, choices=("jax", "keras"))
    source: str | None = option(None, path=True)  # a bench.json, for mode=readme
    readme: str = option("README.md", path=True)

    def __post_init__(self) -> None:
        for name in ("suite", "shape", "variant", "threads", "peers"):
            setattr(self, name, as_list(getattr(self, name)))
