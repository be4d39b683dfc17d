"""Tests of weighted answers: weighted sums, their sampling errors, and weights that are measured in groups of bins."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from in_process import command
from plain_release import release

from equistrata.analysis.answers import Answers
from equistrata.analysis.changes import ComparedRelease, changes
from equistrata.analysis.release import Release
from equistrata.analysis.series.releases import SeriesOfReleases
from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.survey.controls import Controls
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import Unit
from equistrata.errors import InputError
from equistrata.synth.measurements import Measurement, sum_groups
from equistrata.synth.models.columns.alone import tree_of
from equistrata.synth.models.columns.merging import merge_codes
from equistrata.synth.registry import mechanism
from equistrata.synth.synthesizer import StratifiedSynthesizer

SCHEMA = Schema.from_dict({
    "columns": {"G": {"values": [1, 2, 3]}, "Y": {"values": [0, 1]}, "X": {"values": [1, 2, 5, 9], "type": "ordinal"}},
    "survey_weight": {"column": "PW", "upper": 500},
})  # fmt: skip
PW = SCHEMA["PW"]
PAIRS = [("G", "PW"), ("Y", "PW"), ("X", "PW"), ("G", "Y"), ("G", "X")]


def people(seed, rows=4000, few=False):
    """Return rows with weights that depend on all columns.

    If `few` is True, there are only four weights, and each weight is the middle of a bin.
    """
    rng = np.random.default_rng(seed)
    group = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    yes = rng.random(rows) < np.array([0.3, 0.5, 0.7])[group]
    number = np.array([1, 2, 5, 9])[rng.integers(0, 2, rows) + group]
    weight = np.exp(rng.normal(3.0 + 0.4 * group - 0.4 * yes + 0.03 * number, 0.5)).clip(1, 500)
    weight = np.array([4.0, 20.0, 60.0, 400.0])[np.digitize(weight, [10, 30, 90])] if few else weight.round()
    return pd.DataFrame({"G": group + 1, "Y": yes.astype(int), "X": number, "PW": weight})


def answers_of(frame, sigma, seed, sets=PAIRS, groups=8, strata=()):
    """Measure each column, the tree of weights, and sets of columns in which the weights are in groups."""
    rng, table = np.random.default_rng(seed), CodedTable.encode(frame, SCHEMA)
    alone = [(("PW",), (kind,)) for kind in tree_of(PW)] + [((name,), (None,)) for name in ("G", "Y", "X")]
    law = table.marginal(("PW",)).astype(float)
    kinds = merge_codes(PW, law, groups, np.zeros(PW.size, dtype=np.intp))
    found = []
    for columns, merged in [*alone, *((s, tuple(kinds if n == "PW" else None for n in s)) for s in sets)]:
        exact = table.marginal(columns).astype(float)
        for axis, kind in enumerate(merged):
            exact = exact if kind is None else sum_groups(exact, axis, kind)
        found.append(Measurement(columns, exact + rng.normal(0, sigma, exact.shape), sigma, merged))
    return Answers(Evidence.of(Strata.over(SCHEMA, strata), {(): found}, mechanism("mst")), seed)


def exactly(frame, schema, sets):
    """Measure a table of any schema like `answers_of`, but with negligible noise and without groups."""
    table, alone = CodedTable.encode(frame, schema), [(("PW",), (kind,)) for kind in tree_of(PW)]
    _, kinds = np.unique(table.marginal(("PW",)).cumsum(), return_inverse=True)
    found = []
    for columns, merged in [
        *alone,
        *((s, tuple(tuple(kinds.tolist()) if n == "PW" else None for n in s)) for s in sets),
    ]:
        exact = table.marginal(columns).astype(float)
        for axis, kind in enumerate(merged):
            exact = exact if kind is None else sum_groups(exact, axis, kind)
        found.append(Measurement(columns, exact, 1e-3, merged))
    return Answers(Evidence.of(Strata.over(schema, ()), {(): found}, mechanism("mst")))


def real(frame, y, by=None):
    """Return weighted means by group, with their linearised sampling errors."""
    found = []
    for _, part in frame.assign(y=y).groupby(by) if by is not None else [(0, frame.assign(y=y))]:
        w, v = part["PW"], np.average(part["y"], weights=part["PW"])
        found.append((v, np.sqrt((w**2 * (part["y"] - v) ** 2).sum()) / w.sum()))
    return np.array(found)


def test_exact_counts_give_weighted_sums_and_the_errors_of_a_sample_with_these_weights():
    frame = people(0, few=True)
    answers = answers_of(frame, 1e-3, 0, groups=1000)
    asked = [
        (("proportion", {"Y": 1}), real(frame, frame["Y"])),
        (("mean", "X"), real(frame, frame["X"])),
        (("proportion", {"Y": 1}, (), {"G": 2}), None),
    ]
    for question, expected in asked[:2]:
        found = answers.estimate(*question, population=True)
        assert found["basis"].eq("measured").all()
        assert found["counted"].eq("people").all()
        assert found["estimate"].to_numpy() == pytest.approx(expected[:, 0], rel=1e-4)
        assert found["sampling_error"].to_numpy() == pytest.approx(expected[:, 1], rel=1e-2)
        twice = answers.estimate(*question, population=True, design_effect=4.0)
        assert twice["sampling_error"].to_numpy() == pytest.approx(2 * expected[:, 1], rel=1e-2)
    total = answers.estimate("count", {"G": 2}, population=True).iloc[0]
    weights = frame["PW"][frame["G"] == 2]
    assert total["estimate"] == pytest.approx(weights.sum(), rel=1e-3)
    assert total["sampling_error"] == pytest.approx(np.sqrt((weights**2).sum()), rel=1e-3)
    rows = answers.estimate("proportion", {"Y": 1}, weighted=False).iloc[0]
    assert rows["estimate"] == pytest.approx(frame["Y"].mean(), abs=1e-4)
    assert rows["counted"] == "rows of the file"


def test_of_what_weights_have_nothing_to_do_with_the_error_has_kishs_design_effect():
    frame = people(0, few=True)
    twins = pd.concat([frame.assign(Y=value) for value in (0, 1, 1, 1)])
    found = answers_of(twins, 1e-3, 0, groups=1000).estimate("proportion", {"Y": 1}, population=True).iloc[0]
    design_effect = 1 + twins["PW"].var(ddof=0) / twins["PW"].mean() ** 2
    assert found["estimate"] == pytest.approx(0.75, abs=1e-4)
    assert found["sampling_error"] ** 2 == pytest.approx(design_effect * 0.75 * 0.25 / len(twins), rel=1e-2)


def test_intervals_hold_weighted_numbers_although_weights_are_in_groups():
    inside = {"measured": [], "implied": []}
    for seed in range(20):
        frame = people(seed)
        answers = answers_of(frame, 12.0, seed)
        for question, y, by in [
            (("proportion", {"Y": 1}), frame["Y"], None),
            (("proportion", {"G": 3}), frame["G"] == 3, None),
            (("mean", "X"), frame["X"], None),
            (("proportion", {"Y": 1}, ["G"]), frame["Y"], "G"),
            (("mean", "X", ["G"]), frame["X"], "G"),
        ]:
            found, expected = answers.estimate(*question), real(frame, y, by)[:, 0]
            for line, value in zip(found.to_dict("records"), expected, strict=True):
                inside[line["basis"]].append(line["lower"] <= value <= line["upper"])
    assert np.mean(inside["measured"]) > 0.88
    assert np.mean(inside["implied"]) > 0.88


def test_totals_of_people_give_the_post_stratified_estimate_and_the_error_of_its_residuals():
    frame = people(0, few=True)
    answers = answers_of(frame, 1e-3, 0, [("G", "Y", "X", "PW")], groups=1000)
    totals = np.array([[50_000.0, 60_000.0], [30_000.0, 20_000.0]])
    answers.controls = Controls(("G", "X"), ((0, 1, 1), (0, 1, 0, 1)), totals, "a file")
    cell = (frame["G"] > 1) * 2 + frame["X"].isin([2, 9])
    sums = frame["PW"].groupby(cell).sum()
    weight = frame["PW"] * cell.map(dict(zip(sorted(sums.index), totals.ravel(), strict=True))) / cell.map(sums)
    for question, y, inside in [
        (("proportion", {"Y": 1}), frame["Y"], 1.0),
        (("mean", "X"), frame["X"], 1.0),
        (("proportion", {"Y": 1}, (), {"X": [2, 5]}), frame["Y"], frame["X"].isin([2, 5])),
        (("count", {"Y": 1}), frame["Y"], None),
    ]:
        found = answers.estimate(*question, population=True).iloc[0]
        below = 1.0 if inside is None else (weight * inside).sum()
        value = (weight * y * (1 if inside is None else inside)).sum() / below
        off = y if inside is None else (y - value) * inside
        off = off - ((weight * off).groupby(cell).sum() / weight.groupby(cell).sum()).reindex(cell).to_numpy()
        assert found["estimate"] == pytest.approx(value, rel=3e-3)
        assert found["sampling_error"] == pytest.approx(np.sqrt((weight**2 * off**2).sum()) / below, rel=0.05)
    by, off = answers.estimate("difference", {"Y": 1}, ["G"], population=True), []
    for group in (2, 1):
        inside = frame["G"] == group
        value = np.average(frame["Y"], weights=weight * inside)
        part = (frame["Y"] - value) * inside
        part = part - ((weight * part).groupby(cell).sum() / weight.groupby(cell).sum()).reindex(cell).to_numpy()
        off.append(weight * part / (weight * inside).sum())
    assert by["standard_error"][0] == pytest.approx(np.sqrt(((off[0] - off[1]) ** 2).sum()), rel=0.05)
    known = answers.estimate("count", {"G": [2, 3]}, population=True).iloc[0]
    assert known["estimate"] == pytest.approx(50_000)
    assert known["standard_error"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("kind", ["shared", "per-stratum", "units"])
def test_weighted_numbers_of_a_fit_by_strata(kind):
    frame = people(0, 8000)
    schema, codes = SCHEMA, CodedTable.encode(frame, SCHEMA).codes
    if kind == "units":
        schema = replace(SCHEMA, unit=Unit("HOME", 2, weights="units")).modelled
        codes = np.column_stack([codes, np.ones(len(codes))]).astype(codes.dtype)
    made = StratifiedSynthesizer(
        "mst", ["G"], epsilon=3, delta=1e-9, seed=0, selection="per-stratum" if kind == "per-stratum" else None
    ).fit(CodedTable(codes, schema))
    answers = Answers(Evidence.of(Strata.over(schema, ("G",)), made.measurements_, mechanism("mst")))
    for question, expected in [
        (("proportion", {"Y": 1}), real(frame, frame["Y"])[:, 0]),
        (("proportion", {"Y": 1}, ["G"]), real(frame, frame["Y"], "G")[:, 0]),
        (("mean", "X", ["G"]), real(frame, frame["X"], "G")[:, 0]),
        (("count",), [frame["PW"].sum()]),
        (("difference", {"Y": 1}, ["G"]), np.subtract((y := real(frame, frame["Y"], "G")[:, 0])[1:], y[0])),
    ]:
        found = answers.estimate(*question)
        assert (found["lower"] <= expected).all()
        assert (found["upper"] >= expected).all()
        assert found["counted"].eq("people").all()


def test_what_totals_make_too_large_is_refused_with_what_helps(monkeypatch):
    answers = answers_of(people(0, 500), 1.0, 0)
    answers.controls = Controls(("G", "X"), (None, None), np.ones((3, 4)), "a file")
    monkeypatch.setattr("equistrata.analysis.bases.weights.MOST_SUMS", 12 * PW.size)
    with pytest.raises(InputError, match="cells of G, Y, X, PW, are too many; give fewer columns"):
        answers.estimate("proportion", {"Y": 1})


def test_places_within_others_are_weighted_at_any_level_and_with_totals_of_any():
    schema = Schema.from_dict({
        "columns": {
            "P": {"within": "S", "values": {1: [1, 2], 2: [1, 2]}}, "Y": {"values": [0, 1]},
        },
        "survey_weight": {"column": "PW", "upper": 500},
    })  # fmt: skip
    frame = people(0, few=True)
    place = np.random.default_rng(1).integers(0, 2, len(frame)) + 2 * (frame["G"] > 1)
    rows = frame.assign(S=place // 2 + 1, P=place % 2 + 1)
    answers = exactly(rows, schema, [("P", "Y", "PW")])
    by = {"S": place // 2, "P": place}
    for name, codes in by.items():
        found = answers.estimate("proportion", {"Y": 1}, [name])
        assert found["estimate"].to_numpy() == pytest.approx(real(frame, frame["Y"], codes)[:, 0], rel=1e-3)
    for groups, cell, totals in [((0, 0, 1, 1), place // 2, [9e4, 3e4]), (None, place, [1e4, 5e4, 2e4, 3e4])]:
        answers.controls = Controls(("P",), (groups,), np.array(totals), "a file")
        weight = frame["PW"] * np.array(totals)[cell] / np.bincount(cell, frame["PW"])[cell]
        for name, codes in by.items():
            found = answers.estimate("proportion", {"Y": 1}, [name])["estimate"].to_numpy()
            assert found == pytest.approx(real(frame.assign(PW=weight), frame["Y"], codes)[:, 0], rel=5e-3)


def test_a_change_is_of_people_in_both_releases():
    sides = [ComparedRelease(str(seed), SCHEMA, answers_of(people(seed), 5.0, seed)) for seed in (0, 1)]
    found = changes(*sides, "proportion", {"Y": 1}, population=True).iloc[0]
    each = [side.answers.estimate("proportion", {"Y": 1}, population=True).iloc[0] for side in sides]
    assert found["estimate"] == pytest.approx(each[1]["estimate"] - each[0]["estimate"])
    for part in ("privacy_error", "sampling_error"):
        assert found[part] == pytest.approx(np.hypot(*(one[part] for one in each)), rel=0.01)
    assert found["counted"] == "people"
    bare = ComparedRelease(
        "2",
        SCHEMA.select(["G", "Y", "X"]),
        Answers(Evidence.of(Strata.over(SCHEMA.select(["G", "Y", "X"]), ()), {(): []}, mechanism("mst"))),
    )
    with pytest.raises(InputError, match="compare rows in both"):
        changes(sides[0], bare, "proportion", {"Y": 1})
    others = answers_of(people(2).assign(PW=1), 5.0, 2)
    found = changes(sides[0], ComparedRelease("3", SCHEMA.select(["G", "Y", "X"]), others), "count", weighted=False)
    assert found["counted"].tolist() == ["rows of the file"]
    with pytest.raises(InputError, match="has no survey weight"):
        bare.answers.estimate("proportion", {"Y": 1}, weighted=True)


def test_what_is_not_answered_about_people_is_refused():
    frame = people(0, 500)
    answers = answers_of(frame, 5.0, 0)
    for question, words in [
        (("mean", "PW"), "is the survey weight"),
        (("proportion", {"Y": 1}, ["PW"]), "is the survey weight"),
        (("independence", "Y", ["G"]), "cannot be estimated for people"),
        (("logit", {"Y": 1}, ["G"]), "cannot be estimated for people"),
        (("proportion", {"Y": 1}, ["G", "X"]), "did not measure G, Y, X all together"),
    ]:
        with pytest.raises(InputError, match=words):
            answers.estimate(*question)
    assert answers.estimate("independence", "Y", ["G"], weighted=False)["counted"][0] == "rows of the file"
    nobody = answers_of(frame.assign(PW=0), 1e-3, 0)
    with pytest.raises(InputError, match="adds up to zero"):
        nobody.estimate("proportion", {"Y": 1})


def test_the_command_says_whom_it_counts_and_parts_the_error(tmp_path, monkeypatch, capsys):
    people(0, 3000).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "schema.yaml").write_text(
        "columns: {G: {values: [1, 2, 3], labels: {1: a label that is longer than most are}}, Y: {values: [0, 1]}}\n"
        "survey_weight: {column: PW, upper: 500}\n"
    )
    folder = tmp_path / "release"
    release({
        "source": "csv", "input": str(tmp_path / "rows.csv"), "schema": str(tmp_path / "schema.yaml"),
        "strata": ("G",), "columns": ("G", "Y"), "evaluate": "none", "output": str(folder), "seed": 1,
    })  # fmt: skip
    asked = (monkeypatch, capsys, "estimate", str(folder), "difference", "Y=1", "--by", "G", "--population")
    code, printed, _ = command(*asked)
    assert code == 0
    assert "of people, by PW" in printed
    assert all(word in printed for word in ("privacy", "sampling"))
    assert max(map(len, printed.splitlines())) <= 100
    alone = command(monkeypatch, capsys, "estimate", str(folder), "count", "--population")[1]
    assert "…" not in printed + alone
    assert "of rows of the file, without PW" in command(*asked, "--unweighted")[1]
    drawn = tmp_path / "drawn.svg"
    command(*asked, "--plot", str(drawn))
    assert "estimate of people" in drawn.read_text("utf-8")
    series = SeriesOfReleases("year", 12, {1: Release.open(folder)})
    monkeypatch.setattr(SeriesOfReleases, "open", lambda *_: series)
    course = command(monkeypatch, capsys, "series", "course", str(folder), "count")[1]
    assert "people" in course
    assert "of people, by PW" in course
    assert "rows" not in course
    later = Release.open(folder)
    vars(later)["schema"] = later.schema.without_weight()
    with pytest.raises(InputError, match="some months count people"):
        SeriesOfReleases("year", 12, {1: Release.open(folder), 2: later}).course("count")
    for line in json.loads(command(*asked, "--json")[1]):
        assert np.hypot(line["privacy_error"], line["sampling_error"]) == pytest.approx(line["standard_error"])


def test_a_release_that_meets_totals_answers_with_them(tmp_path):
    frame, folder = people(0, 2000), tmp_path / "release"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "totals.csv").write_text("G,population\n1,90000\n2,30000\n3,9000\n")
    (tmp_path / "schema.yaml").write_text(
        "columns: {G: {values: [1, 2, 3]}, Y: {values: [0, 1]}}\nsurvey_weight: {column: PW, upper: 500}\n"
    )
    release({
        "source": "csv", "input": str(tmp_path / "rows.csv"), "schema": str(tmp_path / "schema.yaml"),
        "strata": ("G",), "columns": ("G", "Y"), "evaluate": "none", "output": str(folder), "seed": 1,
        "controls": str(tmp_path / "totals.csv"),
    })  # fmt: skip
    opened = Release.open(folder)
    assert opened.estimate("count", "G")["estimate"].to_numpy() == pytest.approx([90_000, 30_000, 9_000])
    rows, found = opened.rows(labels=False), opened.estimate("proportion", {"Y": 1}).iloc[0]
    assert found["lower"] <= np.average(rows["Y"], weights=rows["PW"]) <= found["upper"]
