"""Tests of the plan of a release, which is checked before any row is read."""

import json

import pytest

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.privacy.budget import Rho


def plan(tmp_path, **settings):
    return Plan.of(ReleaseConfig.build(output=str(tmp_path / "out"), **settings))


def test_the_parts_of_the_price_add_up_exactly(tmp_path):
    p = plan(tmp_path, strata="SEX,RAC1P", means="SCHL,WKHP", epsilon=0.7, means_share=0.3, count_share=0.1)
    assert p.price.counts + p.price.means + p.price.synthesis == p.price.total == Rho.from_epsilon_delta(0.7, 1e-9)
    assert float(p.price.means) == pytest.approx(0.3 * float(p.price.total))


@pytest.mark.parametrize("settings", [{}, {"strata": "SEX,RAC1P", "weights": "data/public/ny2018_sex_rac1p.csv"}])
def test_counts_are_free_where_none_are_taken(tmp_path, settings):
    p = plan(tmp_path, **settings)
    assert p.price.counts == Rho(0)
    assert p.price.synthesis == p.price.total


def test_combined_weights_cost_what_noisy_counts_cost(tmp_path):
    strata = {"strata": "SEX,RAC1P", "count_share": 0.07}
    file = {"weights": "data/public/ny2018_sex_rac1p.csv"}
    noisy, both = plan(tmp_path, **strata), plan(tmp_path, **strata, **file, combine_weights=True)
    assert both.price == noisy.price
    assert both.price.counts == both.price.total * 0.07
    assert both.parts == noisy.parts
    assert both.fixed_weights is None
    alone = plan(tmp_path, **strata, **file)
    assert alone.fixed_weights == alone.weights == both.weights


def test_names_are_the_papers(tmp_path):
    assert plan(tmp_path).name == "MST_vanilla"
    assert plan(tmp_path, strata="SEX,RAC1P").name == "MST_SEX_RAC1P"


def test_nativity_may_stand_in_for_esp(tmp_path):
    columns = "AGEP,SCHL,MAR,DIS,NATIVITY,MIL,DREM,SEX,RAC1P,ESR"
    assert ",".join(plan(tmp_path, columns=columns).schema.names) == columns


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"columns": "AGEP,NOPE"}, "unknown column 'NOPE'"),
        ({"strata": "NATIVITY"}, "not among the released columns"),
        ({"strata": "SEX,SEX"}, "twice"),
        ({"source": "csv", "input": "x.csv"}, "needs a schema"),
        ({"source": "csv", "schema": "acs_employment"}, "--input"),
        ({"source": "folktables"}, "--state"),
        ({"schema": "acs_means", "columns": "SEX,AGEP,PINCP", "strata": "PINCP"}, "has no bins"),
        ({"means": "MAR"}, "unknown column 'MAR'"),
        ({"means": "SEX"}, "'sigma'"),
        ({"means": "SEX,MAR,AGEP"}, r"'SEX', 'MAR'.*\('SEX' contains values; unknown column 'MAR'"),
        ({"weights": "nowhere.csv", "strata": "SEX"}, "does not exist"),
        ({"weights": "data/public/ny2018_sex_rac1p.csv"}, "no strata"),
        ({"weights": "data/public/ny2018_sex_rac1p.csv", "combine_weights": True}, "no strata"),
        ({"strata": "SEX", "combine_weights": True}, "give the file of public weights with --weights"),
        ({"combine_weights": True}, "give the file of public weights with --weights"),
        ({"strata": "SEX", "means": "SCHL", "means_share": 0.6, "count_share": 0.4}, "leave nothing"),
    ],
)
def test_what_is_wrong_is_said_before_any_row_is_read(tmp_path, settings, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        plan(tmp_path, **settings)
    assert "\n" not in str(caught.value)


def test_an_output_folder_that_exists_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="exists already"):
        plan(tmp_path)


@pytest.mark.parametrize(
    "columns", [{"A\0": {"values": ["a", "b"]}}, {"A": {"values": ["a", "b\0"]}}], ids=["name", "value"]
)
def test_a_zero_byte_is_refused_before_anything_is_charged(tmp_path, columns):
    """The release used to be charged, and then no program was able to read its CSV file."""
    (tmp_path / "s.yaml").write_text(json.dumps({"columns": columns | {"B": {"values": [0, 1]}}}))
    with pytest.raises(InputError, match="contains a zero byte, which CSV files cannot contain"):
        plan(tmp_path, source="csv", input=str(tmp_path / "t.csv"), schema=str(tmp_path / "s.yaml"))
