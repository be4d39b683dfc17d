"""Tests of the files of a complete release, and that no value of the rows is found in other files."""

import json
import re
import shutil
import sqlite3
import stat
from contextlib import closing

import pandas as pd
import pytest
from traces import traces

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.texts.manifest import check_manifest
from equistrata.data.weights import PublicWeights
from equistrata.synth.storage import load_all_measurements
from equistrata.synth.strata.weights import combined_weights

# These values are only in the rows. If one of them is found elsewhere, the release reveals a row.
CANARY_AGE, CANARY_PAY, CANARY_NOTE = 118.4625173, 731924.6481, "canary-row-note-2207"


def release(equistrata, *arguments, output="out", **environment):
    folder = equistrata.home / output
    result = equistrata("release", *arguments, "--output", folder, **environment)
    assert result.returncode == 0, result.stderr
    return folder, result


@pytest.fixture
def canary_table(people):
    """Return a table with canaries in a binned column, in an outcome, and in a column that is not in the schema."""
    table, schema, frame = people
    frame["AGE"] = frame["AGE"].astype(float)
    frame.loc[[5, 700], "AGE"] = CANARY_AGE
    frame.loc[[5, 700], "PAY"] = CANARY_PAY
    frame["NOTE"] = CANARY_NOTE
    frame.to_csv(table, index=False)
    schema.write_text(schema.read_text().replace(", integer: true", ""))  # an integer column refuses decimals
    return table, schema, frame


def assert_no_canary(result, *roots):
    canaries = [str(CANARY_AGE), str(CANARY_PAY), CANARY_NOTE, "118.46", "731_924", "731,924"]
    # The six digits alone may also be in ids and in fractions of seconds.
    patterns = [*map(re.escape, canaries), r"(?<![0-9a-f.])731924(?![0-9a-f])"]
    for pattern in patterns:
        assert not re.search(pattern, result.stdout + result.stderr)
        for path, content in traces(*roots):
            assert not re.search(pattern.encode(), content), f"{pattern} in {path}"


def test_a_release_leaves_no_row_anywhere(equistrata, canary_table, empty_database):
    table, schema, frame = canary_table
    equistrata.prefect.mkdir()
    database = equistrata.prefect / "prefect.db"
    shutil.copyfile(empty_database, database)
    folder, result = release(
        equistrata, "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX,GROUP",
        "--means", "PAY", "--evaluate", "full", "--verbose",
    )  # fmt: skip
    assert_no_canary(result, equistrata.prefect, equistrata.tmp, folder)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM task_run").fetchone() > (5,), "it holds what Prefect was sent"
    assert not list(equistrata.tmp.glob("equistrata-*")), "the working folder is removed"
    inside = equistrata.home / "out.internal"
    assert stat.S_IMODE(inside.stat().st_mode) == 0o700

    # The exact number of rows (1,357) and the exact scores are also private, so they must not be in the database of
    # Prefect.
    scores = json.loads((inside / "scores.json").read_text())
    exact = [repr(scores[name]) for name in ("parity_error", "workload3", "accuracy")]
    for path, content in traces(equistrata.prefect):
        for number in exact:
            assert number.encode() not in content, f"an exact score lies in {path.name}"
    assert not any(number.encode() in content for number in exact for _, content in traces(folder))
    assert not any(f"{float(number):.4f}" in result.stdout + result.stderr for number in exact), "that is no terminal"
    assert "out.internal/scores.json" in result.stdout
    assert len(frame) == 1357


def test_a_failing_release_leaves_no_row_anywhere(served, server_home, canary_table):
    table, schema, frame = canary_table
    frame["GROUP"] = frame["GROUP"].astype(object)
    frame.loc[12, "GROUP"] = CANARY_NOTE
    frame.to_csv(table, index=False)
    result = served(
        "release", "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX,GROUP",
        "--output", served.home / "out", "--verbose",
    )  # fmt: skip
    assert result.returncode == 2
    assert "'GROUP' holds a value" in result.stderr
    assert not (served.home / "out").exists()
    assert_no_canary(result, server_home, served.prefect, served.tmp)
    assert list(server_home.rglob("*.db")), "the search must have seen Prefect's database"
    assert not list(served.tmp.glob("equistrata-*"))


def test_what_a_release_folder_holds(served, people):
    table, schema_file, _ = people
    folder, result = release(
        served, "--source", "csv", "--input", table, "--schema", schema_file, "--strata", "SEX,GROUP",
        "--rows", "500", "--means", "PAY", "--means-estimator", "both", "--epsilon", "2", "--delta", "1e-6",
    )  # fmt: skip
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "synthetic.parquet", "synthetic.csv", "cells.csv", "measurements", "means.json", "card.json", "card.md",
        "schema.json", "manifest.json",
    }  # fmt: skip
    assert check_manifest(folder)
    card = json.loads((folder / "card.json").read_text())
    guarantee = card["guarantee"]
    assert (guarantee["epsilon"], guarantee["delta"]) == (2, 1e-6)
    assert sum(guarantee["split_of_rho"].values()) == pytest.approx(guarantee["rho"])
    assert guarantee["relation"].startswith("add-remove")
    assert "OpenDP" in guarantee["noise_source"]
    assert card["private"] is True
    assert card["name"] == "MST_SEX_GROUP"
    assert card["schema"]["sha256"] == Schema.load(schema_file).selected().digest
    assert card["software"].startswith("equistrata ")

    schema = Schema.load(schema_file).selected()
    strata = Strata.over(schema, ["SEX", "GROUP"])
    (measured,) = load_all_measurements(strata, folder / "measurements").values()
    assert measured[0].columns == ("SEX", "GROUP")
    assert (card["selection"], card["levels"]) == ("shared", "auto")
    assert (
        "one selection of marginals, over all rows and within strata, for all 6 declared strata"
        in (folder / "card.md").read_text()
    )
    csv, parquet = pd.read_csv(folder / "synthetic.csv"), pd.read_parquet(folder / "synthetic.parquet")
    assert list(csv.columns) == list(parquet.columns) == list(schema.names)
    assert len(csv) == len(parquet) == 500
    assert csv["AGE"].between(0, 120).all()
    assert csv["JOB"].isin(["yes", "no"]).all()

    means = json.loads((folder / "means.json").read_text())["outcomes"]["PAY"]
    assert means.keys() == {"strat_coinpress", "coinpress"}
    for estimate in (*means.values(), *means["strat_coinpress"]["strata"].values()):
        assert estimate["lower"] <= estimate["value"] <= estimate["upper"]
    assert means["coinpress"]["rho"] + means["strat_coinpress"]["rho"] == pytest.approx(
        guarantee["split_of_rho"]["means"]
    )
    for shown in ("released", "ε = 2", "δ = 1e-06", "scores.json"):
        assert shown in result.stdout


def test_a_seeded_release_repeats_and_says_that_it_is_not_private(served, people):
    table, schema, _ = people
    arguments = ["--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX", "--seed", "5"]
    one, result = release(served, *arguments, "--workers", "1", output="one")
    two, _ = release(served, *arguments, "--workers", "2", output="two")
    assert (one / "synthetic.csv").read_bytes() == (two / "synthetic.csv").read_bytes()
    assert json.loads((one / "card.json").read_text())["private"] is False
    assert "Not private" in (one / "card.md").read_text()
    assert "not private" in result.stdout


def test_public_weights_decide_the_groups(served, people, tmp_path):
    table, schema, _ = people
    weights = tmp_path / "weights.csv"
    weights.write_text("SEX,share\n1,0.25\n2,0.75\n")
    folder, _ = release(
        served, "--source", "csv", "--input", table, "--schema", schema, "--strata", "SEX",
        "--weights", weights, "--rows", "400", "--means", "PAY", "--evaluate", "none",
    )  # fmt: skip
    assert pd.read_csv(folder / "synthetic.csv")["SEX"].value_counts().to_dict() == {2: 300, 1: 100}
    assert "pub_strat_coinpress" in json.loads((folder / "means.json").read_text())["outcomes"]["PAY"]
    assert not (served.home / "out.internal").exists()
    assert "noisy counts" not in json.loads((folder / "card.json").read_text())["guarantee"]["split_of_rho"]


@pytest.mark.parametrize("selection", ["shared", "per-stratum"])
def test_weights_that_may_be_wrong_are_joined_with_counts(served, people, tmp_path, selection):
    """The sizes of both sexes are swapped in the file, and the noise of about ten people is small enough to detect
    this.
    """
    table, schema, frame = people
    rows = frame["SEX"].value_counts()
    weights, config = tmp_path / "weights.csv", tmp_path / "release.yaml"
    weights.write_text(f"SEX,count\n1,{rows[2] // 4}\n2,{rows[1] * 4}\n")
    config.write_text(f"source: csv\ninput: {table}\nschema: {schema}\nstrata: SEX\nweights: {weights}\n")
    folder, _ = release(
        served, "--config", config, "--combine-weights", "--selection", selection, "--epsilon", "3", "--rows", "1357",
        "--means", "PAY", "--evaluate", "none", "--seed", "3", "--runner", "threads",
    )  # fmt: skip
    drawn = pd.read_csv(folder / "synthetic.csv")["SEX"].value_counts()
    assert abs(drawn[1] - rows[1]) < 80
    card = json.loads((folder / "card.json").read_text())
    source = "file 'weights.csv', column 'count' and noisy counts (charged), by inverse variance"
    assert card["strata"]["weights"] == source
    assert f"joined by group weights from {source}" in (folder / "card.md").read_text()
    split = card["guarantee"]["split_of_rho"]
    assert split["noisy counts"] == pytest.approx(0.02 * card["guarantee"]["rho"])
    assert sum(split.values()) == pytest.approx(card["guarantee"]["rho"])
    means = json.loads((folder / "means.json").read_text())
    assert "strat_coinpress" in means["outcomes"]["PAY"]  # its interval includes the error of its own counts
    assert means["weights"].startswith("noisy counts")
    # Anyone can compute the weights from the released files.
    strata = Strata.over(Schema.load(schema).selected(), ["SEX"])
    measured = load_all_measurements(strata, folder / "measurements")
    again = combined_weights(strata, measured, PublicWeights.from_file(weights, strata))
    assert again.allocate(1357)[(1,)] == drawn[1]


def test_a_release_from_a_config_file_without_strata(served, people, tmp_path):
    table, schema, _ = people
    config = tmp_path / "release.yaml"
    config.write_text(f"source: csv\ninput: {table}\nschema: {schema}\nevaluate: none\nworkers: 1\n")
    folder, _ = release(served, "--config", config)
    card = json.loads((folder / "card.json").read_text())
    assert card["name"] == "MST_vanilla"
    assert card["strata"]["columns"] == []
    assert abs(card["rows"] - 1357) < 400  # the number of rows is noisy


@pytest.mark.parametrize(
    ("options", "files", "told"),
    [
        (["--levels", "strata"], 1, "one selection of marginals within strata, for all 2"),
        (["--levels", "none"], 1, "one synthesizer for all rows, divided into the 2"),
        (["--epsilon", "100"], 1, "one synthesizer for each of the 2"),  # the strata are large
        (["--selection", "per-stratum", "--runner", "threads"], 2, "one synthesizer for each of the 2"),
        pytest.param(
            ["--synthesizer", "gem"],
            1,
            "one selection of marginals, over all rows and within strata, for all 2",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_who_chooses_is_told_and_kept(served, people, options, files, told):
    table, schema, _ = people
    folder, _ = release(
        served,
        "--source",
        "csv",
        "--input",
        table,
        "--schema",
        schema,
        "--strata",
        "SEX",
        "--evaluate",
        "none",
        *options,
    )
    measured = load_all_measurements(Strata.over(Schema.load(schema).selected(), ["SEX"]), folder / "measurements")
    assert len(measured) == files
    assert told in (folder / "card.md").read_text()
    card = json.loads((folder / "card.json").read_text())
    assert (card["selection"] == "shared") == ("for each of" not in told)
    assert (card["levels"] is not None) == (() in measured)
