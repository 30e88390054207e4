"""Where keys come from: the default generator, `mask_key`, and `sequence`."""

import copy

import pytest
import torch
from torch import nn

import sdrop
from sdrop.keys import SiteModule, call_key, step_key

CPU = torch.device("cpu")
VARYING, CONSTANT = sdrop.DropoutPattern(), sdrop.DropoutPattern(time="constant")


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SiteModule(), SiteModule()


def explicit(module, *arguments, **options):
    with sdrop.mask_key(*arguments, **options):
        return int(call_key(module, CPU))


def test_by_default_each_call_draws_a_key_from_the_generator():
    module = SiteModule()
    torch.manual_seed(3)
    first, second = call_key(module, CPU), call_key(module, CPU)
    torch.manual_seed(3)
    assert first == call_key(module, CPU)
    assert first != second
    assert first.dtype == torch.int64
    assert first.dim() == 0


def test_fork_rng_keeps_the_generator_as_it_was():
    module = SiteModule()
    torch.manual_seed(3)
    with torch.random.fork_rng():
        inside = call_key(module, CPU)
    assert inside == call_key(module, CPU)


def test_an_explicit_key_leaves_the_generator_alone():
    pair = sdrop.name_sites(Pair())
    before = torch.get_rng_state()
    explicit(pair.first, 1, 2)
    assert torch.equal(before, torch.get_rng_state())


def test_an_explicit_key_is_a_function_of_all_its_arguments_and_the_name():
    pair = sdrop.name_sites(Pair())
    keys = [
        explicit(pair.first, 1, 2),
        explicit(pair.second, 1, 2),
        explicit(pair.first, 2, 2),
        explicit(pair.first, 1, 3),
        explicit(pair.first, 1, 2, rank=1),
        explicit(pair.first, -1, 2),
        explicit(pair.first, 1, 2 + 2**32),
    ]
    assert len(set(keys)) == len(keys)
    assert explicit(pair.first, 1, 2) == keys[0]


def test_the_key_of_a_seed_step_and_name_stays_the_same_for_good():
    pair = sdrop.name_sites(Pair())
    assert explicit(pair.first, 1, 2) == 3272763234571459410


def test_names_survive_copies_and_wrappers():
    pair = sdrop.name_sites(Pair())
    key = explicit(pair.first, 1, 2)
    assert explicit(copy.deepcopy(pair).first, 1, 2) == key
    wrapped = nn.ModuleDict({"module": Pair()})
    sdrop.name_sites(wrapped)
    assert explicit(wrapped["module"].first, 1, 2) == key


def test_two_modules_that_would_get_one_name_are_refused():
    model = nn.ModuleDict({"module": Pair(), "_orig_mod": Pair()})
    with pytest.raises(ValueError, match=r"module\.first and _orig_mod\.first.*'first'"):
        sdrop.name_sites(model)


def test_an_unnamed_module_is_refused_under_an_explicit_key():
    with (
        sdrop.mask_key(1, 2),
        pytest.raises(RuntimeError, match=r"SiteModule has no name.*call sdrop\.name_sites"),
    ):
        call_key(SiteModule(), CPU)


def test_mask_key_gives_back_what_was_in_force_before():
    pair = sdrop.name_sites(Pair())
    with sdrop.mask_key(1, 2):
        outer = call_key(pair.first, CPU)
        with pytest.raises(ZeroDivisionError), sdrop.mask_key(1, 3):
            raise ZeroDivisionError
        assert call_key(pair.first, CPU) == outer
    torch.manual_seed(0)
    drawn = call_key(pair.first, CPU)
    torch.manual_seed(0)
    assert drawn == call_key(pair.first, CPU)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1.5, 2), TypeError, r"mask_key\(seed=1\.5\): expected an integer"),
        ((1, "2"), TypeError, r"mask_key\(step='2'\): expected an integer"),
        ((True, 2), TypeError, r"mask_key\(seed=True\): expected an integer"),
        ((1, -2), ValueError, r"mask_key\(step=-2\): expected an integer >= 0"),
    ],
)
def test_wrong_arguments_of_mask_key_are_named(arguments, error, message):
    with pytest.raises(error, match=message), sdrop.mask_key(*arguments):
        pass


def test_a_sequence_counts_the_calls_of_each_module():
    pair = sdrop.name_sites(Pair())
    with sdrop.mask_key(1, 2), sdrop.sequence():
        positions = [step_key(module, VARYING, CPU)[1] for module in 2 * [pair.first]]
        positions.append(step_key(pair.second, VARYING, CPU)[1])
    assert positions == [0, 1, 0]


def test_outside_a_sequence_each_call_is_step_zero_of_a_new_key():
    module = SiteModule()
    first, second = (step_key(module, VARYING, CPU) for _ in range(2))
    assert first[1] == second[1] == 0
    assert first[0] != second[0]


def test_a_constant_pattern_keeps_its_key_for_one_sequence():
    module = SiteModule()
    with sdrop.sequence():
        first, second = (step_key(module, CONSTANT, CPU) for _ in range(2))
    with sdrop.sequence():
        third = step_key(module, CONSTANT, CPU)
    assert first == second
    assert first[0] != third[0]


def test_a_constant_pattern_outside_a_sequence_is_refused():
    with pytest.raises(RuntimeError, match=r"with sdrop\.sequence\(\):"):
        step_key(SiteModule(), CONSTANT, CPU)
