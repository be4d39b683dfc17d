"""Tests of bad input at the command line, which gives one clear sentence and exit code 2 and makes no output folder."""

import json
import os
import re
from importlib.metadata import version

import pandas as pd
import pytest
import typer.main
import typer.rich_utils
from cards import least_card
from in_process import command

from equistrata.flows.cli.main import app
from equistrata.flows.cli.options import _options
from equistrata.flows.cli.release import PANELS, ReleaseOptions
from equistrata.flows.config.release import ReleaseConfig

CANARY = "canary-8841"


def refused(equistrata, *arguments, sentence):
    result = equistrata("release", *arguments, "--output", equistrata.home / "out")
    assert result.returncode == 2, result.stderr
    assert re.search(sentence, result.stderr), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert result.stdout == ""
    assert not (equistrata.home / "out").exists()
    assert not list(equistrata.home.glob(".out*"))
    return result


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "-1"], "epsilon"),
        (["--delta", "1"], "delta"),
        (["--epsilon", "1e6"], "no usable budget"),
        (["--columns", "AGEP,NOPE"], "unknown column 'NOPE'"),
        (["--source", "csv", "--input", "none.csv", "--schema", "acs_employment"], r"none\.csv' does not exist"),
        (["--schema", "none.yaml"], r"none\.yaml"),
        (["--schema", "acs_means", "--columns", "SEX,DIS", "--strata", "PINCP"], "PINCP"),
        (["--schema", "acs_means", "--columns", "SEX,PINCP", "--strata", "PINCP"], "no bins"),
        (["--source", "folktables", "--state", "NY", "--root-dir", "nowhere"], "nowhere"),
        (["--source", "folktables", "--state", "XX"], "XX"),
        (["--strata", "SEX", "--weights", "nowhere.csv"], r"nowhere\.csv"),
    ],
)
def test_wrong_settings_are_refused(equistrata, arguments, sentence):
    refused(equistrata, *arguments, sentence=sentence)


def _spoiled(frame, kind):
    if kind == "undeclared value":
        frame.loc[3, "GROUP"] = CANARY
    if kind == "out of bounds":
        frame.loc[3, "AGE"] = 8841
    if kind == "not a number":
        frame["AGE"] = frame["AGE"].astype(object)
        frame.loc[3, "AGE"] = CANARY
    if kind == "missing cell":
        frame["SEX"] = frame["SEX"].astype("Int64")
        frame.loc[3, "SEX"] = pd.NA
    if kind == "no rows":
        return frame.iloc[:0]
    if kind == "no column":
        return frame.drop(columns="SEX")
    return frame


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("undeclared value", "'GROUP' holds a value that the schema does not declare"),
        ("out of bounds", "'AGE' holds a number outside"),
        ("not a number", "'AGE' .* not a number"),
        ("missing cell", "'SEX' has missing cells"),
        ("no rows", "no rows"),
        ("no column", "no column 'SEX'"),
        ("latin-1", "not UTF-8"),
        ("0 bytes", "empty"),
        ("0-byte parquet", "Parquet"),
    ],
)
def test_wrong_tables_are_refused_without_quoting_them(served, people, tmp_path, kind, sentence):
    _, schema, frame = people
    table = tmp_path / ("spoiled.parquet" if kind == "0-byte parquet" else "spoiled.csv")
    if kind.startswith("0"):
        table.touch()
    elif kind == "latin-1":
        table.write_bytes(frame.to_csv(index=False).replace("yes", "j\u00e4").encode("latin-1"))
    else:
        _spoiled(frame, kind).to_csv(table, index=False)
    source = "parquet" if kind == "0-byte parquet" else "csv"
    result = refused(served, "--source", source, "--input", table, "--schema", schema, sentence=sentence)
    assert CANARY not in result.stderr
    assert "8841" not in result.stderr
    assert not list(served.tmp.glob("equistrata-*"))


def test_an_output_folder_that_exists_is_left_alone(equistrata):
    (equistrata.home / "out").mkdir()
    result = equistrata("release", "--output", equistrata.home / "out")
    assert result.returncode == 2
    assert "exists already" in result.stderr
    assert list((equistrata.home / "out").iterdir()) == []


def test_an_output_that_cannot_be_made_is_refused_before_anything_runs(equistrata):
    blocked = equistrata.home / "file"
    blocked.touch()
    result = equistrata("release", "--output", blocked / "out")
    assert result.returncode == 2
    assert "cannot be made" in result.stderr
    assert not equistrata.prefect.exists()


def test_a_prefect_server_that_does_not_answer_is_named(equistrata):
    result = equistrata("release", "--output", equistrata.home / "out", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert result.returncode == 2
    assert "no Prefect server answers" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (equistrata.home / "out").exists()


def test_every_setting_is_an_option(equistrata):
    result = equistrata("release", "--help-all", COLUMNS="300")
    for name, field in ReleaseConfig.model_fields.items():
        assert f"--{(field.alias or name).replace('_', '-')}" in result.stdout
    assert "Examples" in result.stdout


def test_the_help_of_a_release_fits_a_screen(equistrata):
    shown = equistrata("release", "--help", COLUMNS="80").stdout
    assert len(shown.rstrip().splitlines()) <= 45
    options = re.findall(r"^│ (--[a-z-]+)", shown, re.M)
    assert len(options) == 12, "ten, and those for more help"
    keys = {key for model in (ReleaseOptions, ReleaseConfig) for key, _ in _options(model)}
    assert set(PANELS) < keys, "no option is named that is none"
    assert len(keys - set(PANELS)) == 10


def commands(command=None, path=()):
    """Return the words of each command, including the hidden commands."""
    command = command or typer.main.get_command(app)
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


@pytest.mark.parametrize("words", [" ".join(path) for path in commands()])
def test_help_is_for_people(words, monkeypatch, capsys):
    """The help text contains no address of a function, and no other representation of a Python type or default."""
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 200)
    code, out, _ = command(monkeypatch, capsys, *words.split(), "--help")
    assert code == 0
    assert "Usage" in out
    assert not re.search(r"0x[0-9a-f]{6}|<(class|function|lambda|object)|Undefined|NoneType|Validator|typing\.", out)


def test_the_default_number_of_workers_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 400)
    assert f"[default: {os.cpu_count() or 1}]" in command(monkeypatch, capsys, "release", "--help-all")[1]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [(["sources"], "folktables"), (["schema", "check", "acs_employment"], "AGEP"), (["--help"], "release")],
)
def test_the_small_commands(equistrata, arguments, shown):
    result = equistrata(*arguments)
    assert result.returncode == 0, result.stderr
    assert shown in result.stdout


def test_score_prints_the_agreed_names(equistrata, tmp_path):
    rows = pd.DataFrame({"G": [1, 2] * 60, "X": [0, 1, 2] * 40, "Y": [0, 1, 1, 0] * 30})
    for name in ("real", "test", "synthetic"):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [tmp_path / f"{name}.csv" for name in ("real", "test", "synthetic")]
    result = equistrata("score", *files, "--strata", "G", "--target", "Y", "--json")
    assert result.returncode == 0, result.stderr
    scores = json.loads(result.stdout)
    assert {"parity_error", "workload3", "workload3_by_stratum", "accuracy", "dpr", "fnr_diff"} <= scores.keys()
    assert scores["parity_error"] == scores["workload3"] == scores["workload3_by_stratum"] == 0


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path, monkeypatch, capsys):
    """Rich reads [/c] as the end of a style, so this name used to end the command in a traceback."""
    from equistrata.flows.cli.released import print_release

    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 200)
    (tmp_path / "s.yaml").write_text(
        "name: '[/n]'\ntarget: '[/c]'\ncolumns:\n  '[/c]': {label: '[/l] [a]', values: ['[/v]', b], missing: '[/v]'}\n"
    )
    (tmp_path / "[/").mkdir()
    table = tmp_path / "[/" / "t].csv"
    table.write_text("[/c]\nb\n")
    code, told, error = command(monkeypatch, capsys, "schema", "check", tmp_path / "s.yaml", "--input", table)
    assert (code, error) == (0, "")
    for each in ("schema [/n]", "[/c]", "[/l] [a]", "[/v]", "target: [/c].", "t].csv fits"):
        assert each in told
    folder = tmp_path / "[/" / "out]"
    folder.mkdir()
    guarantee = {"epsilon": 1, "delta": 1e-9, "rho": 0.1}
    charged = guarantee | {
        "dataset": "[/d]",
        "release_id": "r",
        "ledger": "x",
        "head": "1:0",
        "budget": guarantee,
        "left": guarantee,
        "charges": [{"rho": 0.1}, {"rho": 0.1, "reason": "[/r]"}],
    }
    card = least_card(name="MST_[/c]", rows=3, ledger=charged, private=True)
    (folder / "card.json").write_text(json.dumps(card))
    mean = {"value": 1.0, "lower": 0.0, "upper": 2.0, "uninformative": True, "rho": 0.1, "level": 0.95}
    mean |= {"target": "rows"}
    (folder / "means.json").write_text(json.dumps({"rho": 0.1, "outcomes": {"[/m]": {"vanilla": mean}}}))
    print_release(folder)
    told = capsys.readouterr().out
    for each in (str(folder), "MST_[/c]: 3 rows", "charged to [/d] as r", "[/r]", "[/m]", "0 to 2, uninformative"):
        assert each in told
    assert "means are uninformative in [/m] (all rows), because their intervals are as wide as" in " ".join(
        told.split()
    )


@pytest.mark.parametrize(
    ("delta", "units", "noted"),
    [
        (1e-9, None, ""),
        (0.5, None, "δ = 0.5 is large for 8,003 rows, so that ε promises little: choose 1e-06 or less"),
        (1e-5, 8000, "δ = 1e-05 is large for 8,000 units"),
        (1e-6, 8000, ""),
    ],
)
def test_a_delta_that_is_too_large_is_noted(tmp_path, capsys, delta, units, noted):
    card = least_card(guarantee={"delta": delta}, ledger="none", private=True, config={"units": units})
    (tmp_path / "card.json").write_text(json.dumps(card))
    from equistrata.flows.cli.released import print_release

    print_release(tmp_path)
    told = " ".join(capsys.readouterr().out.split())
    assert noted in told if noted else "is large" not in told


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_that_of_the_package(monkeypatch, capsys, option):
    assert command(monkeypatch, capsys, option) == (0, f"equistrata {version('equistrata')}\n", "")


def test_a_shell_completes_commands(monkeypatch, capsys):
    monkeypatch.setenv("_EQUISTRATA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "equistrata bud")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert command(monkeypatch, capsys) == (0, "budget\n", "")


@pytest.mark.parametrize(
    ("option", "values", "way"),
    [
        ("--strata", ("SEX", "RAC1P"), "--strata A,B"),
        ("--epsilon", ("1", "5"), "give it once"),
        ("--report-title", ("a", "b"), "give it once"),
        ("--weights", ("noisy", "w.csv"), "give it once"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(monkeypatch, capsys, tmp_path, option, values, way):
    """The first value used to be ignored without a warning, so that only RAC1P was used for the strata."""
    given = [each for value in values for each in (option, value)]
    code, _, said = command(monkeypatch, capsys, "release", "--output", tmp_path / "made", *given)
    assert code == 2
    assert f"{option} is given 2 times" in said
    assert way in said
    assert not (tmp_path / "made").exists()


CRON = """source: sample
strata: [SEX]
columns: [SEX, MAR, ESR]
evaluate: none
delta: 1.0e-9
dataset: sample
ledger: ledger.db
release_id: sample-{month}
output: releases/{month}
"""


def test_a_command_for_cron_says_by_its_exit_code_what_became_of_the_month(served):
    (served.home / "monthly.yaml").write_text(CRON)
    assert served("budget", "create", "--config", "monthly.yaml", "--epsilon", "1.2").returncode == 0
    first = served("release", "--config", "monthly.yaml")
    assert first.returncode == 0, first.stderr
    again = served("release", "--config", "monthly.yaml")
    assert (again.returncode, again.stderr) == (0, "")
    assert "is complete; there is nothing to do" in again.stdout
    (month,) = [each.name for each in (served.home / "releases").iterdir() if each.suffix != ".internal"]
    assert re.fullmatch(r"\d{4}-\d{2}", month)
    (served.home / "monthly.yaml").write_text(CRON.replace("{month}", "{month}b"))
    refused = served("release", "--config", "monthly.yaml")
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "is left of the budget" in refused.stderr
