"""The misfit that measured pairs tell: of one release, and what two have in common."""

import numpy as np
import pytest

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.learned import (
    FEWEST,
    Dropped,
    dropped_pairs,
    learned_misfit,
    misfit_in_common,
)
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism


def test_what_sets_of_three_columns_say_of_the_misfit_is_of_their_pairs():
    """Nine columns that are alike through one that is not there, in a chain of sets of three. By their cells, each of
    six rows, s was .0027, half of what a pair of them is off by."""
    rng, names = np.random.default_rng(0), "ABCDEFGHI"
    schema = Schema("alike", tuple(Column(name, values=tuple(range(8))) for name in names))
    kind = rng.integers(0, 8, 3000)
    drawn = [np.where(rng.random(3000) < 0.35, kind, rng.integers(0, 8, 3000)) for _ in names]
    table = CodedTable(np.column_stack(drawn).astype(np.uint8), schema)
    counts = {each: table.marginal(each) for each in map(tuple, [*names, "ABC", "DEF", "GHI", "ADG"])}
    found = [Measurement(each, of + rng.normal(0, 2.0, of.shape), 2.0) for each, of in counts.items()]
    evidence = Evidence.of(Strata.over(schema, []), {(): found}, mechanism("mst"))
    pair = table.marginal(("B", "F"))
    off = pair - pair.sum(1, keepdims=True) * pair.sum(0) / 3000
    assert learned_misfit(dropped_pairs(evidence)) == pytest.approx(np.sqrt((off**2).mean()) / 3000, rel=0.3)


def off_alike(common, pairs, rng, noise=20.0):
    """Two releases' dropped pairs: models are off by 50 rows a cell, of which `common` is the correlation."""
    found = [], []
    for pair in range(pairs):
        both = rng.normal(0, 50.0, (4, 5))
        for releases in found:
            off = common**0.5 * both + (1 - common) ** 0.5 * rng.normal(0, 50.0, (4, 5))
            table = np.full((4, 5), 400.0)
            part = Measurement((f"A{pair}", "B"), table + off + rng.normal(0, noise, (4, 5)), noise)
            releases.append(Dropped(part, table, pair / pairs))
    return found


@pytest.mark.parametrize(
    "common", [pytest.param(0.0, marks=pytest.mark.slow), 0.4, pytest.param(0.8, marks=pytest.mark.slow)]
)
def test_as_much_is_in_common_as_there_is(common):
    """60 draws, their mean has a standard error of .009. Of 400 cells none are known to share nothing, so an even prior
    has .07 then. By plain correlations .8 would be .69, for the noise; a bound with 95 % confidence had .72."""
    rng = np.random.default_rng(3)
    found = np.array([misfit_in_common(*off_alike(common, 20, rng)) for _ in range(60)])
    assert found.mean() == pytest.approx(common or 0.07, abs=0.03)


def test_the_less_is_known_the_nearer_to_half_is_in_common():
    """Noise of ten times the misfit says nothing, and an even prior has a mean of ½."""
    rng = np.random.default_rng(5)
    for common in (0.0, 0.95):
        found = [misfit_in_common(*off_alike(common, 4, rng, noise=500.0)) for _ in range(40)]
        assert np.mean(found) == pytest.approx(0.5, abs=0.1)


def test_all_is_in_common_where_models_are_off_by_the_same():
    rng = np.random.default_rng(4)
    one, other = off_alike(1.0, 12, rng, noise=1.0)
    assert misfit_in_common(one, other) > 0.99
    assert misfit_in_common(one[: FEWEST - 1], other) == 0
    assert misfit_in_common(one, []) == 0
