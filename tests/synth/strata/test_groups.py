"""Priors of a column by a stratum column, where nothing was measured within strata."""

import numpy as np
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.synth.measurements import Measurement, Prediction
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.strata.cutting import cut
from equistrata.synth.strata.groups import priors

SCHEMA = Schema("s", tuple(Column(n, values=tuple(range(k))) for n, k in {"S": 2, "R": 6, "A": 3, "B": 2}.items()))
STRATA = Strata.over(SCHEMA, ("S", "R"))
ROWS = np.array([5000.0, 1500, 60, 40, 20, 10])
SHARES = np.array([0.6, 0.3, 0.1])
NOISE = 90.0


def measured(rng, shares=SHARES):
    """R with A, the columns, and sizes, with noise; nothing within strata."""
    pair = ROWS[:, None] * shares

    def noisy(columns, table, sigma):
        return Measurement(columns, table + rng.normal(0, sigma, table.shape), sigma)

    return [
        noisy(("R", "A"), pair, NOISE),
        noisy(("A",), pair.sum(0), NOISE),
        noisy(("R",), ROWS, NOISE / 3),
        noisy(("S", "R"), np.outer([0.5, 0.5], ROWS), NOISE / 3),
        noisy(("B",), np.array([3000.0, 3630.0]), NOISE),
    ]


def shares_of(strata, models, name, code):
    tables = [models[key].marginal((name,)) for key in strata.keys if key[1] == code]
    table = np.sum(tables, axis=0)
    return table / table.sum()


def test_small_values_of_a_stratum_column_are_not_noise():
    """Forty draws, four races of at most sixty rows with noise of 90 a cell: off by .05 of their shares with the prior,
    by .5 without; by strata of thousands, the same with and without."""
    off = {shrunk: {"small": [], "large": []} for shrunk in (True, False)}
    for seed in range(40):
        told = measured(np.random.default_rng(seed))
        for shrunk in off:
            models, _ = cut(STRATA, told, MirrorDescent(), shrunk)
            for code in range(6):
                apart = np.abs(shares_of(STRATA, models, "A", code) - SHARES).sum() / 2
                off[shrunk]["small" if ROWS[code] < 100 else "large"].append(apart)
    assert np.mean(off[True]["small"]) < 0.1 < 0.3 < np.mean(off[False]["small"])
    assert np.mean(off[True]["large"]) == pytest.approx(np.mean(off[False]["large"]), rel=0.1)


def test_groups_that_can_be_read_speak_for_themselves():
    """Races of thousands have no prior; of small ones it is as wide as the large ones differ."""
    rng, rows = np.random.default_rng(1), ROWS
    same, apart = measured(rng), measured(rng, np.array([SHARES, [0.1, 0.3, 0.6], *[SHARES] * 4]))
    widths = []
    for told in (same, apart):
        (found,) = priors(STRATA, told, lambda names: rows if names == ("R",) else None, 1.0)
        assert found.columns == ("R", "A")
        assert np.isinf(found.sigmas[:2]).all()
        assert np.isfinite(found.sigmas[2:]).all()
        np.testing.assert_allclose(found.values.sum(1), rows)
        widths.append(found.sigmas[2, 0])
    assert widths[1] > 2 * widths[0]


def test_there_is_none_where_strata_were_measured_or_nothing_is_shrunk():
    told = measured(np.random.default_rng(2))
    assert [len(found) for found in predicted(told, True) if found] == [1]  # in the model itself; sizes have none
    assert not any(predicted(told, False))
    within = Measurement(("S", "R", "B"), np.full((2, 6, 2), 280.0), NOISE)
    assert not any(each.columns == ("R", "A") for found in predicted([*told, within], True) for each in found)


def predicted(told, shrinkage):
    """The predictions that each fit was given."""
    seen = []

    class Watched(MirrorDescent):
        def estimate(self, schema, measurements, warm_start=None, strata=()):
            seen.append([each for each in measurements if isinstance(each, Prediction)])
            return super().estimate(schema, measurements, warm_start, strata)

    cut(STRATA, told, Watched(), shrinkage)
    return seen
