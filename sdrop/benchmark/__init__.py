"""Benchmarks: what structured dropout is worth here, against stock PyTorch.

from sdrop.benchmark import compare

rows = compare(make_model, make_batch, dropout=[None, "structured"])
"""

from sdrop.benchmark.compare import compare
from sdrop.benchmark.rows import Row, Setting, read_rows
from sdrop.benchmark.shapes import SHAPES, Shape, parse_shape
from sdrop.benchmark.suites import register_step

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
