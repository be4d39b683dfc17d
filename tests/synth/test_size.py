"""Tests of the size of a fit, which is computed before the rows are read."""

import time
from itertools import combinations
from math import prod

import numpy as np
import pytest
from small_tables import fit

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.mechanisms.aim import AIM
from equistrata.synth.mechanisms.gem import GEM
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.registry import mechanism
from equistrata.synth.size import _symmetric, _widest_tree_cells, size
from equistrata.synth.strata.selection import shared_selection


def schema(sizes, impossible=()):
    columns = tuple(Column(f"c{n}", values=tuple(range(k))) for n, k in enumerate(sizes))
    return Schema("made", columns, impossible=tuple(impossible))


def whole(sizes, impossible=()):
    return Strata.over(schema(sizes, impossible), [])


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_cells_of_all_marginals_are_those_of_each_added_up(degree):
    sizes = [2, 3, 5, 7, 11]
    assert _symmetric(sizes, degree) == sum(map(prod, combinations(sizes, degree)))


@pytest.mark.parametrize("sizes", [(2, 9, 3, 5), (4, 4, 4, 4), (7,), (3, 8)])
def test_no_spanning_tree_has_more_cells(sizes):
    part, found = dict(enumerate(range(len(sizes)))), []
    for a, b in sorted(combinations(range(len(sizes)), 2), key=lambda pair: -sizes[pair[0]] * sizes[pair[1]]):
        if part[a] != part[b]:
            part = {v: part[a] if root == part[b] else root for v, root in part.items()}
            found.append((a, b))
    assert len(found) == len(sizes) - 1
    assert _widest_tree_cells(sizes) == sum(sizes[a] * sizes[b] for a, b in found)


TIED = [Impossible(("c0", "c1", "c2"), ((0,), (0,), (0,)))]
# All values of a column are different, so the combinations cannot be merged.
BUSY = [Impossible(("c0", "c1", "c2"), ((n,), (n,), (n,))) for n in range(200)]


@pytest.mark.parametrize(
    ("synthesizer", "strata", "sentence"),
    [
        (MST(), whole([300, 300, 300], TIED), "27,000,000 cells, but the maximum is 5,000,000"),
        (
            AIM(),
            whole([60, 60, 60], TIED),
            "216,000 cells, but the maximum is 131,072",
        ),
        (GEM(), whole([200, 200, 200], BUSY), "leaves more than 20,000 possible"),
    ],
)
def test_what_would_fail_after_it_was_paid_for_is_refused(synthesizer, strata, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        size(synthesizer, strata)
    assert "\n" not in str(caught.value)


def test_what_is_refused_does_fail():
    """If this check is not used, the same error must be raised by MST after the measurements."""
    strata = whole([12, 12, 12], TIED)
    small = MST(engine=MirrorDescent(most_cells=1500))
    with pytest.raises(InputError, match="needs 1,728 cells, but the maximum is 1,500"):
        size(small, strata)
    codes = np.random.default_rng(0).integers(1, 12, (2000, 3)).astype(np.uint8)
    with pytest.raises(InputError, match="the maximum is 1,500"):
        fit(small, CodedTable(codes, strata.schema), Rho(50.0), SeededNoise(0))


def test_a_pair_too_wide_for_any_model_is_left_out_instead():
    """Regression test for an error that was raised because a single tree had to contain all of the columns."""
    strata = whole([40, 40, 2])
    small = MST(engine=MirrorDescent(most_cells=1500))
    assert size(small, strata).fits == 1
    codes = np.random.default_rng(0).integers(0, 40, (2000, 1))
    table = CodedTable(np.hstack([codes, codes, codes % 2]).astype(np.uint8), strata.schema)
    found = fit(small, table, Rho(5000.0), SeededNoise(0)).measurements  # so large that no codes are merged
    assert {m.columns for m in found if len(m.columns) == 2} == {("c0", "c2"), ("c1", "c2")}


def test_structural_zeros_count_where_they_hold():
    """The columns are connected in only one of the strata. The size is the size of this stratum."""
    tied = [Impossible(("c3", "c0", "c1", "c2"), ((1,), (0,), (0,), (0,)))]
    strata = Strata.over(schema([60, 60, 60, 2], tied), ["c3"])
    with pytest.raises(InputError, match="216,000 cells, but the maximum is 131,072"):
        size(AIM(), strata)
    assert size(AIM(), Strata.over(schema([60, 60, 60, 2]), ["c3"])).fits == 2


def test_more_columns_strata_and_values_take_longer():
    def seconds(sizes, name, strata=0, workers=1):
        cut = Strata.over(schema(sizes), [f"c{n}" for n in range(strata)])
        return size(shared_selection(mechanism(name), cut) or mechanism(name), cut).seconds(workers)

    for name in ("mst", "aim", "gem"):
        assert seconds([4] * 30, name) > 1.5 * seconds([4] * 10, name)
        assert seconds([60] + [4] * 9, name, 1) > seconds([6] + [4] * 9, name, 1)
    each = size(mechanism("gem"), Strata.over(schema([60] + [4] * 9), ["c0"]))
    assert each.seconds(workers=4) < 0.3 * each.seconds(workers=1)


@pytest.mark.parametrize("name", ["mst", "aim", "gem"])
@pytest.mark.parametrize("strata", [0, 1])
def test_the_widest_schema_is_judged_in_a_moment(name, strata):
    begun = time.process_time()
    cut = Strata.over(schema([2] * 1000), ["c0"][:strata])
    found = size(shared_selection(mechanism(name), cut) or mechanism(name), cut)
    assert time.process_time() - begun < 8
    assert found.candidates >= 998 * 999 // 2
    if name == "aim":
        assert found.memory > 2**35


def test_many_strata_lean_by_tables_of_their_square():
    many = Strata.over(schema([3000, 3, 3]), ["c0"])
    assert size(MST(), many).together > 8 * 3000**2 * 4
    assert size(MST(), many).borrowing > 60
    more = Strata.over(schema([3001, 3, 3]), ["c0"])  # there is no shrinkage
    assert (size(MST(), more).together, size(MST(), more).borrowing) == (0, 0)
    assert size(MST(), many, shrinkage=False).together == size(MST(), many, shrinkage=False).borrowing == 0
