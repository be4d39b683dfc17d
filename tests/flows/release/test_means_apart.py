"""Tests of the means of synthetic rows, which are compared with the private means of the same release."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from equistrata.analysis.contents.known_means import known_means
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.flows.release.card.means_apart import FEWEST_ROWS, means_apart, means_apart_notes

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "SEX": {"values": [1, 2]},
            "PAY": {"lower": 0, "upper": 100, "codes": {-9: "refused"}, "missing": "own"},
            "AGE": {"lower": 0, "upper": 90, "edges": [0, 45, 90], "release": "index"},
        }
    },
    "people",
)


@pytest.fixture
def made(tmp_path):
    """Return a function that returns a table with 1,000 rows.

    The pay is 20 or 40, and some cells are refused or absent. The number of rows with pay 40 is given.
    """

    def make(second=500):
        sex = np.repeat([1, 2], [1000 - second, second])
        pay = np.where(sex == 1, 20.0, 40.0)
        pay[::10], pay[1::10] = -9, np.nan
        frame = pd.DataFrame({"SEX": sex, "PAY": pay, "AGE": 30})
        table = CodedTable.encode(frame, SCHEMA)
        table.decode(np.random.default_rng(0)).to_parquet(tmp_path / "rows.parquet")
        return table, tmp_path / "rows.parquet"

    return make


def interval(lower, upper, **more):
    return {"value": (lower + upper) / 2, "lower": lower, "upper": upper, **more}


def apart(table, rows, **outcomes):
    found = {name: {"strat_coinpress": each} for name, each in outcomes.items()}
    return means_apart(SCHEMA, Strata.over(SCHEMA, ("SEX",)), table, rows, {"outcomes": found})


def test_means_of_numbers_alone_are_compared_over_all_rows_and_by_stratum(made):
    strata = {"SEX=1": interval(19, 21), "SEX=2": interval(19, 21), "SEX=3": interval(0, 1)}
    inside = interval(29, 31, strata=strata)
    found = apart(*made(), PAY=inside, AGE=interval(50, 60), OTHER=interval(0, 1))  # AGE is released as bin indices
    assert [(each["column"], each["stratum"]) for each in found] == [("PAY", "SEX=2")]
    assert found[0]["rows"] == pytest.approx(40.0, abs=0.05)
    (whole,) = apart(*made(), PAY=interval(31, 35, strata={}))
    assert (whole["stratum"], whole["lower"], whole["upper"]) == (None, 31, 35)
    assert whole["rows"] == pytest.approx(30.0, abs=0.05)


def test_small_strata_are_left_out(made):
    few = interval(0, 100, strata={"SEX=2": interval(0, 1)})
    assert len(apart(*made(FEWEST_ROWS * 2), PAY=few)) == 1
    assert apart(*made(FEWEST_ROWS), PAY=few) == []  # a fifth of the rows has no number


def test_a_sentence_for_each_column():
    lines = [{"column": "PAY", "stratum": f"SEX={sex}", "rows": 5.0, "lower": 1.0, "upper": 2.0} for sex in (1, 2)]
    (note,) = means_apart_notes(lines)
    outside = "the mean of the rows is outside the interval of the private mean"
    assert note == f"PAY: in 2 groups, {outside}. Use the means in means.json"
    (note,) = means_apart_notes([*lines[:1], lines[1] | {"stratum": None}])
    whole = "PAY: the mean of the rows is 5, which is outside the interval of the private mean (1 to 2). "
    assert note.startswith(f"{whole}The same is true in 1 group. ")


def test_what_rows_are_raked_to_is_by_strata_where_it_can_be():
    strata = {"SEX=1": interval(1, 2), "SEX=2": interval(3, 4), "SEX=3": interval(0, 1)}
    outcomes = {
        "PAY": {"coinpress": interval(0, 9), "strat_coinpress": interval(1, 3, strata=strata)},
        "AGE": {"coinpress": interval(0, 1)},  # it is released as indices, which have other means
        "SEX": {"coinpress": interval(1, 2)},
    }
    found = known_means(SCHEMA, Strata.over(SCHEMA, ("SEX",)), {"outcomes": outcomes})
    assert [(each.column, each.stratum, each.lower, each.upper) for each in found] == [
        ("PAY", None, 1, 3),
        ("PAY", (1,), 1, 2),
        ("PAY", (2,), 3, 4),
    ]


def test_with_public_weights_a_mean_over_all_rows_is_of_the_strata_by_these_alone():
    strata = {"SEX=1": interval(1, 2, share=0.25), "SEX=2": interval(3, 4, share=0.75)}
    alone, by_strata = {"coinpress": interval(0, 9)}, {"pub_strat_coinpress": interval(1, 3, strata=strata)}
    over = Strata.over(SCHEMA, ("SEX",))
    # The mean uses the shares of the rows
    assert known_means(SCHEMA, over, {"outcomes": {"PAY": alone}}, public=True) == []
    assert len(known_means(SCHEMA, over, {"outcomes": {"PAY": alone}})) == 1
    assert len(known_means(SCHEMA, Strata.over(SCHEMA, ()), {"outcomes": {"PAY": alone}}, public=True)) == 1
    found = known_means(SCHEMA, over, {"outcomes": {"PAY": alone | by_strata}}, public=True)
    assert [each.stratum for each in found] == [None, (1,), (2,)]


def test_an_interval_that_is_all_that_was_declared_moves_no_row():
    """If ε is small, the value may be anywhere in the interval."""
    schema = Schema("s", (SCHEMA["SEX"], replace(SCHEMA["PAY"], mean=(0.0, 80.0))))
    strata = {"SEX=1": interval(0, 80), "SEX=2": interval(0, 79)}
    outcomes = {"PAY": {"strat_coinpress": interval(0, 80, strata=strata)}}
    (only,) = known_means(schema, Strata.over(schema, ("SEX",)), {"outcomes": outcomes})
    assert only.stratum == (2,)


def test_means_by_a_sigma_that_was_seen_to_be_too_small_move_no_row():
    whole = interval(20, 30) | {"sigma": {"declared": 1.0, "rows_far_out": 0.7, "too_small": True}}
    strata = Strata.over(SCHEMA, ("SEX",))
    assert known_means(SCHEMA, strata, {"outcomes": {"PAY": {"strat_coinpress": whole}}}) == []
    whole["sigma"]["too_small"] = False
    assert len(known_means(SCHEMA, strata, {"outcomes": {"PAY": {"strat_coinpress": whole}}})) == 1


def test_means_of_declared_bins_move_no_row():
    """In a wide bin, most of the values are at the lower end, but they are drawn uniformly.

    The rows are still correct.
    """
    wide = replace(SCHEMA["PAY"], edges=(0.0, 5.0, 100.0))
    strata, outcomes = Strata.over(SCHEMA, ("SEX",)), {"PAY": {"coinpress": interval(1, 2)}}
    assert known_means(Schema("s", (SCHEMA["SEX"], wide)), strata, {"outcomes": outcomes}) == []
    assert len(known_means(SCHEMA, strata, {"outcomes": outcomes})) == 1


def test_a_mean_of_those_present_moves_no_rows_in_which_absent_cells_are_zeros():
    outcomes = {"PAY": {"coinpress": interval(30, 31)}}
    for missing, kept in ((0.0, 0), (None, 1), ("own", 1), (-9, 1)):
        schema = Schema("s", (replace(SCHEMA["PAY"], missing=missing),))
        assert len(known_means(schema, Strata.over(schema, ()), {"outcomes": outcomes})) == kept


def test_where_absent_cells_count_as_a_number_nothing_is_compared(made):
    table, rows = made()
    column = replace(SCHEMA["PAY"], missing=0.0, codes=())
    schema = replace(SCHEMA, columns=(SCHEMA["SEX"], column, SCHEMA["AGE"]))
    means = {"outcomes": {"PAY": {"coinpress": interval(90, 95)}}}
    assert means_apart(schema, Strata.over(schema, ("SEX",)), table, rows, means) == []
