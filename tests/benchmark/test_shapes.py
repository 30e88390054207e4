"""Shapes by name and by their sizes."""

import pytest

from sdrop.benchmark.shapes import SHAPES, Shape, parse_shape


def test_a_name_gives_the_published_sizes():
    assert parse_shape("ptb_large") == Shape("ptb_large", 35, 20, 1500, 1500, 0.65, 10_000)
    assert parse_shape("iwslt").vocabulary_size == 20_000
    assert not parse_shape("generation").training
    assert all(name == shape.name for name, shape in SHAPES.items())


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("T35-B20-H650", (35, 20, 650, 650, 0.5, 10_000)),
        ("T7B3H17p.25", (7, 3, 17, 17, 0.25, 10_000)),
        ("H8-in4-p0.4-B2-V30-T1", (1, 2, 4, 8, 0.4, 30)),
    ],
)
def test_sizes_are_written_by_their_letters(text, sizes):
    assert parse_shape(text) == Shape(text, *sizes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ptb_medum", "expected ptb_medium, ptb_large"),
        ("35x20x650", "sizes written like T35-B20-H650-p.5"),
        ("T35-B20", "H is missing"),
        ("T35-T20-H8", "T: twice"),
        ("T35-B20-Q8", "Q: no such letter; there are T, B, in, H, V, p"),
        ("T3.5-B20-H8", "T3.5: expected a whole number"),
        ("T0-B20-H8", "expected steps >= 1, got 0"),
        ("T3-B20-H8-p1", "expected a rate p in (0, 1), got 1.0"),
        ("", "expected ptb_medium"),
    ],
)
def test_what_is_no_shape_is_told(text, said):
    with pytest.raises(ValueError, match="shape ") as error:
        parse_shape(text)
    assert said in str(error.value)
