"""Benchmarks: what structured dropout is worth here, against stock PyTorch.

from sdrop.benchmark import compare

rows = compare(make_model, make_batch, dropout=[None, "structured"])
"""

from functools import partial

from sdrop.benchmark.compare import compare
from sdrop.benchmark.rows import Row, Setting, read_rows
from sdrop.benchmark.shapes import SHAPES, Shape, parse_shape
from sdrop.benchmark.suites import register_step
from sdrop.benchmark.translator import TRANSLATORS, translator_comparison

__all__ = [
    "SHAPES",
    "Row",
    "Setting",
    "Shape",
    "compare",
    "parse_shape",
    "read_rows",
    "register_step",
]

for _name in TRANSLATORS:
    register_step(_name, partial(translator_comparison, _name))
