import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from in_process import command
from known_relations import evidence_of, people
from plain_release import release

import equistrata
from equistrata.analysis.answers import Answers
from equistrata.analysis.contents.tables import replicate_rows
from equistrata.analysis.release import Release, combine
from equistrata.analysis.uncertainty import replicates
from equistrata.analysis.uncertainty.replicates import ReplicateGenerator
from equistrata.errors import InputError


@pytest.fixture(scope="module")
def opened(folder):
    return Release.open(folder)


def test_a_reader_gets_words_and_numbers(opened):
    rows = opened.rows()
    assert rows["SEX"].cat.categories.tolist() == ["Male", "Female"]
    assert opened.rows(labels=False)["SEX"].isin([1, 2]).all()
    book = opened.codebook()
    assert book[book["column"] == "SEX"]["words"].tolist() == ["Male", "Female"]
    assert opened.measured()["columns"].str.contains("SEX").any()
    assert set(opened.not_measured()) <= {(a, b) for a in rows.columns for b in rows.columns}
    assert equistrata.Release is Release


def test_a_reader_gets_the_price(opened):
    guarantee = opened.card["guarantee"]
    (line,) = opened.price().to_dict("records")
    assert {name: line[name] for name in ("epsilon", "delta", "rho", "unit", "relation")} == {
        name: guarantee[name] for name in ("epsilon", "delta", "rho", "unit", "relation")
    }
    assert (line["of"], line["private"]) == ("release", False), "its noise was seeded"
    own = {name: guarantee[name] for name in ("epsilon", "delta", "rho")}
    card = dict(opened.card) | {"guarantee": guarantee | {"rho": 2.0, "epsilon": 20.0, "release": own}}
    found = Release(opened.folder, card, opened.schema, opened.manifest).price()
    assert found["of"].tolist() == ["release and audits", "release"]
    assert found["rho"].tolist() == [2.0, guarantee["rho"]]


def test_a_reader_gets_the_sampling_frame(opened):
    found, rows = opened.sampling_frame(), opened.rows(labels=False)
    assert found["stratum"].tolist() == ["SEX=1", "SEX=2"]
    assert found["rows"].tolist() == [(rows["SEX"] == 1).sum(), (rows["SEX"] == 2).sum()]
    assert found["share"].sum() == pytest.approx(1.0)
    shares = opened.evidence.model.weights.shares
    assert found["share"].tolist() == pytest.approx([shares[(1,)], shares[(2,)]], abs=1 / len(rows))
    assert found["weights"].unique().tolist() == ["noisy counts (charged)"]
    assert found["held_out"].unique().tolist() == [0.0]
    card = dict(opened.card) | {"strata": dict(opened.card["strata"]) | {"columns": []}, "held_out": 0.2}
    (line,) = Release(opened.folder, card, opened.schema, opened.manifest).sampling_frame().to_dict("records")
    assert (line["stratum"], line["rows"], line["share"], line["held_out"]) == ("", len(rows), 1.0, 0.2)


def test_what_was_not_measured_is_read_from_the_measurements_of_older_cards(opened):
    card = {name: part for name, part in opened.card.items() if name != "relations"}
    found = Release(opened.folder, card, opened.schema, opened.manifest).not_measured()
    assert found == opened.not_measured()
    together = {frozenset(pair) for pair in opened.card["relations"]["measured"]}
    assert found
    assert together.isdisjoint(map(frozenset, found))


def test_the_model_is_the_one_that_the_rows_were_drawn_from(opened):
    drawn = opened.rows(labels=False)
    counts = opened.evidence.model.marginal(("SEX", "ESR")).ravel()
    found = drawn.groupby(["SEX", "ESR"]).size().to_numpy()
    assert np.abs(found - counts).max() < 3, "rows are rounded from it by less than two each"


def test_public_weights_are_those_of_the_rows_and_of_no_answer(tmp_path):
    weights = tmp_path / "weights.csv"
    weights.write_text("SEX,share\n1,0.3\n2,0.7\n")
    output = tmp_path / "release"
    release(
        {
            "strata": ("SEX",),
            "columns": ("SEX", "ESR", "DIS"),
            "weights": str(weights),
            "evaluate": "none",
            "output": str(output),
            "seed": 1,
        }
    )
    found = Release.open(output)
    frame = found.sampling_frame()
    assert frame["share"].tolist() == pytest.approx([0.3, 0.7], abs=1e-4)
    # The answers use the counts of the table and not the public weights, so about half of the rows are men.
    served = {group["words"]: group for group in found.card["served"]["groups"]}
    expected = found.expected_distances().groupby("SEX")["rows"].first()
    assert expected[1] == pytest.approx(served["Male"]["rows"], rel=0.01)
    assert expected[1] / expected.sum() == pytest.approx(0.49, abs=0.03)
    replicate = next(found.replicates(2, labels=False))
    assert (replicate["SEX"] == 1).mean() == pytest.approx(0.3, abs=0.05), "replicates are like the released rows"
    assert frame["weights"][0] == found.card["strata"]["weights"] != "noisy counts (charged)"


def test_an_edited_release_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    card = json.loads((copy / "card.json").read_text())
    (copy / "card.json").write_text(json.dumps(card | {"rows": 1}))
    with pytest.raises(InputError, match=r"'card.json' of release .* (was edited|is cut off)"):
        Release.open(copy)
    with pytest.raises(InputError, match="is not a folder"):
        Release.open(tmp_path / "nowhere")


def test_replicates_are_tables_like_the_released_one_and_spread_as_the_noise_does(opened):
    rows = opened.rows()
    tables = list(opened.replicates(6, seed=3))
    assert all(table.dtypes.equals(rows.dtypes) and len(table) == len(rows) for table in tables)
    again = next(iter(opened.replicates(6, seed=3)))
    assert again.equals(tables[0])
    share = [(table["ESR"] == "Employed").mean() for table in tables]
    found = combine(share, (rows["ESR"] == "Employed").mean())
    error = opened.estimate("proportion", {"ESR": 1})["standard_error"][0]
    assert 0.3 * error < found["standard_error"][0] < 3 * error


@pytest.mark.parametrize("selection", [None, "per-stratum"])
def test_misfits_of_pairs_move_nothing_that_was_measured(selection):
    """Regression test: a mean with an error of .1 was between 21 and 29 in the replicates of a release.

    Each misfit of the 24 pairs that were not measured also changed the margins of the columns.
    """
    evidence = evidence_of(people(8_000), 1.0, ["G"], selection=selection)
    few = {
        key: [each for each in found if len(each.columns) < 2 or {*each.columns} <= {"G", "X"}]
        for key, found in evidence.measured.items()
    }
    answers, rng = Answers(replace(evidence, measured=few), count=2), np.random.default_rng(0)
    assert len(answers.misfit.unmeasured) == 10
    model = answers.evidence.fitted
    rows = [replicate_rows(answers, model, evidence.strata.schema, 8_000, rng).astype({"Y": int}) for _ in range(8)]
    shares = [frame["Y"].mean() for frame in rows]
    groups = [frame[frame["G"] == 1]["X"].astype(int).mean() for frame in rows]
    assert np.std(shares) < 0.004  # .0016, and .0071 without raking
    assert np.std(groups) < 0.02
    assert np.std([frame["Y"].corr(frame["W"].astype(int)) for frame in rows]) > 0.1


@pytest.mark.parametrize("pool", [lambda _: ThreadPoolExecutor(1), pytest.param(None, marks=pytest.mark.slow)])
def test_replicates_are_the_same_however_many_processes_make_them(monkeypatch, pool):
    evidence = evidence_of(people(300), 1.0, ["G"])
    one = list(ReplicateGenerator(evidence).models(range(5)))
    monkeypatch.setattr(replicates, "_WORTH_A_POOL", 0.0)
    if pool is not None:
        monkeypatch.setattr(replicates, "process_pool", pool)
    two = list(ReplicateGenerator(evidence).models(range(5), workers=2))
    three = list(ReplicateGenerator(evidence).models([2, 4]))
    for (model, values), (other, same) in zip([*one, one[2], one[4]], [*two, *three], strict=True):
        assert (model.marginal(["X", "Y"]) == other.marginal(["X", "Y"])).all()
        assert all((a == b).all() for a, b in zip(values, same, strict=True))
    assert (one[0][1][0] != one[1][1][0]).any()


def test_results_are_combined_by_name():
    found = combine([{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0}], {"a": 2.0, "b": 2.0})
    assert found.loc["a", ["estimate", "standard_error"]].tolist() == [2.0, 1.0]
    assert found.loc["b", "lower"] == found.loc["b", "upper"] == 2.0
    with pytest.raises(InputError, match="at least two replicates"):
        combine([1.0])


def test_a_release_without_measurements_says_so(opened):
    card = dict(opened.card) | {"config": dict(opened.card["config"]) | {"synthesizer": "smartnoise-mst"}}
    other = Release(opened.folder, card, opened.schema, opened.manifest)
    with pytest.raises(InputError, match=r"publishes no measurements|smartnoise"):
        _ = other.evidence
    unknown = Release(opened.folder, card | {"relations": None}, opened.schema, opened.manifest)
    # An empty list would mean that all pairs were measured.
    with pytest.raises(InputError, match=r"publishes no measurements|smartnoise"):
        unknown.not_measured()


@pytest.fixture
def run(monkeypatch, capsys):
    return lambda *words: command(monkeypatch, capsys, *words)


def test_the_command_prints_a_table_or_json(folder, run):
    code, shown, _ = run("estimate", folder, "proportion", "ESR=Employed", "--by", "SEX")
    assert code == 0
    assert "Female" in shown
    assert "●" in shown
    code, _, said = run("estimate", folder, "count", "--where", "SEX")
    assert (code, "write COLUMN=VALUE" in said) == (2, True)
    lines = json.loads(run("estimate", folder, "proportion", "ESR=1", "--by", "SEX", "--json")[1])
    assert [line["SEX"] for line in lines] == [1, 2]
    assert all(line["lower"] < line["estimate"] < line["upper"] for line in lines)


def test_replicates_are_written_all_or_not_at_all(folder, tmp_path, run):
    assert run("replicate", folder, "--replicates", 2, "--output", tmp_path / "tables")[0] == 0
    files = sorted((tmp_path / "tables").iterdir())
    assert [file.name for file in files] == ["replicate-1.parquet", "replicate-2.parquet"]
    assert list(pd.read_parquet(files[0]).columns) == list(Release.open(folder).schema.names)
    code, _, said = run("replicate", folder, "--replicates", 2, "--output", tmp_path / "tables")
    assert (code, "exists already" in said) == (2, True)


@pytest.mark.parametrize(
    ("replicates", "released", "fault"),
    [
        (1.0, [1.0, 2.0], "replicates must be a list"),
        ("ab", "a", "replicates must be a list"),
        (None, None, "replicates must be a list"),
        ([1.0, "x"], 1.0, "replicates must be a list"),
        ([[[1.0]], [[2.0]]], 1.0, "replicates must be a list"),
        ([{"a": 1.0}, {"a": 2.0}], {"b": 1.0}, "other names"),
        ([1.0, 2.0], [1.0, 2.0], "other names, or another number"),
        ([{"a": 1.0}, {"b": 2.0}], {"a": 1.0}, "other names"),
        ([1.0, float("nan"), 2.0], 1.0, "not a finite number for 1 of 3 replicates"),
        ([{"a": 1.0, "b": 1.0}, {"a": 2.0}], None, "'b' is not a finite number for 1 of 2"),
        ([1.0, float("inf")], None, "not a finite number for 1 of 2"),
        ([1.0, 2.0], float("nan"), "not a finite number for the released rows"),
    ],
)
def test_results_that_do_not_go_together_are_refused(replicates, released, fault):
    """Regression test: wrong names gave an empty interval, and missing replicates were ignored."""
    with pytest.raises(InputError, match=fault):
        combine(replicates, released)


def test_results_by_place_take_the_names_of_the_replicates():
    found = combine(pd.DataFrame({"a": [1.0, 3.0], "b": [2.0, 2.0]}), [2.0, 2.0])
    assert found.index.tolist() == ["a", "b"]
    assert found["estimate"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("level", [1e-300, 0, 1, float("nan")])
def test_a_level_of_nothing_is_refused(level):
    """Regression test: the standard error is computed from the width of an interval, which is 0 for
    a level of 1e-300.
    """
    with pytest.raises(InputError, match="level"):
        combine([1.0, 2.0], 1.0, level)


def test_a_column_that_conditions_name_twice_is_refused(folder, monkeypatch, capsys):
    """Regression test: only the last condition was used."""
    asked = ("estimate", folder, "count", "--where", "SEX=1,SEX=2")
    code, _, said = command(monkeypatch, capsys, *asked)
    assert (code, "--where names 'SEX' twice" in said) == (2, True)
