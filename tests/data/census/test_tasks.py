"""Tests of the census data: schemas from the Census Bureau's dictionaries, the tasks of folktables, and PUMAs within
states.
"""

import csv
from dataclasses import replace

import folktables
import numpy as np
import pandas as pd
import pytest

from equistrata.data.census.make import SCHEMAS, made
from equistrata.data.census.tasks import TASKS, census_schema
from equistrata.data.schema import Schema
from equistrata.data.sources import FolktablesSource
from equistrata.data.table import CodedTable
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.inputs import schema_of, source_of

YEARS = [2017, 2018, 2019]
# A child, a person with wages, a person without wages, and an unemployed person with a loss.
PEOPLE = pd.DataFrame({
    "PUMA": ["00100", "00100", "00300", "00400"], "ST": "50", "PWGTP": [10, 20, 30, 40], "AGEP": [9, 45, 17, 70],
    "PINCP": [np.nan, 52000, 101, -500], "WKHP": [np.nan, 40, 1, np.nan], "WAGP": [np.nan, 52000, 0, 0],
    "ESR": [np.nan, 1, 1, 6], "SEX": [1, 2, 1, 2], "RAC1P": [1, 2, 9, 6], "MAR": [5, 1, 5, 2],
    "RELP": ["02", "00", "02", "00"], "SCHL": ["05", "21", "14", "16"], "COW": [np.nan, 1, 2, np.nan],
    "OCCP": [np.nan, "0010", "4055", np.nan], "POBP": ["050", "036", "303", "050"],
})  # fmt: skip


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "2018" / "1-Year"
    folder.mkdir(parents=True)
    PEOPLE.to_csv(folder / "psam_p50.csv", index=False, float_format="%.0f")
    return str(tmp_path)


def test_the_script_makes_the_schemas_from_the_bureaus_dictionaries(repo_root):
    folder = repo_root.parent / "shared" / "acs_dictionaries"
    if not folder.is_dir():
        pytest.skip("the Bureau's dictionaries are not in ../shared/acs_dictionaries")
    assert made(folder) == {f"acs_{year}": (SCHEMAS / f"acs_{year}.yaml").read_text("utf-8") for year in YEARS}


@pytest.mark.parametrize("year", YEARS)
def test_zero_is_a_number_and_blanks_and_codes_keep_their_meaning(year):
    schema = Schema.load(f"acs_{year}")
    assert len(schema.columns) >= 70
    assert schema["WAGP"].bounds == (0, 999999)
    assert schema["WAGP"].missing == "own"
    assert "less than 15 years old" in schema["WAGP"].label
    assert schema["PINCP"].bounds == (-19998, 4209995)
    assert schema["AGEP"].bounds == (0, 99)
    assert schema["SCHL"].words("00") == "N/A (less than 3 years old)"
    assert schema["SCHL"].words("21") == "Bachelor's degree"
    assert ("RELSHIPP" in schema.names, "JWTRNS" in schema.names) == (year == 2019, year == 2019)
    cells = pd.DataFrame({"SCHL": ["09", "9", None], "MIG": ["1", "1.0", None]})
    found = CodedTable.encode(cells, Schema.load(f"acs_{year}").select(["SCHL", "MIG"])).codes
    assert found.tolist() == [[9, 1], [9, 1], [0, 0]]


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_those_of_folktables(name):
    task, theirs = TASKS[name], getattr(folktables, name)
    assert (list(task.features), task.target) == (theirs.features, theirs.target)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({
        "AGEP": rng.integers(0, 99, 2000), "PINCP": rng.choice([np.nan, -5, 100, 101, 30000, 30001, 9e4], 2000),
        "WKHP": rng.choice([np.nan, 1, 40], 2000), "PWGTP": rng.integers(0, 3, 2000), "ESR": rng.choice([1, 6], 2000),
    })  # fmt: skip
    kept = rows
    for condition in task.rows:
        kept = kept[condition.holds(kept[condition.column])]
    assert len(kept) < len(rows) or not task.rows
    assert kept.index.tolist() == theirs._preprocess(rows.copy()).index.tolist()

    schema = census_schema(2018, "1-Year", ["VT"], name)
    target = schema[schema.target]
    cells = [*target.values] or [*range(int(target.lower), 60_000 if target.upper > 60_000 else 201)]
    codes = CodedTable.encode(pd.DataFrame({target.name: cells}), schema.select([target.name])).codes[:, 0]
    assert np.isin(codes, target.codes_of(target.positive)).tolist() == [*map(theirs.target_transform, cells)]


def test_a_release_of_a_task_has_its_rows_and_no_value_that_they_cannot_have(root):
    config = ReleaseConfig.build(task="ACSIncome", state="VT", year=2018, root_dir=root, strata="SEX,RAC1P")
    schema = schema_of(config).selected()
    source = source_of(config, [schema])
    assert CodedTable.encode(source.read(schema.names), schema).codes.shape == (2, 11)
    assert source.describe().endswith("task ACSIncome, rows with AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1")
    assert (schema["AGEP"].bounds, schema["PINCP"].bounds, schema["WKHP"].bounds) == ((17, 99), (101, 4209995), (1, 99))
    assert {schema[name].missing for name in ("PINCP", "WKHP", "SCHL")} == {None}


def test_people_whom_a_task_leaves_out_are_no_rows_at_all(root):
    with pytest.raises(InputError, match="no such rows"):
        FolktablesSource(("VT",), root_dir=root, task="ACSMobility").read(["AGEP"])
    young = census_schema(2018, "1-Year", ["VT"], "ACSPublicCoverage")
    assert (young["AGEP"].bounds, young["PINCP"].bounds) == ((15, 64), (-19998, 30000))
    assert census_schema(2018, "1-Year", ["VT"], "ACSTravelTime")["ESR"].values == (1,)


def test_columns_of_the_common_set_need_no_schema(root):
    config = ReleaseConfig.build(state="VT", columns="AGEP,WAGP,PUMA,ST", root_dir=root)
    schema = schema_of(config).select(config.columns)
    table = CodedTable.encode(source_of(config, [schema]).read(schema.names), schema)
    assert table.decode(np.random.default_rng(0))["PUMA"].tolist() == PEOPLE.PUMA.tolist()
    assert schema["ST"].values == ("50",)


@pytest.mark.parametrize(("year", "puma"), [(2018, "03701"), (2024, "04503")])
def test_pumas_are_those_of_the_state_and_of_the_years_census(year, puma):
    one, two = (census_schema(year, "1-Year", states, columns=["PUMA"]) for states in (["NY"], ["NY", "VT"]))
    assert puma in one["PUMA"].values
    assert ("50", "00400") in two["PUMA"].parts
    assert len(two["PUMA"].values) == len(one["PUMA"].values) + 4
    assert ("ST" in two.names, two["PUMA"].within) == (False, ("ST",))


@pytest.mark.parametrize(("year", "survey", "state"), [(2015, "5-Year", "NY"), (2022, "5-Year", "NY")])
def test_without_a_public_list_pumas_are_asked_for(year, survey, state):
    with pytest.raises(InputError, match=f"no public list of the PUMAs of {state}"):
        census_schema(year, survey, [state], "ACSTravelTime")
    assert "PUMA" not in census_schema(year, survey, [state], "ACSTravelTime", ["AGEP"]).names


@pytest.mark.parametrize(("year", "many"), [(2021, 2351 - 5 + 27), (2022, 2462 - 6 + 24)])
def test_every_puma_of_a_census_is_there(year, many):
    """The expected numbers are those of the Census Bureau for the states and Puerto Rico. The files of folktables do
    not contain DC.
    """
    from folktables.load_acs import state_list

    assert len(census_schema(year, "1-Year", state_list, columns=["PUMA"])["PUMA"].values) == many


def test_the_state_may_be_called_as_in_files_of_2023(root, tmp_path):
    folder = tmp_path / "2023" / "1-Year"
    folder.mkdir(parents=True)
    later = PEOPLE.rename(columns={"ST": "STATE"}).assign(JWMNP=[np.nan, 200, 888, 1])
    later.to_csv(folder / "psam_p50.csv", index=False, float_format="%.0f")
    config = ReleaseConfig.build(state="VT", year=2023, columns="ST,AGEP,JWMNP", root_dir=root)
    schema = schema_of(config).select(config.columns)
    table = CodedTable.encode(source_of(config, [schema]).read(schema.names), schema)
    released = table.decode(np.random.default_rng(0))
    assert released.ST.tolist() == ["50"] * 4
    assert [schema["JWMNP"].words(code) for code in table.column("JWMNP")] == [
        "missing", "200", "Suppressed for data year 2023 for select PUMAs", "1",
    ]  # fmt: skip
    assert census_schema(2024, "1-Year", ["VT"])["JWMNP"].codes == ()


@pytest.mark.parametrize("span", ["2017", "2018", "2019", "2013-2017", "2014-2018", "2015-2019", "2016-2020"])
def test_every_code_and_bound_of_a_dictionary_is_one_of_the_schemas(repo_root, tmp_path, span):
    path = repo_root.parent / "shared" / "acs_dictionaries" / f"PUMS_Data_Dictionary_{span}.csv"
    if not path.is_file():
        pytest.skip("the Bureau's dictionaries are not in ../shared/acs_dictionaries")
    year = int(span[-4:])
    schema = Schema.load(f"acs_{min(max(year, 2017), 2019)}")
    cells: dict[str, list[str]] = {}
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for kind, name, _, _, *ends in csv.reader(file):
            if kind == "VAL" and name in schema.names and not schema[name].open:
                cells.setdefault(name, []).extend("" if end.startswith("b") else end for end in ends[:2])
    assert len(cells) >= 70
    folder = tmp_path / str(year) / "1-Year"
    folder.mkdir(parents=True)
    rows = pd.DataFrame({name: [*each, *each[:1] * (1500 - len(each))] for name, each in cells.items()})
    rows.to_csv(folder / "psam_p50.csv", index=False)
    part = replace(schema.select([*cells]), impossible=())
    source = FolktablesSource(("VT",), year, root_dir=str(tmp_path), declared=part.columns)
    table = CodedTable.encode(source.read(part.names), part)
    for column in part.columns:
        codes, raw = table.column(column.name), rows[column.name]
        blank = raw == ""
        if column.numeric:
            numbers, cuts = pd.to_numeric(raw[~blank]).to_numpy(), np.array(column.cuts)
            held = codes[~blank]
            assert ((numbers <= cuts[held + 1]) & ((numbers > cuts[held]) | (held == 0))).all()
            assert (codes[blank] == column.bins).all()
        else:
            values = [str(column.values[code]) for code in codes]
            wanted = raw.where(~blank, str(column.missing))
            assert [value.zfill(9) for value in values] == [cell.zfill(9) for cell in wanted]


def test_settings_that_contradict_a_task_are_refused():
    with pytest.raises(InputError, match="already declares its columns"):
        ReleaseConfig.build(task="ACSIncome", state="VT", schema="acs_2018")
    with pytest.raises(InputError, match="has no tasks"):
        ReleaseConfig.build(task="ACSIncome", source="sample")


@pytest.mark.parametrize(("year", "name"), [(2018, "acs_2018"), (2024, "acs_2019")])
def test_real_rows_fit(acs_root, year, name):
    schema = Schema.load(name)
    if year == 2024:
        schema = schema.selected()
    source = FolktablesSource(("VT",), year, root_dir=acs_root, declared=schema.columns)
    names = [each for each in schema.names if year == 2024 or each != "POWPUMA"]
    table = CodedTable.encode(source.read(names), schema.select(names))
    broken = [each.columns for each in table.schema.impossible if _found(table, each)]
    assert len(table) > 6_000
    assert broken == []


def _found(table, zero):
    rows = [np.isin(table.column(name), codes) for name, codes in zip(zero.columns, zero.codes, strict=True)]
    return bool(np.logical_and.reduce(rows).any())
