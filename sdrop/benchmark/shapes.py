"""The sizes to measure: those of published models by name, or any by their letters."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

_WRITTEN = "T35-B20-H650-p.5"
_PART = re.compile(r"([A-Za-z]+)(\d*\.?\d+)")


@dataclass(frozen=True)
class Shape:
    """Sizes of an LSTM layer and of the training step around it.

    Attributes:
        name: as it was given.
        steps: T.
        batch: B.
        input_size: features of x_t.
        hidden_size: H.
        rate: p of every dropout site.
        vocabulary_size: V of a step's decoder.
        training: whether gradients are computed; else one pass in evaluation mode.
    """

    name: str
    steps: int
    batch: int
    input_size: int
    hidden_size: int
    rate: float = 0.5
    vocabulary_size: int = 10_000
    training: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or value < 1):
                raise ValueError(f"shape {self.name}: expected {field.name} >= 1, got {value!r}")
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"shape {self.name}: expected a rate p in (0, 1), got {self.rate}")

    @property
    def described(self) -> str:
        """Name and sizes in words."""
        sizes = {"T": self.steps, "B": self.batch, "in": self.input_size, "H": self.hidden_size}
        written = " ".join(f"{letter} {size}" for letter, size in sizes.items())
        end = f" p {self.rate:g}" if self.training else ", evaluation mode"
        return f"{self.name}: {written}{end}"


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("ptb_medium", 35, 20, 650, 650),
        Shape("ptb_large", 35, 20, 1500, 1500, rate=0.65),
        Shape("awd", 70, 80, 1150, 1150),
        Shape("iwslt", 25, 64, 500, 500, vocabulary_size=20_000),
        Shape("conll_200", 15, 32, 200, 200),
        Shape("conll_100", 15, 10, 100, 100),
        Shape("generation", 1, 1, 650, 650, training=False),
    )
}
_FIELDS = {"T": "steps", "B": "batch", "in": "input_size", "H": "hidden_size"} | {
    "V": "vocabulary_size"
}


def parse_shape(text: str) -> Shape:
    """The shape of a name, or of sizes written like `T35-B20-H650-p.5`.

    The letters are T, B, H, in (default H), p (default .5) and V (default 10000), in any order,
    with `-` or nothing between them.

    Raises:
        ValueError: for a name that is none, a letter that is none, twice or missing, or a size
            out of range.
    """
    if text in SHAPES:
        return SHAPES[text]
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip("- "):
        raise ValueError(
            f"shape {text}: expected {', '.join(SHAPES)}, or sizes written like {_WRITTEN}"
        )
    sizes: dict[str, int | float] = {}
    for letter, number in parts:
        name = "rate" if letter == "p" else _FIELDS.get(letter)
        if name is None or name in sizes:
            wrong = "twice" if name else f"no such letter; there are {', '.join(_FIELDS)}, p"
            raise ValueError(f"shape {text}: {letter}: {wrong}, as in {_WRITTEN}")
        if name != "rate" and not number.isdigit():
            raise ValueError(f"shape {text}: {letter}{number}: expected a whole number")
        sizes[name] = float(number) if name == "rate" else int(number)
    for letter in ("T", "B", "H"):
        if _FIELDS[letter] not in sizes:
            raise ValueError(f"shape {text}: {letter} is missing, as in {_WRITTEN}")
    sizes.setdefault("input_size", sizes["hidden_size"])
    return Shape(text, **sizes)  # type: ignore[arg-type]
