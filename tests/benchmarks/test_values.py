"""The benchmark of released values: its errors by hand, its declarations, and parts that do not change."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.values import AREAS, NUMBERS, declared, errors, noise_of, part_of


def test_declarations_have_as_many_bins_as_they_say():
    for bins in (10, 50, 100):
        schema = declared(bins)
        assert [schema[name].bins for name in ("AGEP", "PINCP")] == [min(bins, 100), bins]
    assert all(declared(0)[name].fine for name in NUMBERS)


def test_errors_by_hand():
    real = pd.DataFrame({"SEX": 1, "RAC1P": [1] * 600 + [2] * 100, "WKHP": [40.0] * 650 + [np.nan] * 50})
    released = real.assign(WKHP=[44.0] * 700)
    found = errors(real, released, "WKHP")
    assert (found["w"], found["q"], found["worst_w"], found["worst_q"]) == pytest.approx((4, 4, 4, 4))
    assert (found["atom"], found["drawn"]) == (1, 0)


def test_parts_are_the_same_each_time_and_of_whole_areas():
    people = pd.DataFrame({"PUMA": np.repeat(np.arange(100), 700)})
    part = part_of(people, "part30")
    assert part.equals(part_of(people, "part30"))
    assert 25_000 < len(part) <= 30_000
    assert (part["PUMA"].value_counts() == 700).all()
    assert part_of(people, "VT") is people
    codes = pd.DataFrame({"PUMA": [701, 4401, 4402, 4301]})
    assert part_of(codes, "queens")["PUMA"].tolist() == [4401, 4402]
    assert sum(len(part_of(codes, area)) for area in AREAS) == len(codes)


def test_no_two_releases_share_their_noise():
    seeds = {noise_of(state, bins, seed) for state in ("VT", *AREAS) for bins in (0, 10, 100) for seed in range(20)}
    assert len(seeds) == 7 * 3 * 20


def test_a_draw_of_a_population_is_the_same_again_and_has_whole_rows():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"PUMA": np.repeat(np.arange(100), 1_000), "PINCP": rng.permutation(100_000)})
    for name, rows in (("draw7000", 8_000), ("draw7001", 25_000), ("draw7002", 60_000)):
        drawn = part_of(people, name)
        assert len(drawn) == rows
        assert drawn.equals(part_of(people, name))
        assert drawn.index.is_unique
        assert (people.loc[drawn.index, "PINCP"] == drawn["PINCP"]).all()
    assert not part_of(people, "draw7003").index.isin(part_of(people, "draw7000").index).all()


def test_the_share_of_round_thousands_is_among_large_incomes():
    real = pd.DataFrame({"SEX": 1, "RAC1P": 1, "PINCP": [0, 500, 12_000, -15_000, 12_345, 30_000] * 200})
    released = real.assign(PINCP=[0, 1_000, 12_001, 13_000, 12_345, 30_500] * 200)
    found = errors(real, released, "PINCP")
    assert (found["round"], found["drawn_round"]) == (0.75, 0.25)
