"""Tests of the files for Stata and SPSS, which are read back with pandas."""

import re
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from in_process import command

from equistrata.analysis.interchange.exports import export, labelled
from equistrata.analysis.release import Release
from equistrata.data.schema import Schema
from equistrata.errors import InputError

SPSS = pytest.mark.skipif(find_spec("pyreadstat") is None, reason="pyreadstat is not installed")
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
    """A minimal release with a schema and rows."""

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
    assert values["PAY_code"] == {0: "a number", 1: "not applicable"}
    assert plain["BORN"].dt.strftime("%Y-%m-%d").tolist() == ROWS["BORN"].tolist()
    assert plain["a_column_with_a_name_that_is_muc"].tolist() == [1.5, 2, 3, 4]
    assert plain["v_2019"].tolist() == [1, 2, 1, 1]
    assert (labels["SEX"], labels["PAY"], labels["v_2019"]) == ("Sex", "Pay a month", "2019")
    assert all(len(label) <= 80 for label in labels.values())


def of(columns, rows):
    """Return a release with the given columns and rows."""
    made = Rows(Schema.from_dict({"columns": columns}, "s"))
    made.rows = lambda labels: pd.DataFrame(rows)
    return made


def stata(release, file):
    """Return the values of a Stata file, the labels of the columns and the labels of the values."""
    export(release, file)
    with pd.read_stata(file, iterator=True) as reader:
        labels, values = reader.variable_labels(), reader.value_labels()
    return pd.read_stata(file, convert_categoricals=False), labels, values


def test_codes_that_are_numbers_are_no_numbers_of_a_column(tmp_path):
    """A code such as -9 must not be included in a mean of the exported column."""
    pay = {"lower": 0, "upper": 9000, "codes": {-9: "refused", -8: "not asked"}, "missing": "own", "label": "Pay"}
    seen = {"lower": 0, "upper": 9000, "integer": True, "codes": {-0.5: "half"}, "edges": [0, 10, 9000]}
    born = {"type": "date", "lower": "1950-01-01", "upper": "2020-12-31", "codes": {"U": "unknown"}}
    rows = {
        "PAY": [-9.0, 120.5, np.nan, -8],
        "SEEN": [3, -0.5, 9000, 7],
        "BORN": ["U", "1950-01-01", "2020-12-31", "1999-09-09"],
        "AGE": pd.array([1, -1, None, 0], dtype="Int64"),
    }
    age = {"lower": 0, "upper": 99, "edges": [0, 17, 99], "release": "index", "codes": {-1: "no"}, "missing": "own"}
    release = of({"PAY": pay, "SEEN": seen, "BORN": born, "AGE": age}, rows)
    plain, labels, values = stata(release, tmp_path / "x.dta")
    np.testing.assert_array_equal(plain["PAY"], [np.nan, 120.5, np.nan, np.nan])
    np.testing.assert_array_equal(plain["PAY_code"], [-9, 0, np.nan, -8])
    assert values["PAY_code"] == {0: "a number", -9: "refused", -8: "not asked"}
    np.testing.assert_array_equal(plain["SEEN"], [3, np.nan, 9000, 7])
    assert (plain["SEEN_code"].tolist(), values["SEEN_code"]) == ([0, 1, 0, 0], {0: "a number", 1: "half"})
    assert plain["BORN"].isna().tolist() == [True, False, False, False]
    assert (plain["BORN_code"].tolist(), values["BORN_code"]) == ([1, 0, 0, 0], {0: "a date", 1: "unknown"})
    np.testing.assert_array_equal(plain["AGE"], [1, np.nan, np.nan, 0])
    np.testing.assert_array_equal(plain["AGE_code"], [0, -1, np.nan, 0])
    assert values["AGE"] == {0: "0 to 17", 1: "over 17 to 99"}
    assert labels["PAY_code"] == "Pay: code"


@pytest.mark.parametrize("ending", [".dta", pytest.param(".sav", marks=SPSS)])
def test_names_that_packages_keep_for_themselves(tmp_path, ending):
    """pandas renames a column with a reserved name and loses its label."""
    from pandas.io.stata import StataWriter

    kept = StataWriter(tmp_path / "y.dta", pd.DataFrame({"a": [1]})).RESERVED_WORDS
    names = [*sorted({name.lower() for name in kept} - {"str#"}), "TO", "eq", "lower", "str7"]
    release = of(
        {name: {"values": ["a", "b"], "label": f"of {name}"} for name in names}, {name: ["a"] for name in names}
    )
    export(release, tmp_path / f"x{ending}")
    if ending == ".sav":
        import pyreadstat

        labels = pyreadstat.read_sav(str(tmp_path / "x.sav"))[1].column_names_to_labels
    else:
        with pd.read_stata(tmp_path / "x.dta", iterator=True) as reader:
            labels = reader.variable_labels()
    assert set(labels.values()) == {f"of {name}" for name in names}
    assert {name for name, label in labels.items() if name == label.removeprefix("of ")} == {"lower"}


def test_values_that_are_missing_ones_to_stata_are_numbered(tmp_path):
    rows = {"A": [2_147_483_640, 5], "B": [2_147_483_620, 5]}
    plain, _, values = stata(of({name: {"values": cells} for name, cells in rows.items()}, rows), tmp_path / "x.dta")
    assert (plain["A"].tolist(), values["A"]) == ([1, 2], {1: "2147483640", 2: "5"})
    assert plain["B"].tolist() == rows["B"]


@pytest.mark.parametrize("ending", [".dta", pytest.param(".sav", marks=SPSS)])
def test_a_file_that_cannot_be_written_is_a_sentence_and_leaves_nothing(tmp_path, ending):
    (tmp_path / f".x{ending}.part").mkdir()  # the file cannot be written, not even by root
    with pytest.raises(InputError, match=rf"x{ending}' cannot be written .*; check the folder"):
        export(Rows(), tmp_path / f"x{ending}")
    assert not (tmp_path / f"x{ending}").exists()


@SPSS
def test_spss(tmp_path):
    import pyreadstat

    export(Rows(), tmp_path / "x.sav")
    rows, meta = pyreadstat.read_sav(str(tmp_path / "x.sav"))
    assert rows["SEX"].tolist() == [1, 2, 2, 1]
    assert meta.variable_value_labels["SEX"] == {1.0: "men", 2.0: "women"}
    assert [str(day) for day in rows["BORN"]] == ROWS["BORN"].tolist()
    assert meta.column_names_to_labels["PAY"] == "Pay a month"
    assert meta.variable_measure["SEX"] == meta.variable_measure["PAY_code"] == "nominal"
    assert meta.variable_measure["PAY"] == meta.variable_measure["BORN"] == "scale"


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
    ("name", "match"), [("x.xlsx", r"exported to .dta .Stata., .sav .SPSS., .xml .DDI"), ("no/x.dta", "has no folder")]
)
def test_what_cannot_be_written(folder, tmp_path, monkeypatch, capsys, name, match):
    assert re.search(match, command(monkeypatch, capsys, "export", str(folder), str(tmp_path / name))[2])
    assert list(tmp_path.iterdir()) == []
