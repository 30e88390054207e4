"""The four cases, how many neurons are kept, and what is said of wrong words and rates."""

import pytest

from sdrop import DropoutPattern
from sdrop.pattern import check_rate, kept_count


@pytest.mark.parametrize(
    ("space", "time", "case"),
    [
        ("random", "varying", "I"),
        ("random", "constant", "II"),
        ("structured", "varying", "III"),
        ("structured", "constant", "IV"),
    ],
)
def test_each_pattern_has_the_papers_case_number(space, time, case):
    pattern = DropoutPattern(space=space, time=time)
    assert pattern.case == case
    assert str(pattern).startswith(f"case {case} (")


def test_the_default_is_structured_varying_with_a_fixed_count():
    assert DropoutPattern() == DropoutPattern("structured", "varying", "count")


def test_patterns_are_hashable_and_frozen():
    assert len({DropoutPattern(), DropoutPattern(), DropoutPattern(time="constant")}) == 2
    with pytest.raises(AttributeError):
        DropoutPattern().space = "random"


@pytest.mark.parametrize("field", ["space", "time", "keep"])
def test_a_wrong_word_is_told_with_the_right_ones(field):
    with pytest.raises(ValueError, match=rf"DropoutPattern\({field}='sparse'\): expected '\w+' or"):
        DropoutPattern(**{field: "sparse"})


@pytest.mark.parametrize(
    ("size", "rate", "kept"),
    [
        (650, 0.5, 325),
        (1500, 0.65, 525),
        (3, 0.5, 2),  # 1.5 rounds up
        (5, 0.5, 3),  # 2.5 rounds up too, not to even
        (1, 0.99, 1),  # never none
        (7, 0.0, 7),
        (10, 0.04, 10),
    ],
)
def test_kept_count_rounds_half_up_and_is_never_zero(size, rate, kept):
    assert kept_count(size, rate) == kept


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), float("inf")])
def test_a_rate_outside_the_range_is_refused(rate):
    with pytest.raises(ValueError, match=r"dropout=.*expected a dropout rate in \[0, 1\)"):
        check_rate("dropout", rate)


@pytest.mark.parametrize("rate", ["0.5", None, True, [0.5]])
def test_a_rate_that_is_no_number_is_refused(rate):
    with pytest.raises(TypeError, match=r"dropout=.*expected a number in \[0, 1\), got"):
        check_rate("dropout", rate)
