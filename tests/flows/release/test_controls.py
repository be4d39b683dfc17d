"""Tests of releases with weights or numbers of rows that match public totals of people."""

import json
import re
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from edited_release import edited_copy
from made_up_people import PEOPLE_SCHEMA, made_up_people
from models_once import models_once
from plain_release import release

from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults, unchecked_properties
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.publication.verified import release_faults
from equistrata.flows.release.binding import binding, differences
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import drawing
from equistrata.flows.run.guard import StepFailed
from equistrata.privacy.ledger.ledger import Ledger

SCHEMA = PEOPLE_SCHEMA + "  OLD: {from: AGE, bins: [0, 39, 120], labels: ['no', 'yes']}\n"
WEIGHTED = SCHEMA + "survey_weight: {column: W, upper: 50}\n"
SIZES = {("1", "no"): 4000.25, ("2", "no"): 1000, ("1", "yes"): 0, ("2", "yes"): 250}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder with a table, its schema and totals by sex and age.

    The weight of women is four times as large.
    """
    folder = tmp_path_factory.mktemp("controls")
    frame = made_up_people(800)
    frame.assign(W=np.where(frame.SEX == 2, 8.0, 2.0), HOME=np.arange(800) // 2).to_csv(folder / "p.csv", index=False)
    (folder / "weighted.yaml").write_text(WEIGHTED)
    (folder / "plain.yaml").write_text(SCHEMA)
    write_totals(folder / "totals.csv")
    with models_once():
        yield folder


def write_totals(path, more=0.0):
    lines = [(sex, old, n + more * (n > 0)) for (sex, old), n in SIZES.items()]
    pd.DataFrame(lines, columns=["SEX", "OLD", "n"]).to_csv(path, index=False)


def settings_of(home, name, **more):
    paths = {"input": str(home / "p.csv"), "schema": str(home / "weighted.yaml"), "output": str(home / name)}
    given = {"source": "csv", "epsilon": 8.0, "strata": "SEX", "evaluate": "none", "runner": "threads", "workers": 1}
    return given | paths | more


def made(home, name, **more):
    if not (home / name).exists():
        release(settings_of(home, name, **more))
    return home / name


UNITS = {"unit": "HOME", "at_most": 2}
KINDS = {
    "rows": {},
    "no strata": {"strata": "", "rows": 60},
    "per stratum": {"selection": "per-stratum", "synthesizer": "aim"},
    "households": UNITS | {"unit_weights": "rows"},
    "units": UNITS | {"unit_weights": "units", "evaluate": "full"},
}


@pytest.mark.parametrize("kind", ["rows", "no strata", "per stratum", "households", "units"])
def test_weights_meet_the_totals_in_both_files(home, kind):
    folder = made(home, kind, controls=str(home / "totals.csv"), **KINDS[kind])
    for rows in (pd.read_csv(folder / "synthetic.csv"), pd.read_parquet(folder / "synthetic.parquet")):
        sums = rows.groupby([rows.SEX.astype(str), "OLD"]).W.sum()
        assert sums.reindex(SIZES.keys(), fill_value=0).tolist() == pytest.approx([*SIZES.values()], rel=1e-9)
        assert (rows.W >= 0).all()
    found = Release.open(folder)
    assert release_faults(found) == []
    assert found.controls.columns == ("SEX", "AGE")
    assert found.controls.totals.tolist() == [[4000.25, 0], [1000, 250]]
    assert "whether the totals of people match file 'totals.csv'" in unchecked_properties(found)
    said = found.card["controls"]
    assert (said["people"], said["columns"], said["cells"]) == (5250.25, ["SEX", "OLD"], 4)
    assert "5,250 people" in (folder / "card.md").read_text()
    assert sum(found.card["guarantee"]["split_of_rho"].values()) == pytest.approx(found.card["guarantee"]["rho"])
    replicate = next(found.replicates(2, labels=False))
    assert replicate.W.sum() == pytest.approx(5250.25)


@pytest.mark.parametrize("kind", ["rows", "no strata", "per stratum", "households"])
@pytest.mark.parametrize("controls", [True, False])
def test_expanded_rows_are_people(home, kind, controls):
    more = KINDS[kind] | ({"controls": str(home / "totals.csv")} if controls else {})
    folder = made(home, f"{kind} expanded {controls}", expand=True, **more)
    rows, found = pd.read_csv(folder / "synthetic.csv"), Release.open(folder)
    assert release_faults(found) == []
    assert "W" not in rows
    assert len(rows) == more.get("rows", 5250 if controls else len(rows))
    if controls:
        counts = rows.groupby([rows.SEX.astype(str), "OLD"]).size().reindex(SIZES.keys(), fill_value=0)
        assert counts.tolist() == pytest.approx(np.array([*SIZES.values()]) * len(rows) / 5250.25, abs=1)
    else:  # 400 rows have the weight 2, and 400 rows have the weight 8
        assert (rows.SEX == 2).mean() == pytest.approx(0.8, abs=0.06)
        assert "rows" in more or len(rows) == pytest.approx(4000, rel=0.25)  # the noise has no seed
    assert "each row stands for one person" in (folder / "card.md").read_text()
    for question in (lambda: found.estimate("count"), lambda: next(found.replicates(2)), found.expected_distances):
        with pytest.raises(InputError, match="is a person"):
            question()


def test_expanded_rows_beside_an_open_column_are_as_many_as_people(home):
    opened = WEIGHTED.replace("GROUP: {values: [a, b, c]}", "GROUP: {values: open, others: other}")
    (home / "open.yaml").write_text(opened)
    folder = made(home, "open", schema=str(home / "open.yaml"), expand=True)
    assert len(pd.read_csv(folder / "synthetic.csv")) == pytest.approx(4000, rel=0.25)


def test_a_changed_weight_total_or_number_of_people_is_found(home, tmp_path):
    folders = [made(home, "rows", controls=str(home / "totals.csv"))]
    folders.append(made(home, "rows expanded True", controls=str(home / "totals.csv"), expand=True))

    def heavier(copy):
        rows = pd.read_csv(copy / "synthetic.csv")
        rows.loc[rows.SEX == 2, "W"] *= 1 + 1e-5
        rows.to_csv(copy / "synthetic.csv", index=False)
        rows.to_parquet(copy / "synthetic.parquet")

    def another(copy):
        write_totals(copy / "controls.csv", more=1.0)

    def gone(copy):
        (copy / "controls.csv").unlink()

    def silent(copy):
        card = json.loads((copy / "card.json").read_text())
        (copy / "card.json").write_text(json.dumps(card | {"controls": None}))

    unmet, unlike = "do not meet the totals", "do not agree on whether there is a controls.csv"
    for change, sentence in ((heavier, unmet), (another, unmet), (gone, unlike), (silent, unlike)):
        copy = edited_copy(folders[0], tmp_path / change.__name__, change)
        assert any(sentence in fault for fault in faults(Release.open(copy))), change.__name__
    folders.append(made(home, "rows expanded False", expand=True))

    def workless(copy):
        rows = pd.read_csv(copy / "synthetic.csv")
        rows["JOB"] = "no"
        rows.to_csv(copy / "synthetic.csv", index=False)
        rows.to_parquet(copy / "synthetic.parquet")

    copy = edited_copy(folders[2], tmp_path / "workless", workless)
    assert "the shares of 'JOB' in the rows do not follow from the measurements" in faults(Release.open(copy))
    copy = edited_copy(folders[1], tmp_path / "people", another)
    assert any("do not match the numbers of people" in fault for fault in faults(Release.open(copy)))


def test_a_weight_above_its_bound_is_found_where_no_totals_are(home, tmp_path):
    folder = made(home, "bare")

    def heavy(copy):
        rows = pd.read_csv(copy / "synthetic.csv")
        rows.loc[0, "W"] = 1e6
        rows.to_csv(copy / "synthetic.csv", index=False)
        rows.to_parquet(copy / "synthetic.parquet")

    copy = edited_copy(folder, tmp_path / "heavy", heavy)
    assert "a weight 'W' of the rows is above its bound in schema.json" in faults(Release.open(copy))


def test_a_release_is_bound_to_the_content_of_its_totals(home, tmp_path):
    def plan():
        return Plan.of(ReleaseConfig.build(**settings_of(home, "never", controls=str(tmp_path / "totals.csv"))))

    write_totals(tmp_path / "totals.csv")
    then = binding(plan())
    write_totals(tmp_path / "totals.csv", more=1.0)
    now = plan()
    assert differences(then, binding(now), now.config) == [f"the control totals in {now.config.controls!r}"]


def test_a_resumed_release_has_the_totals_that_it_was_charged_with(home, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    Ledger(tmp_path / "ledger.db").create("people", 8.0, 1e-9)
    charged = {"dataset": "people", "ledger": str(tmp_path / "ledger.db"), "release_id": "r"}
    paths = {"controls": str(tmp_path / "totals.csv"), "output": str(tmp_path / "out")}
    settings = settings_of(home, "never", **charged, **paths)
    write_totals(tmp_path / "totals.csv")
    died = mock.Mock(side_effect=StepFailed("died"), __name__="resample")
    with mock.patch.object(drawing, "resample", died), pytest.raises(StepFailed):
        release(settings)
    write_totals(tmp_path / "totals.csv", more=1.0)
    with pytest.raises(InputError, match="this has changed: the control totals in"):
        release(settings)
    write_totals(tmp_path / "totals.csv")
    release(settings)
    assert faults(Release.open(tmp_path / "out")) == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"schema": "plain.yaml", "expand": True}, "needs a survey weight; give its column with --survey-weight"),
        (
            {"schema": "plain.yaml", "controls": "totals.csv"},
            "need a survey weight; give its column with --survey-weight",
        ),
        (
            {"schema": "plain.yaml", "controls": "sexes.csv"},
            "with --survey-weight; or, because the file only has the stratum columns, give it with --weights",
        ),
        ({"weights": "sexes.csv"}, "give public totals of people with --controls instead"),
        ({"weights": "sexes.csv", "combine_weights": True}, "give public totals of people with --controls instead"),
        ({"means": "PAY"}, "private means are means of rows"),
        ({"expand": True, "evaluate": "full"}, "choose --evaluate quick"),
        ({"controls": "totals.csv", "rows": 2}, "have people in 3 cells, and each cell needs a row"),
        ({"expand": True, "controls": "many.csv"}, "draw fewer rows (--rows)"),
        ({"rows": 2}, "the survey weights of 2 rows would not sum to the population"),
        ({"strata": "W"}, "is the survey weight, so it cannot define strata"),
        ({"synthesizer": "gem", "expand": True}, "choose mst or aim"),
    ],
)
def test_what_does_not_go_together_is_refused(home, settings, says):
    (home / "sexes.csv").write_text("SEX,count\n1,10\n2,30\n")
    (home / "many.csv").write_text("SEX,count\n1,1e12\n2,1e12\n")
    files = {key: str(home / value) for key, value in settings.items() if str(value).endswith((".csv", ".yaml"))}
    with pytest.raises(InputError, match=re.escape(says)):
        Plan.of(ReleaseConfig.build(**settings_of(home, "never", **settings | files)))
