"""Tests of `equistrata plan`, which must not read any rows."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from estimators import correction_factor, private_sample_size, sample_size, smallest_epsilon
from typer.testing import CliRunner

from equistrata.data import sources
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.errors import InputError
from equistrata.flows.cli.console import out
from equistrata.flows.cli.main import app
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SecureNoise, SeededNoise
from equistrata.synth.noise_plan import NoisePlan, planned_mechanism
from equistrata.synth.registry import mechanism as named_mechanism


def run(*arguments, columns=80):
    """Run the command in this process and return its output."""
    with mock.patch.object(out, "_width", columns):  # pytest-xdist sets COLUMNS before the console is made
        return CliRunner().invoke(app, ["plan", *map(str, arguments)], catch_exceptions=False).stdout


def plan(*arguments):
    return json.loads(run(*arguments, "--json"))


def test_the_plan_of_a_test_is_made_of_the_named_functions():
    found = plan("--reference", 0.25, "--effect", 0.1, "--beta", 0.1, "--epsilon", 0.2)
    settings = {"alpha": 0.05, "beta": 0.1}
    assert found["rows_without_noise"] == math.ceil(sample_size(0.25, 0.1, **settings)) == 221
    assert found["rows_needed"] == private_sample_size(0.25, 0.1, epsilon=0.2, **settings)
    assert found["correction_factor"] == correction_factor(0.25, 0.1, epsilon=0.2, law="normal-laplace", **settings)
    strata = {part["stratum"]: part for part in found["strata"]}
    assert len(strata) == 18
    assert strata["SEX=2,RAC1P=1"]["key"] == {"SEX": 2, "RAC1P": 1}
    assert strata["SEX=2,RAC1P=1"]["rows"] == pytest.approx(70881)
    least = smallest_epsilon(strata["SEX=1,RAC1P=3"]["rows"], 0.25, 0.1, **settings)
    assert strata["SEX=1,RAC1P=3"]["smallest_epsilon"] == pytest.approx(least)
    assert strata["SEX=1,RAC1P=3"]["status"] == "unreadable"
    assert strata["SEX=1,RAC1P=4"]["smallest_epsilon"] is None
    assert strata["SEX=1,RAC1P=4"]["status"] == "too few rows"
    assert {"SEX=1,RAC1P=3", "SEX=1,RAC1P=4"} <= set(found["unreadable"])
    assert "SEX=1,RAC1P=3" not in found["too_few_rows"]
    assert (found["relation"], found["delta"]) == ("replace-one within a stratum", None)
    readable = [part for part in found["strata"] if part["status"] == "readable"]
    assert all(part["rows"] >= found["rows_needed"] and part["reached"] > 0.88 for part in readable)
    assert len(readable) + len(found["unreadable"]) == 18


def test_a_mean_is_planned_from_the_schemas_bounds():
    hours = ("--column", "WKHP", "--reference", 38, "--relative-error", 0.02, "--strata", "SEX")
    found = plan(*hours, "--about", "population", "--alpha", 0.05)
    assert (found["quantity"], found["relation"], found["delta"]) == ("mean", "add-remove", 1e-9)
    assert found["rows_without_noise"] == math.ceil((1.959964 * 14 / (0.02 * 38)) ** 2)
    assert found["rows_needed"] > found["rows_without_noise"]
    own = plan(*hours)  # a release estimates the mean of the rows at level 0.95, at two levels
    assert (own["rows_without_noise"], own["correction_factor"]) == (0, None)
    assert (own["about"], own["alpha"]) == ("rows", 0.05)
    assert own["rows_needed"] < found["rows_needed"]
    assert plan(*hours, "--part", 0.25)["rows_needed"] > own["rows_needed"]
    assert plan(*hours, "--no-shrinkage")["rows_needed"] < own["rows_needed"]
    assert all(part["half_width_at_most"] == pytest.approx(38 * part["reached"]) for part in own["strata"])
    assert all(part["half_width"] < part["half_width_at_most"] < 38 for part in own["strata"] if part["rows"] > 1000)
    assert (own["confidence"], plan("--reference", 0.3)["confidence"]) == (0.9, None)
    assert "with confidence 90%" in run(*hours)
    income = plan("--column", "PINCP", "--effect", 5000, "--strata", "SEX")
    assert income["reference"] == 250_000  # the middle of the declared interval for the mean


@pytest.mark.parametrize("name", ["mst", "aim", "gem"])
def test_a_synthesis_is_planned_at_what_a_release_spends(name):
    found = plan("--synthesizer", name, "--strata", "SEX", "--rows", 3000, "--epsilon", 0.15)
    assert list(found) == [
        "quantity", "mechanism", "columns", "selection", "levels", "epsilon", "delta", "rho", "part", "relation",
        "at_most", "epsilon_of_a_row", "units", "unit_weights", "sizes", "readable_noise", "choices", "strata",
        "pairs",
    ]  # fmt: skip
    assert (found["mechanism"], found["relation"], found["levels"]) == (name.upper(), "add-remove", ["all", "SEX"])
    schema = Schema.load("acs_employment").selected()
    strata = Strata.over(schema, ("SEX",))
    total, sizes = Rho.from_epsilon_delta(0.15, 1e-9), dict.fromkeys(strata.keys, 0.0)
    sizes |= {tuple(part["key"].values()): part["rows"] for part in found["strata"]}
    assert math.fsum(sizes.values()) == pytest.approx(3000)
    mechanism = planned_mechanism(named_mechanism(name), strata)
    own = NoisePlan(mechanism, strata, sizes, total, count_share=0.02)
    for part, key in zip(found["strata"], strata.keys, strict=True):
        for kind, floors in (("one_way", own.one_way), ("two_way", own.two_way)):
            errors = own.errors(floors(key), key)
            assert part[kind]["errors"] == {",".join(level) or "all": error for level, error in errors.items()}
            assert part[kind]["error"] == (None if own.finest(errors) is None else errors[own.finest(errors)])
    assert {tuple(pair["columns"]) for pair in found["pairs"] if pair["readable"]} == own.readable_pairs
    assert len(found["pairs"]) == 45
    for pair in found["pairs"]:
        assert (pair["smallest_epsilon"] <= 0.15) == pair["readable"]
    dear = max(pair["smallest_epsilon"] for pair in found["pairs"])
    later = plan("--synthesizer", name, "--strata", "SEX", "--rows", 3000, "--epsilon", dear)
    assert all(pair["readable"] for pair in later["pairs"])
    assert found["rho"] == float(total)


@pytest.mark.parametrize("given", [("--synthesizer", "mst"), ("--column", "PAY", "--reference", 30)])
def test_the_unit_of_the_schema_is_planned(given, tmp_path):
    """A plan for single rows would promise too much if a release protects units of several rows."""
    schema = tmp_path / "people.yaml"
    columns = "{SEX: {values: [F, M]}, PAY: {lower: 0, upper: 100, edges: [0, 50, 100], sigma: 20}}"
    schema.write_text(f"name: people\nunit: {{column: HOME, at_most: 4}}\ncolumns: {columns}\n", "utf-8")
    given = ("--schema", schema, "--strata", "SEX", "--sizes", "9000,11000", *given)
    declared = plan(*given)
    assert declared["at_most"] == 4
    assert declared == plan(*given, "--at-most", 4)
    assert declared != plan(*given, "--at-most", 1)


def test_bounds_on_the_rows_of_a_unit_are_planned():
    given = ("--synthesizer", "mst", "--strata", "SEX", "--rows", 30000)
    units = plan(*given, "--at-most", 4, "--unit-sizes", "0.5,0.3,0,0.1,0.1")
    found = plan(*given, "--at-most", 4, "--unit-sizes", "0.5,0.3,0,0.1,0.1", "--unit-weights", "rows")
    assert (units["unit_weights"], found["unit_weights"], units["units"]) == ("units", "rows", found["units"])
    assert units["sizes"] == found["sizes"]
    assert [each["default"] for each in found["units"]] == ["rows"] * 2 + ["units"] * 6
    same = plan(*given, "--at-most", 4, "--unit-sizes", "0,0,0,1")
    assert same["unit_weights"] == "rows"  # a weight column that is constant would cost budget for nothing
    assert found["epsilon_of_a_row"] == Rho.from_epsilon_delta(1, 1e-9).per_row(4).epsilon(1e-9)
    kept = [1 / 2, 1.5 / 2, 1.7 / 2, 1.9 / 2, 1, 1, 1, 1]  # each unit has 0.5 + 0.6 + 0.4 + 0.5 rows
    assert [each["rows_kept"] for each in found["units"]] == pytest.approx(kept)
    assert [each["left_out"] for each in found["units"]] == pytest.approx([1 - share for share in kept])
    assert found["sizes"]["rows"] == pytest.approx(30000 * 0.95)
    by_row = plan("--synthesizer", "mst", "--strata", "SEX", "--rows", 28500, "--epsilon", found["epsilon_of_a_row"])
    errors = [each["one_way"]["errors"] for each in found["strata"]]
    assert errors == [pytest.approx(each["one_way"]["errors"], rel=1e-6) for each in by_row["strata"]]
    noise = [each["one_way"]["rows"] for each in found["units"]]
    assert noise[3] == pytest.approx(
        sum(min(e.values()) * part["rows"] for e, part in zip(errors, found["strata"], strict=True)) / 28500
    )
    # A unit of 4 rows changes a count of rows by 4 and a count of units by one. There are 1.9 times fewer units than
    # rows.
    assert 1.3 < noise[3] / found["units"][3]["one_way"]["units"] < 4 / 1.9
    for wrong in ("0.5,x", "-1,2", "0,0"):
        with pytest.raises(InputError, match="shares of units with 1, 2, 3"):
            run(*given, "--unit-sizes", wrong)
    with pytest.raises(InputError, match="'unit_weights' only applies to the plan of a synthesis"):
        run("--reference", 0.25, "--effect", 0.1, "--unit-weights", "rows")
    assert "3 rows of a unit" in run(*given, "--unit-sizes", "0.2,0.2,0.6")


def test_estimates_are_planned_for_units_of_several_rows():
    given = ("--column", "WKHP", "--reference", 38, "--relative-error", 0.02, "--strata", "SEX", "--rows", 9000)
    row, unit = plan(*given), plan(*given, "--at-most", 3)
    by_row = plan(*given, "--epsilon", Rho.from_epsilon_delta(1, 1e-9).per_row(3).epsilon(1e-9))
    assert [each["reached"] for each in unit["strata"]] == pytest.approx(
        [each["reached"] for each in by_row["strata"]], rel=1e-6
    )
    assert unit["relation"] == "add-remove of units of up to 3 rows"
    replaced = plan(*given, "--at-most", 3, "--relation", "replace-one")
    assert replaced["strata"][0]["reached"] > unit["strata"][0]["reached"] > row["strata"][0]["reached"]
    # The error at the smallest ε of a unit is the error that was asked for.
    least = unit["strata"][0]["smallest_epsilon"]
    assert plan(*given, "--at-most", 3, "--epsilon", least)["strata"][0]["reached"] == pytest.approx(0.02, rel=1e-3)
    power = ("--reference", 0.25, "--effect", 0.02, "--strata", "SEX", "--epsilon", 0.1)
    one, three = plan(*power, "--rows", 3000), plan(*power, "--rows", 9000, "--at-most", 3)
    assert [each["reached"] for each in three["strata"]] == pytest.approx([each["reached"] for each in one["strata"]])
    assert three["rows_needed"] == pytest.approx(3 * one["rows_needed"], abs=3)
    sizes = plan("--reference", 0.25, "--strata", "SEX", "--rows", 9000, "--unit-sizes", "0.5,0.3,0,0.1,0.1")
    assert [each["at_most"] for each in sizes["units"]] == list(range(1, 9))
    assert sizes["sizes"]["rows"] == pytest.approx(9000 / 2)
    assert sizes["units"][0]["left_out"] == pytest.approx(0.5)


def test_a_part_of_the_budget_buys_a_synthesis_less():
    whole, part = (plan("--synthesizer", "mst", "--strata", "SEX", "--part", part) for part in (1, 0.52))
    for one, other in zip(whole["strata"], part["strata"], strict=True):
        for level, error in one["one_way"]["errors"].items():
            assert other["one_way"]["errors"][level] == pytest.approx(error * math.sqrt(0.98 / 0.5))
    few = plan("--synthesizer", "mst", "--columns", "SEX,ESR,MAR", "--strata", "SEX", "--part", 0.52)
    assert few["columns"] == ["SEX", "ESR", "MAR"]
    assert part["strata"][0]["one_way"]["error"] > few["strata"][0]["one_way"]["error"]


def test_a_survey_weight_is_planned():
    asked = "--synthesizer", "mst", "--strata", "SEX", "--rows", 3000
    plain, weighted = plan(*asked), plan(*asked, "--survey-weight", "PWGTP")
    assert weighted["columns"] == [*plain["columns"], "PWGTP"]
    pairs = {tuple(pair["columns"]): pair["smallest_epsilon"] for pair in weighted["pairs"]}
    assert pairs["AGEP", "PWGTP"] is not None
    for part, own in zip(plain["strata"], weighted["strata"], strict=True):
        assert own["one_way"]["error"] / part["one_way"]["error"] == pytest.approx(0.8**-0.5)  # a fifth of ρ is spent


@pytest.mark.parametrize(("rows", "epsilon"), [(3000, 0.1), (196_967, 1), (0.5, 0.1)])
def test_a_planned_synthesis_fits_its_terminal_and_says_what_the_json_says(rows, epsilon):
    settings = ("--synthesizer", "mst", "--rows", rows, "--epsilon", epsilon)
    text, found = run(*settings), plan(*settings)
    assert max(map(len, text.splitlines())) <= 80
    for part in found["strata"]:
        line = next(line for line in text.splitlines() if f" {part['stratum']} " in line)
        assert f"{part['rows']:,.0f}" in line
        assert ("not measured" in line) == (not part["two_way"]["errors"])
    said = " ".join(text.split())
    assert "it adds its own error" in said
    readable = sum(pair["readable"] for pair in found["pairs"])
    assert f"{readable} of 45 pairs of columns" in said
    assert ("not readable at this ε" in said) == (readable < 45)


def test_sizes_from_a_file_and_from_a_number_of_rows(people, tmp_path):
    _, schema, frame = people
    counts = (
        frame.groupby(["SEX", "GROUP"]).size().reindex(pd.MultiIndex.from_product([[1, 2], list("abc")]), fill_value=0)
    )
    table = counts.rename("count").rename_axis(["SEX", "GROUP"]).reset_index()
    weights = tmp_path / "weights.csv"
    table.to_csv(weights, index=False)
    settings = ("--schema", schema, "--strata", "SEX,GROUP", "--column", "JOB", "--weights", weights)
    found = plan(*settings)
    assert [part["rows"] for part in found["strata"]] == pytest.approx(counts.tolist())
    assert found["column"] == "JOB"
    doubled = plan(*settings, "--rows", 2 * len(frame))
    assert [part["rows"] for part in doubled["strata"]] == pytest.approx([2 * count for count in counts])
    shares = table.assign(share=table["count"] / len(frame)).drop(columns="count")
    shares.to_csv(weights, index=False)
    with pytest.raises(InputError, match="--rows"):
        plan(*settings)
    assert plan(*settings, "--rows", len(frame))["strata"] == found["strata"]
    alone = plan("--schema", schema, "--strata", "", "--rows", 500)
    assert [part["stratum"] for part in alone["strata"]] == ["all"]


def test_empty_strata_and_strata_below_one_row_are_planned(people, tmp_path):
    _, schema, _ = people
    weights = tmp_path / "weights.csv"
    weights.write_text("SEX,share\n1,1\n2,0\n")
    found = plan("--schema", schema, "--strata", "SEX", "--weights", weights, "--rows", 800)
    empty = found["strata"][1]
    assert (empty["rows"], empty["smallest_epsilon"], empty["reached"], empty["status"]) == (
        0,
        None,
        None,
        "too few rows",
    )
    assert "—" in run("--schema", schema, "--strata", "SEX", "--weights", weights, "--rows", 800)
    assert plan("--schema", schema, "--strata", "SEX", "--weights", weights, "--rows", 0.5)["unreadable"]


@pytest.mark.parametrize("more", [(), ("--rows", 1000), ("--synthesizer", "mst")])
def test_a_schema_of_ones_own_is_not_planned_with_new_yorks_sizes(more, tmp_path):
    schema = tmp_path / "people.yaml"
    schema.write_text("columns: {SEX: {values: [1, 2]}, RAC1P: {values: [1, 2, 3, 4, 5, 6, 7, 8, 9]}}")
    with pytest.raises(
        InputError, match=r"the groups of SEX need public sizes; type them with --sizes, in the order SEX=1; SEX=2, or"
    ):
        plan("--schema", schema, "--strata", "SEX", *more)


@pytest.mark.parametrize("more", [("--reference", 0.3), ("--synthesizer", "mst")])
def test_sizes_are_typed_instead_of_a_file(more, people, tmp_path):
    _, schema, _ = people
    weights = tmp_path / "weights.csv"
    weights.write_text("SEX,count\n1,900\n2,1100\n")
    typed = plan("--schema", schema, "--strata", "SEX", "--sizes", "900,1100", *more)
    of_file = plan("--schema", schema, "--strata", "SEX", "--weights", weights, *more)
    assert typed["strata"] == of_file["strata"]
    for sizes, why in {
        "900": "1 numbers, but it needs one for each of 2 groups",
        "a,b": "needs numbers",
        "-1,5": "0 or more",
    }.items():
        with pytest.raises(InputError, match=why):
            plan("--schema", schema, "--strata", "SEX", "--sizes", sizes, *more)
    with pytest.raises(InputError, match="give one of them"):
        plan("--schema", schema, "--strata", "SEX", "--sizes", "900,1100", "--weights", weights, *more)


def test_survey_weights_need_a_number_of_rows(people, tmp_path):
    _, schema, frame = people
    sample = tmp_path / "sample.csv"
    frame.assign(PWGTP=100).to_csv(sample, index=False)
    settings = ("--schema", schema, "--strata", "SEX", "--weights", sample, "--weight-column", "PWGTP")
    with pytest.raises(InputError, match="add up to people and not to rows"):
        plan(*settings)
    found = plan(*settings, "--rows", 1000)
    assert sum(part["rows"] for part in found["strata"]) == pytest.approx(1000)


@pytest.mark.parametrize(("columns", "strata"), [(80, "SEX,RAC1P"), (100, "SEX,RAC1P,AGEP,DIS")])
def test_the_table_fits_its_terminal_and_says_what_the_json_says(columns, strata, tmp_path):
    sizes = tmp_path / "sizes.csv"
    names = strata.split(",")
    domains = {"SEX": [1, 2], "RAC1P": range(1, 10), "AGEP": range(5), "DIS": [1, 2]}
    table = pd.MultiIndex.from_product([domains[name] for name in names], names=names).to_frame(index=False)
    table["count"] = 2.0 ** np.linspace(0, 17, len(table))
    table.to_csv(sizes, index=False)
    settings = ("--strata", strata, "--weights", sizes, "--reference", 0.3, "--effect", 0.1, "--epsilon", 0.05)
    text, found = run(*settings, columns=columns), plan(*settings)
    assert max(map(len, text.splitlines())) <= columns
    for part in found["strata"]:
        line = next(line for line in text.splitlines() if f" {part['stratum']} " in line)
        assert part["status"] in line
        assert f"{part['rows']:,.0f}" in line
    assert f"{found['rows_needed']:,}" in text
    assert "unreadable at any" in text


def test_no_row_is_read_and_no_noise_drawn(monkeypatch):
    """In this test, an error is raised if any rows are read or if any noise is drawn."""

    def forbidden(*_, **__):
        raise AssertionError("a plan touched rows or drew noise")

    for source in (sources.SampleSource, sources.FolktablesSource, sources.FileSource):
        monkeypatch.setattr(source, "read", forbidden)
        monkeypatch.setattr(source, "check", forbidden)
    for noise in (SecureNoise, SeededNoise):
        for method in ("gaussian", "laplace", "select"):
            monkeypatch.setattr(noise, method, forbidden)
    assert plan("--reference", 0.3)["strata"]
    assert plan("--column", "WKHP", "--reference", 38, "--strata", "SEX")["strata"]
    assert all(plan("--synthesizer", name)["strata"] for name in ("mst", "aim", "gem"))
    with pytest.raises(AssertionError, match="touched rows"):
        sources.SampleSource().read(["SEX"])


WATCHED = """
import json, sys
opened = []
sys.addaudithook(lambda event, details: opened.append(str(details[0])) if event == "open" else None)
import pyarrow.parquet as pq
for name in ("read_table", "read_schema", "ParquetFile"):  # they open files outside the interpreter
    def watched(path, *rest, inner=getattr(pq, name), **settings):
        opened.append(str(path))
        return inner(path, *rest, **settings)
    setattr(pq, name, watched)
from equistrata.flows.cli.console import out
from equistrata.flows.cli.main import app
app({arguments!r}, standalone_mode=False)
print(json.dumps([path for path in opened if path.endswith((".csv", ".parquet", ".yaml", ".pq", ".npz", ".json"))]))
"""


def test_only_the_schema_and_the_sizes_are_opened(people, tmp_path, repo_root):
    """The folder also contains a private table, which must not be in the list of files that the interpreter opened."""
    table, schema, _ = people
    weights = tmp_path / "sizes.csv"
    weights.write_text("SEX,count\n1,700\n2,600\n")
    arguments = [
        "plan",
        "--schema",
        str(schema),
        "--strata",
        "SEX",
        "--weights",
        str(weights),
        "--column",
        "PAY",
        "--effect",
        "900",
    ]
    env = os.environ | {"PYTHONPATH": str(repo_root)}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(arguments=arguments)], cwd=tmp_path, env=env, capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    opened = {path for path in json.loads(done.stdout.splitlines()[-1]) if str(tmp_path) in path}
    assert opened == {str(schema), str(weights)}
    assert str(table) not in opened
    assert not [path for path in json.loads(done.stdout.splitlines()[-1]) if path.endswith(".parquet")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--reference", "0.6", "--effect", "0.4"], r"p0 \+ effect is 1,"),
        (["--reference", "1.5"], "the reference is 1.5"),
        (["--effect", "0.1", "--relative-error", "0.1"], "give one of them"),
        (["--effect", "0"], "effect is 0"),
        (["--relative-error", "0"], "relative error is 0"),
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "nan"], "epsilon"),
        (["--column", "WKHP", "--effect", "2", "--epsilon", "1e6"], "epsilon must be a positive number"),
        (["--column", "WKHP", "--effect", "2", "--delta", "0"], "delta"),
        (["--column", "WKHP"], "give it with --reference"),
        (["--column", "SEX"], "defines strata"),
        (["--column", "NOPE"], "unknown column 'NOPE'"),
        (["--strata", "NOPE"], "stratum column 'NOPE' is not among the columns .*; name yours with --strata"),
        (["--strata", "SEX", "--column", "AGEP"], "no 'sigma'"),
        (["--strata", "SEX,DIS"], "give a file with --weights"),
        (["--strata", ""], "--rows"),
        (["--rows", "-1"], "rows"),
        (["--rows", "inf"], "rows"),
        (["--weights", "none.csv"], r"none\.csv"),
        (["--schema", "none.yaml"], r"none\.yaml"),
        (["--part", "2"], "part is 2"),
        (["--about", "all"], "'all'"),
        (["--beta", "0.99", "--effect", "0.1"], "beta"),
        (["--columns", "SEX,RAC1P,ESR"], "give a synthesizer too"),
        (["--survey-weight", "PWGTP"], "'survey_weight' only applies to the plan of a synthesis"),
        (["--synthesizer", "gem", "--survey-weight", "PWGTP"], "cannot measure the survey weight"),
        (["--synthesizer", "mst", "--survey-weight", "SEX"], "'SEX' cannot be the survey weight"),
        (["--synthesizer", "smartnoise-mst"], "'smartnoise-mst'"),
        (["--synthesizer", "mst", "--column", "WKHP"], "'column' only applies to the plan of an estimate"),
        (
            ["--synthesizer", "mst", "--relative-error", "0.1"],
            "'relative_error' only applies to the plan of an estimate",
        ),
        (["--synthesizer", "mst", "--beta", "0.1"], "'beta' only applies to the plan of an estimate"),
        (["--synthesizer", "mst", "--no-shrinkage"], "'shrinkage' only applies to the plan of an estimate"),
        (["--synthesizer", "mst", "--columns", "AGEP,ESR"], "'SEX' is not among the columns"),
        (["--synthesizer", "mst", "--columns", "SEX,RAC1P"], "strata use up every column"),
        (["--synthesizer", "aim", "--epsilon", "0"], "epsilon"),
        (["--synthesizer", "aim", "--delta", "1"], "delta"),
        (["--synthesizer", "aim", "--part", "0.02"], "part"),
        (["--synthesizer", "aim", "--part", "nan"], "part"),
    ],
)
def test_bad_settings_are_refused(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        run(*arguments)


def test_bad_settings_at_the_command_line(equistrata):
    """The command prints one sentence on standard error and nothing on standard output."""
    result = equistrata("plan", "--reference", "0.6", "--effect", "0.5", "--json")
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "p0 + effect is 1.1" in result.stderr
