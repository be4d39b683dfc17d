"""Rows for statistical packages: what a reader of Stata or SPSS files finds in them."""

import re
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from in_process import command

from equistrata.analysis.exports import export, labelled
from equistrata.analysis.release import Release
from equistrata.data.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "SEX": {"values": [1, 2], "labels": {1: "men", 2: "women"}, "label": "Sex"},
            "if": {"values": ["yes", "no"]},
            "PAY": {"lower": 0, "upper": 9000, "codes": {"N": "not applicable"}, "label": "Pay a month"},
            "BORN": {"type": "date", "lower": "1950-01-01", "upper": "2020-12-31"},
            "a column with a name that is much too long for Stata": {"lower": 0, "upper": 10},
            "2019": {"values": ["x", "y"]},
        }
    },
    "mixed",
)
ROWS = pd.DataFrame(
    {
        "SEX": [1, 2, 2, 1],
        "if": ["no", "yes", "yes", "no"],
        "PAY": ["1200.5", "N", "0", "8000"],
        "BORN": ["1950-01-01", "2001-02-03", "2020-12-31", "1999-09-09"],
        "a column with a name that is much too long for Stata": [1.5, 2, 3, 4],
        "2019": ["x", "y", "x", "x"],
    }
)


@dataclass
class Rows:
    """What is asked of a release."""

    schema: Schema = SCHEMA

    def rows(self, labels=True):
        assert not labels
        return ROWS


def test_numbers_words_and_dates(tmp_path):
    file = tmp_path / "x.dta"
    export(Rows(), file)
    with pd.read_stata(file, iterator=True) as reader:
        labels, values = reader.variable_labels(), reader.value_labels()
    plain = pd.read_stata(file, convert_categoricals=False)
    assert plain["SEX"].tolist() == [1, 2, 2, 1]
    assert values["SEX"] == {1: "men", 2: "women"}
    assert plain["v_if"].tolist() == [2, 1, 1, 2]
    assert values["v_if"] == {1: "yes", 2: "no"}
    np.testing.assert_array_equal(plain["PAY"], [1200.5, np.nan, 0, 8000])
    assert plain["PAY_code"].tolist() == [0, 1, 0, 0]
    assert values["PAY_code"] == {0: "a number", 1: "N"}
    assert plain["BORN"].dt.strftime("%Y-%m-%d").tolist() == ROWS["BORN"].tolist()
    assert plain["a_column_with_a_name_that_is_muc"].tolist() == [1.5, 2, 3, 4]
    assert plain["v_2019"].tolist() == [1, 2, 1, 1]
    assert (labels["SEX"], labels["PAY"], labels["v_2019"]) == ("Sex", "Pay a month", "2019")
    assert all(len(label) <= 80 for label in labels.values())


@pytest.mark.skipif(find_spec("pyreadstat") is None, reason="pyreadstat is not installed")
def test_spss(tmp_path):
    import pyreadstat

    export(Rows(), tmp_path / "x.sav")
    rows, meta = pyreadstat.read_sav(str(tmp_path / "x.sav"))
    assert rows["SEX"].tolist() == [1, 2, 2, 1]
    assert meta.variable_value_labels["SEX"] == {1.0: "men", 2.0: "women"}
    assert [str(day) for day in rows["BORN"]] == ROWS["BORN"].tolist()
    assert meta.column_names_to_labels["PAY"] == "Pay a month"


def test_no_two_names_are_alike():
    names = ["a b", "a_b", "A B", "x" * 40, "x" * 41]
    rows = Rows(Schema.from_dict({"columns": {name: {"lower": 0, "upper": 1} for name in names}}, "s"))
    rows.rows = lambda labels: pd.DataFrame({name: [1.0] for name in names})
    assert list(labelled(rows).rows) == ["a_b", "a_b_2", "A_B_3", "x" * 32, f"{'x' * 30}_2"]


def test_the_command_writes_what_the_folder_has(folder, tmp_path, monkeypatch, capsys):
    assert "exported" in command(monkeypatch, capsys, "export", str(folder), str(tmp_path / "x.dta"))[1]
    rows = pd.read_stata(tmp_path / "x.dta")
    real = Release.open(folder).rows()
    assert rows["SEX"].astype(str).tolist() == real["SEX"].astype(str).tolist()
    assert rows["MAR"].astype(str).tolist() == real["MAR"].astype(str).tolist()


@pytest.mark.parametrize(
    ("name", "match"), [("x.xlsx", r"exported to .dta .Stata., .sav .SPSS., not to"), ("no/x.dta", "has no folder")]
)
def test_what_cannot_be_written(folder, tmp_path, monkeypatch, capsys, name, match):
    assert re.search(match, command(monkeypatch, capsys, "export", str(folder), str(tmp_path / name))[2])
    assert list(tmp_path.iterdir()) == []
