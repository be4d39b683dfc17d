"""A panel by the flow's own steps: what is linked, bought and published, what is refused, kills, and edited files."""

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pandas as pd
import pytest
from made_up_people import PEOPLE_SCHEMA, made_up_people
from monthly import places_of_its_own, two_months_of
from plain_release import release

import equistrata.flows.release.measuring.links
from equistrata.analysis.panel import ids_of
from equistrata.analysis.release import Release
from equistrata.analysis.series.releases import SeriesOfReleases
from equistrata.analysis.verify import faults
from equistrata.data.files.manifest import write_manifest
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.publication.publish import publish_release
from equistrata.flows.release.prepared import prepare
from equistrata.flows.release.steps import describing, drawing, fitting, reading
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger
from equistrata.synth.series.panel import Panel

TOTAL, SHARE = Rho.from_epsilon_delta(8, 1e-9), 0.1
PART = "transitions of people"


def tables(months, rows=2500):
    """The small table with a column of ids, month by month: 60 people leave, 80 come, and some change JOB."""
    rng, frame = np.random.default_rng(3), made_up_people(rows)
    frame.insert(0, "PID", [f"p{n}" for n in range(rows)])
    found = [frame]
    for month in range(2, months + 1):
        new = made_up_people(80)
        new.insert(0, "PID", [f"q{month}-{n}" for n in range(80)])
        frame = pd.concat([frame.iloc[60:], new], ignore_index=True)
        moved = rng.random(len(frame)) < 0.05
        frame.loc[moved, "JOB"] = np.where(frame.loc[moved, "JOB"] == "yes", "no", "yes")
        found.append(frame.sample(frac=1, random_state=month).reset_index(drop=True))
    return found


class Office:
    """Settings of a monthly release with a panel, and its ledger."""

    def __init__(self, home, schema):
        self.home, self.schema, self.out = home, schema, home / "out"
        self.ledger = Ledger(home / "ledger.db")
        self.ledger.create("people", 30, 1e-9)
        for month, frame in enumerate(tables(4), start=1):
            frame.to_csv(self.table(month), index=False)

    def table(self, month):
        return self.home / f"people{month}.csv"

    def settings(self, month, panel=None, **changes):
        before = {"input": str(self.table(month - 1))} if month > 1 else {}
        return {
            "source": "csv", "input": str(self.table(month)), "schema": str(self.schema), "strata": "SEX",
            "evaluate": "none", "workers": 1, "dataset": "people", "ledger": str(self.home / "ledger.db"),
            "output": str(self.out / f"m{month}"), "release_id": f"people-{month}", "epsilon": 8,
            "series": {"name": "year", "horizon": 4},
            "panel": {"id": "PID", "columns": "JOB"} | before if panel is None else panel,
        } | changes  # fmt: skip

    def make(self, month, served=False, **changes):
        return release(self.settings(month, **changes), served)

    def prepare(self, month, **changes):
        return prepare(ReleaseConfig.build(**self.settings(month, **changes)))

    def read(self, month, name="card.json"):
        return json.loads((self.out / f"m{month}" / name).read_text())

    def series(self):
        return SeriesOfReleases.open(list(self.out.glob("m?")))

    def edit(self, month, name, change):
        """Edit a JSON file of a month, and its manifest."""
        path = self.out / f"m{month}" / name
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
        write_manifest(self.out / f"m{month}")


@pytest.fixture
def office(people, tmp_path, monkeypatch):
    places_of_its_own(monkeypatch, tmp_path)
    return Office(tmp_path, people[1])


@pytest.fixture(scope="module")
def two_months(tmp_path_factory):
    """The folder of months 1 and 2, made once: to be copied."""

    def office_in(home):
        (home / "people.yaml").write_text(PEOPLE_SCHEMA)
        return Office(home, home / "people.yaml")

    return two_months_of(tmp_path_factory.mktemp("two-months"), office_in)


def test_people_are_followed_within_the_months_price(office):
    for month in range(1, 5):
        office.make(month, served=True)
        card, panel = office.read(month), office.read(month, "panel.json")
        assert faults(Release.open(office.out / f"m{month}")) == []
        assert card["guarantee"]["rho"] == pytest.approx(float(TOTAL) / 4)
        paid = card["guarantee"]["split_of_rho"].get(PART, 0.0)
        assert paid == pytest.approx(float(TOTAL) / 4 * SHARE if month > 1 else 0.0)
        assert sum(1 / (2 * each["sigma"] ** 2) for each in panel["measured"]) == pytest.approx(paid)
        ids = ids_of(Release.open(office.out / f"m{month}"))
        assert len(ids) == card["rows"] == len(set(ids))
        assert card["panel"]["id"] == "PID"
    assert office.ledger.spent("people") == TOTAL
    assert office.series().faults() == []
    months = tables(4)
    both = [before.merge(now, on="PID") for before, now in pairwise(months)]
    changed = {month: (each["JOB_x"] != each["JOB_y"]).mean() for month, each in enumerate(both, start=2)}
    for line in office.series().transitions().to_dict("records"):
        assert 0 < line["left"] < 250
        if line["column"] != "JOB":
            assert np.isnan(line["measured"])
            assert (line["low"], line["high"]) == (0, 1)
            continue
        error = (line["high"] - line["low"]) / (2 * 1.96)
        assert 0 < error < 0.01
        assert line["measured"] == pytest.approx(changed[line["month"]], abs=5 * error)  # a false alarm in 10⁶
        assert line["realised"] == pytest.approx(line["expected"], abs=0.01)
    cells = office.series().transition_cells()
    assert set(cells["before"]) == set(cells["now"]) == {"no", "yes"}
    sums = cells.groupby(["month", "before"])["share"].sum()
    assert sums.to_numpy() == pytest.approx(np.ones(6))
    assert (cells["low"] <= cells["share"]).all()
    assert (cells["share"] <= cells["high"]).all()
    found = office.series().people()
    begins = found["synthetic_id"] != found["synthetic_id"].shift()
    assert begins.sum() == found["synthetic_id"].nunique()  # people after each other,
    assert (found["month"].diff()[~begins] > 0).all()  # and their months in order
    assert len(found) == sum(office.read(month)["rows"] for month in range(1, 5))
    assert not found.duplicated(["synthetic_id", "month"]).any()
    one = found[found["month"] == 2].set_index("synthetic_id")
    rows = Release.open(office.out / "m2").rows(labels=False).assign(ID=ids_of(Release.open(office.out / "m2")))
    assert one.loc[rows["ID"], "JOB"].tolist() == rows["JOB"].tolist()


def test_the_id_and_the_tables_place_are_nowhere_in_the_folder(made):
    for path in (made.out / "m2").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"p1234" not in content
            assert made.table(1).name.encode() not in content
    assert "PID" not in pd.read_csv(made.out / "m2" / "synthetic.csv").columns


def test_somebody_who_stays_in_a_bin_keeps_the_number_that_was_drawn(made):
    found = made.series().people().pivot_table(index="synthetic_id", columns="month", values="AGE").dropna()
    cut = [np.searchsorted([17, 39, 64], found[month]) for month in (1, 2)]
    same = cut[0] == cut[1]
    assert same.mean() > 0.9
    assert (found[1] == found[2])[same].all()
    assert (found[1] != found[2])[~same].all()


def test_a_release_without_a_panel_is_as_before(office):
    office.make(1, panel={})
    assert office.read(1).get("panel") is None
    assert "panel" not in office.read(1)["config"]
    assert not list((office.out / "m1").glob("panel*"))
    plain = ReleaseConfig.build(**office.settings(1, panel={}))
    assert plain.digest == ReleaseConfig.build(**{k: v for k, v in office.settings(1).items() if k != "panel"}).digest
    assert plain.digest != ReleaseConfig.build(**office.settings(1)).digest
    moved = office.settings(2)["panel"] | {"input": "elsewhere.csv"}
    assert (
        ReleaseConfig.build(**office.settings(2)).digest
        == ReleaseConfig.build(**office.settings(2, panel=moved)).digest
    )


def refused(office, month, match, **changes):
    """Refused, with nothing charged and nothing made."""
    spent = office.ledger.spent("people")
    with pytest.raises(InputError, match=match) as raised:
        office.make(month, **changes)
    assert office.ledger.spent("people") == spent
    assert not (office.out / f"m{month}").exists()
    assert "p123" not in str(raised.value)
    return str(raised.value)


def panel(**changes):
    return {"id": "PID", "columns": "JOB"} | changes


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"panel": {"columns": "JOB"}}, "name it with --panel"),
        ({"panel": {"id": "PID"}}, "name a few with --panel-columns"),
        ({"panel": {"id": " ", "columns": "JOB"}}, "'panel.id' is blank"),
        ({"panel": panel(share=0)}, "panel.share"),
        ({"panel": panel(columns="PAY")}, "'PAY' is not among the released columns"),
        ({"panel": panel(id="JOB")}, "'JOB' names people, and is among the released columns"),
        ({"panel": panel(id="PAY"), "means": "PAY"}, "'PAY' names people, and is among"),
        ({"panel": panel(id="NOBODY")}, "has no column 'NOBODY'"),
        ({"panel": panel(), "series": {}}, "a panel follows people over the months of a series"),
        ({"panel": panel(), "unit": "HOME", "at_most": 3}, "the unit of privacy is all rows with one HOME"),
        ({"panel": panel(), "source": "sample", "input": None}, "source 'sample' has no column that names persons"),
        ({"panel": panel(), "synthesizer": "smartnoise-mst"}, "synthesizer 'smartnoise-mst' accounts"),
    ],
    ids=str,
)
def test_what_cannot_be_a_panel_is_refused(office, settings, match):
    refused(office, 1, match, **settings)


def test_an_open_column_cannot_be_followed(office):
    office.schema.write_text(office.schema.read_text().replace("JOB: {values: ['no', 'yes']}", "JOB: {values: open}"))
    refused(office, 1, "'JOB' has open values, and its changes cannot be measured")


@pytest.mark.parametrize("month", [1, 2])
@pytest.mark.parametrize(("cell", "match"), [("p7", "'PID' repeat in this month's table"), ("", "'PID' has empty")])
def test_ids_that_cannot_link_are_refused_before_anything_is_paid(office, month, cell, match):
    if month == 2:
        office.make(1)
    frame = pd.read_csv(office.table(month))
    frame.loc[3, "PID"] = frame.loc[900, "PID"] if cell else None
    frame.to_csv(office.table(month), index=False)
    refused(office, month, match)


def test_the_table_of_the_month_before_is_needed_and_has_to_be_that_one(office):
    office.make(1)
    refused(office, 2, "name that one with --panel-input", panel=panel())
    refused(office, 2, "file '.*gone.csv' does not exist", panel=panel(input=str(office.home / "gone.csv")))
    refused(
        office, 2, "is not the table that release 'people-1' was made from", panel=panel(input=str(office.table(3)))
    )
    with office.table(1).open("a") as file:
        file.write("p99999,1,a,30,no,1.0\n")
    refused(office, 2, "is not the table that release 'people-1' was made from")


def test_a_table_of_the_month_before_that_does_not_fit_is_named(office, monkeypatch):
    monkeypatch.setattr("equistrata.flows.release.account.Account.made_from", lambda *_: True)
    office.make(1)
    frame = pd.read_csv(office.table(1))
    frame.assign(JOB="other").to_csv(office.table(1), index=False)
    refused(office, 2, r"the month before's table \(panel input\): column 'JOB' holds a value")
    frame.assign(PID="p1234").to_csv(office.table(1), index=False)
    refused(office, 2, "repeat in the month before's table")


def test_the_unit_may_be_the_person_and_may_be_replaced(office):
    office.ledger.create("persons", 30, 1e-9, relation="replace-one of all rows with one PID")
    for month in (1, 2):
        office.make(month, dataset="persons", unit="PID", relation="replace-one")
        assert faults(Release.open(office.out / f"m{month}")) == []
    (measured,) = office.read(2, "panel.json")["measured"]
    price = float(TOTAL) / 4 * SHARE
    assert measured["sigma"] == pytest.approx((2 / (2 * price)) ** 0.5)  # two cells move
    assert office.read(2)["guarantee"]["split_of_rho"][PART] == pytest.approx(price)


def test_transitions_that_noise_would_hide_cost_nothing(office):
    for month in (1, 2):
        office.make(month, epsilon=0.05)
    assert PART not in office.read(2)["guarantee"]["split_of_rho"]
    assert office.read(2, "panel.json")["measured"] == []
    people = office.read(2)["panel"]["people"]  # except for those of a stratum that noise makes smaller
    assert people["stayed"] + people.get("lost", 0) == min(office.read(month)["rows"] for month in (1, 2))
    lines = office.series().transitions()
    assert "JOB" in set(lines["column"])
    assert lines["measured"].isna().all()
    assert (lines["low"] == 0).all()
    assert (lines["high"] == 1).all()
    assert office.series().transition_cells().empty
    (warning,) = office.prepare(3, epsilon=0.05)[0].warnings
    assert "how JOB changes is not measured in this month" in warning
    assert "none: noise would hide it" in (office.out / "m2" / "card.md").read_text()
    assert office.series().faults() == []


def test_a_panel_may_begin_later_and_a_month_may_be_missing(office):
    office.make(1, panel={})
    office.make(2)
    assert office.read(2)["panel"]["former"] is None
    assert PART not in office.read(2)["guarantee"]["split_of_rho"]
    assert ids_of(Release.open(office.out / "m2"))[0].startswith("m2-")
    with pytest.raises(InputError, match="is not the table that release 'people-2' was made from"):
        office.make(4, panel=panel(input=str(office.table(3))))
    office.make(4, panel=panel(input=str(office.table(2))))
    said = office.read(4)
    assert (said["series"]["month"], said["panel"]["former"]) == (3, 2)
    assert office.series().faults() == []
    assert set(office.series().people()["month"]) == {2, 3}


def test_a_schema_that_changed_leaves_the_column_out(office):
    office.make(1)
    other = office.home / "other.yaml"
    other.write_text(office.schema.read_text().replace("['no', 'yes']", "['no', 'yes', 'both']"))
    office.make(2, schema=str(other))
    assert office.read(2, "panel.json")["measured"] == []
    assert "JOB" not in office.read(2, "panel.json")["realised"]
    assert office.series().faults() == []


def weighted(office, month, share):
    path = office.home / f"weights{month}.csv"
    pd.DataFrame({"SEX": [1, 2], "weight": [share, 1 - share]}).to_csv(path, index=False)
    return {"weights": str(path), "weight_column": "weight"}


@pytest.mark.parametrize("later", [0.5, 0.8])
def test_weights_move_no_one_to_another_stratum(office, later):
    """They had: 29 % of the people changed SEX where the weights of two months were half and four fifths."""
    for month, share in ((1, 0.5), (2, later)):
        office.make(month, served=True, **weighted(office, month, share))
    card, folders = office.read(2), [office.out / f"m{month}" for month in (1, 2)]
    found = office.series().people().pivot(index="synthetic_id", columns="month", values="SEX").dropna()
    assert (found[1] == found[2]).all()
    assert faults(Release.open(folders[1])) == office.series().faults() == []
    page = (folders[1] / "card.md").read_text()
    assert "|\n\nThey were linked by" in page  # else it is a row of the table
    page = " ".join(page.split())
    lost = card["panel"]["people"].get("lost", 0)
    assert ("no one is moved to another stratum" in page) == (lost > 0) == (later == 0.8)
    if lost:
        rows = [pd.read_parquet(folder / "synthetic.parquet")["SEX"].value_counts() for folder in folders]
        assert card["panel"]["people"]["stayed"] == np.minimum(*rows).sum()
        assert lost == pytest.approx(0.28 * card["rows"], rel=0.1)
        line = office.series().transitions().set_index("column").loc["JOB"]
        assert line["realised"] == pytest.approx(line["expected"], abs=0.01)


class Killed(BaseException):
    pass


POINTS = [
    (reading, "partition", "before", 1),
    (equistrata.flows.release.measuring.links, "measure_transitions", "after", 2),
    (equistrata.flows.release.flow, "measure_links", "after", 1),
    (fitting, "measure_stratum", "after", 2),
    (drawing, "resample", "before", 1),
    (equistrata.flows.release.measuring.links, "write_ids", "after", 1),
    (describing, "land_release", "before", 1),
]


# The flow's own steps, where any release may die, are those of test_undertaking.py too.
SLOW = ("measure_links", "resample", "land_release")


@pytest.mark.parametrize(
    ("place", "point", "side", "charges"),
    [pytest.param(*point, id=point[1], marks=[pytest.mark.slow] * (point[1] in SLOW)) for point in POINTS],
)
def test_a_killed_month_is_resumed_and_noise_that_was_drawn_again_is_paid_again(
    office, monkeypatch, place, point, side, charges
):
    office.make(1)
    honest = getattr(place, point)

    def deadly(*given):
        if side == "after":
            honest(*given)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(place, point, deadly)
        with pytest.raises(Killed):
            office.make(2)
    office.make(2)
    found = office.ledger.charges("people", "people-2")
    assert len(found) == charges
    again = {part for charge in found[1:] for part in charge.entry.parts if not part.startswith("series ")}
    assert again == ({PART} if point == "measure_transitions" else {"synthesis"} if charges == 2 else set())
    assert office.series().faults() == []
    assert office.read(2)["series"]["so_far"]["rho"] == pytest.approx(float(office.ledger.spent("people")))
    office.make(3)
    assert office.series().faults() == []
    assert not list((office.home / "state").glob("*"))


def test_saved_noise_needs_no_row_of_the_month_before_any_more(office, monkeypatch):
    office.make(1)
    with monkeypatch.context() as patched:
        patched.setattr(drawing, "resample", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            office.make(2)
    office.table(1).unlink()
    office.make(2)
    assert len(office.ledger.charges("people", "people-2")) == 1
    assert office.series().faults() == []


def test_the_month_before_may_not_change_while_noise_is_drawn(office, monkeypatch):
    office.make(1)
    with monkeypatch.context() as patched:
        patched.setattr(fitting, "measure_stratum", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            office.make(2)
    shutil.copy(office.table(3), office.table(1))
    with pytest.raises(InputError, match="is not the table that release 'people-1' was made from"):
        office.make(2)
    monkeypatch.setattr("equistrata.flows.release.account.Account.made_from", lambda *_: True)
    with pytest.raises(InputError, match="the input has changed since release 'people-2' began"):
        office.make(2)


ONE_MONTH = "import json, sys; from plain_release import release; release(json.loads(sys.argv[1]), served=False)"


def test_two_at_once_are_one_month(office):
    """Processes of their own: never forks, which JAX forbids where another test has imported it."""
    office.make(1)
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", ONE_MONTH, json.dumps(office.settings(2))]
    both = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stderr=PIPE) for _ in range(2)]
    ended = [(each.communicate(timeout=240)[1], each.returncode) for each in both]
    assert 0 in [code for _, code in ended]
    for said, code in ended:
        assert code == 0 or b"wait for it to end" in said
    assert len(office.ledger.charges("people", "people-2")) == 1
    assert office.series().faults() == []


def swapped(document):
    document["realised"]["JOB"][0][0] += 1


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("panel.json", lambda doc: doc["measured"][0].update(sigma=1.0), "transitions of people cost"),
        ("panel.json", lambda doc: doc["measured"].clear(), "transitions of people cost"),
        ("panel.json", lambda doc: doc["people"].update(stayed=5), "what the card says of its people"),
        ("panel.json", lambda doc: doc.update(month=3), "is of another month"),
        ("panel.json", lambda doc: doc.update(format="else"), "is no panel of this version"),
        ("panel.json", lambda doc: doc["state"]["known"][0]["values"].__setitem__(0, 1.0), "does not follow from"),
        ("panel.json", lambda doc: doc["former"].update(panel="0" * 64), "follows people of another month 1"),
        ("panel.json", swapped, "do not change in 'JOB' as panel.json says"),
        ("card.json", lambda doc: doc["panel"]["columns"][0].update(measured=0.5), "what the card says of its people"),
        ("card.json", lambda doc: doc.pop("panel"), "do not agree on whether there is a panel"),
        ("card.json", lambda doc: doc["guarantee"]["split_of_rho"].pop(PART), "transitions of people cost"),
    ],
)
def test_what_was_edited_is_found(made, name, change, match):
    made.edit(2, name, change)
    assert any(pd.Series(made.series().faults()).str.contains(match))


def test_a_card_of_before_is_read_as_it_was(made):
    """Until 2026-11-26 a card had the share that was drawn towards persistence, with the error of what was measured."""
    panel = Panel.load(made.out / "m2" / "panel.json")
    made.edit(2, "card.json", lambda card: card.update(panel=panel.earlier_summary() | {"id": "PID"}))
    assert made.series().faults() == []
    made.edit(2, "card.json", lambda card: card["panel"]["columns"][0].update(error=0.5))
    assert any("what the card says of its people" in fault for fault in made.series().faults())


def test_ids_that_were_edited_are_found(made):
    path = made.out / "m2" / "panel.csv"
    honest = path.read_text()
    frame = pd.read_csv(path)
    rows = Release.open(made.out / "m2").rows(labels=False)
    old = np.flatnonzero(frame["synthetic_id"].str.startswith("m1-"))
    # Two of them have other jobs now, and had other ones before, so that exchanging them changes how many changed.
    before = Release.open(made.out / "m1").rows(labels=False)["JOB"]
    former = dict(zip(pd.read_csv(made.out / "m1" / "panel.csv")["synthetic_id"], before, strict=True))
    jobs = [(rows["JOB"][place], former[frame["synthetic_id"][place]]) for place in old]
    one, two = next((old[0], place) for place, (now, then) in zip(old, jobs, strict=True)
                    if now != jobs[0][0] and then != jobs[0][1])  # fmt: skip
    new = np.flatnonzero(frame["synthetic_id"].str.startswith("m2-"))[0]

    def edited(match, *pairs):
        changed = frame.copy()
        for place, name in pairs:
            changed.loc[place, "synthetic_id"] = name
        changed.to_csv(path, index=False)
        write_manifest(made.out / "m2")
        assert any(pd.Series(made.series().faults()).str.contains(match)), match

    ids = frame["synthetic_id"]
    edited("do not change in 'JOB'", (one, ids[two]), (two, ids[one]))
    edited("does not give each row an id of its own", (one, ids[two]))
    edited("does not follow the people of the month before", (one, "m1-99999"))
    edited("the new people of panel.csv", (new, "m2-99999"))
    edited("the new people of panel.csv", (new, "m1-99998"))
    path.write_text(honest.rsplit("\n", 2)[0] + "\n")
    write_manifest(made.out / "m2")
    assert any("not as many people" in fault for fault in faults(Release.open(made.out / "m2")))
    path.write_text(honest)
    path.write_text(honest.replace("m2-1\n", "m2-2\n"))
    with pytest.raises(InputError, match="was edited after the release"):
        made.series()


def test_a_former_panel_that_is_not_whole_is_refused(office):
    office.make(1)
    path = office.out / "m1" / "panel.csv"
    path.write_text(path.read_text().rsplit("\n", 2)[0] + "\n")
    refused(office, 2, "file 'panel.csv' .* is cut off")
    write_manifest(office.out / "m1")
    refused(office, 2, "does not have an id for each of its rows")
    (office.out / "m1" / "panel.json").write_text("{}")
    write_manifest(office.out / "m1")
    refused(office, 2, "is no panel of this version")


def test_a_month_of_a_series_and_its_panel_can_be_published(office):
    for month in (1, 2):
        office.make(month)
        publish_release(office.out / f"m{month}", office.home / f"published{month}")
        assert (office.home / f"published{month}" / "panel.csv").exists()
        assert (office.home / f"published{month}" / "series.json").exists()


def test_a_series_without_a_panel_has_no_people(office):
    office.make(1, panel={})
    with pytest.raises(InputError, match="no month of series 'year' has a panel"):
        office.series().people()
    assert office.series().transitions().empty


@pytest.mark.parametrize(
    "settings",
    [
        {"selection": "per-stratum"},
        pytest.param({"synthesizer": "gem"}, marks=pytest.mark.slow),
        {"strata": "SEX,GROUP", "means": "PAY"},
        {"strata": ""},
        {"strata": "JOB"},
        pytest.param({"evaluate": "full", "rows": 500}, marks=pytest.mark.slow),
        pytest.param({"open": True}, marks=pytest.mark.slow),
        pytest.param({"more": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_releases_of_every_kind_have_a_panel(office, settings):
    if settings.get("open"):
        office.schema.write_text(office.schema.read_text().replace("[a, b, c]", "open"))
    if settings.get("more"):  # a date, decimals, absent cells, codes beside numbers
        declared = office.schema.read_text().replace(
            "[SEX, GROUP, AGE, JOB]", "[SEX, GROUP, AGE, JOB, DAY, SHARE, PAID]"
        )
        declared += "  DAY: {type: date, lower: '2020-01-01', upper: '2024-12-31', every: year, missing: own}\n"
        declared += "  SHARE: {lower: 0, upper: 1, decimals: 2, edges: [0, 0.25, 0.5, 1]}\n"
        declared += "  PAID: {lower: 0, upper: 9000, edges: [0, 500, 9000], integer: true, codes: {-9: refused}}\n"
        office.schema.write_text(declared)
        for month in (1, 2):
            frame = pd.read_csv(office.table(month))
            number = frame["PID"].str.extract(r"(\d+)$")[0].astype(int)
            frame["DAY"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(number % 1500, "D")).dt.strftime("%Y-%m-%d")
            frame.loc[number % 10 == 0, "DAY"] = None
            frame["SHARE"] = (number % 101) / 100
            frame["PAID"] = np.where(number % 7 == 0, -9, number * 3)
            frame.to_csv(office.table(month), index=False)
    changes = {name: value for name, value in settings.items() if name not in ("open", "more")}
    for month in (1, 2):
        office.make(month, served=True, **changes)
        assert faults(Release.open(office.out / f"m{month}")) == []
    assert office.series().faults() == []
    line = office.series().transitions().set_index("column").loc["JOB"]
    assert line["measured"] == pytest.approx(0.05, abs=5 * (line["high"] - line["low"]) / (2 * 1.96) + 0.005)
    assert line["stayed"] > 0.9 * min(office.read(month)["rows"] for month in (1, 2))
    if settings.get("more"):
        found = office.series().people()
        for name in ("DAY", "SHARE", "PAID", "AGE"):
            wide = found.pivot(index="synthetic_id", columns="month", values=name).dropna()
            assert (wide[1] == wide[2]).mean() > 0.8, name
            kinds = [pd.read_parquet(office.out / f"m{month}" / "synthetic.parquet")[name].dtype for month in (1, 2)]
            assert kinds[0] == kinds[1]


def test_a_table_of_hardly_anybody(office):
    """The noisy number of rows may be 0 in either month."""
    for month in (1, 2):
        pd.read_csv(office.table(month)).head(3).to_csv(office.table(month), index=False)
        office.make(month, epsilon=0.05)
        assert faults(Release.open(office.out / f"m{month}")) == []
    assert office.series().faults() == []
