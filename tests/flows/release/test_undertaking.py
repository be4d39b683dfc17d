"""Tests that a charged release is completed after it was killed at any point, and that all noise is charged."""

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd
import pytest
from in_process import command
from left_in import left_in
from plain_release import POINTS, SHARED_POINTS, numbered, release

from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release import prepared
from equistrata.flows.release.binding import binding
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.prepared import ReleaseExists, prepare, with_release_id
from equistrata.flows.release.steps import reading
from equistrata.flows.release.undertaking import discard
from equistrata.flows.run.disk import DiskFull
from equistrata.flows.run.guard import StepFailed
from equistrata.flows.run.journal import Journal
from equistrata.flows.run.landing import claimed_output
from equistrata.flows.run.workspace import unit_name
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.ledger import Ledger, LedgerError
from equistrata.synth.mechanisms.mst import MST
from equistrata.synth.storage import load_all_measurements
from equistrata.synth.strata.weights import combined_weights

AGAIN = {
    "begun, not drawn": ["synthesis"],
    "drawn, not saved": ["synthesis"],
    "first drawn, not saved": ["synthesis"],
    "half saved": ["synthesis"],
    "mean drawn, not saved": ["stratified mean of PAY"],
    "second mean drawn": ["vanilla mean of PAY"],
}
SHARED = {"selection": "shared"}
SHARED_AGAIN = {"shared: begun, not drawn", "shared: drawn, not saved", "shared: half saved"}
UNCHARGED = {"before the journal", "before rows", "among rows", "before the charge", "inside the charge"}


class Place:
    """A folder for releases of the small table, with its ledger, its state folder and its temporary folder."""

    def __init__(self, home, people, killer):
        table, schema, _ = people
        self.killer = killer
        self.home, self.state, self.tmp = home, home / "state", home / "tmp"
        for folder in (self.home, self.tmp):
            folder.mkdir()
        self.ledger = Ledger(home / "ledger.db")
        self.ledger.create("people", 50, 1e-9)
        self.settings = {
            "source": "csv", "input": str(table), "schema": str(schema), "strata": "SEX", "means": "PAY",
            "workers": 1, "selection": "per-stratum",
            "means_estimator": "both", "ledger": str(home / "ledger.db"), "dataset": "people",
            "output": str(home / "out{n}"), "release_id": "release-{n}",
        }  # fmt: skip

    def die(self, *points, **changes):
        """Run one release per point in a process that is killed at this point."""
        environment = {"EQUISTRATA_STATE": str(self.state), "TMPDIR": str(self.tmp)}
        self.killer(settings=self.settings | changes, environment=environment, points=points)

    def resume(self, number=0, **changes):
        return release(numbered(self.settings | changes, number))

    def charges(self, number=0):
        return self.ledger.charges("people", f"release-{number}")

    def plan(self):
        return Plan.of(ReleaseConfig.build(**numbered(self.settings, "x")))

    @staticmethod
    def unit(value):
        """Return the file name of the stratum SEX = value."""
        return unit_name(["SEX"], [value])

    def card(self, number=0):
        return json.loads((self.home / f"out{number}" / "card.json").read_text())

    def leftovers(self):
        """Return a list of the files that must not exist after all releases are complete."""
        found = [*left_in(self.state), *self.tmp.iterdir(), *self.home.glob(".out*")]
        return [path.name for path in found]


@pytest.fixture(scope="module")
def killer():
    """Return a function that runs releases which are killed, in a separate process that imports all modules once."""
    script = Path(__file__).parents[2] / "plain_release.py"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, script], cwd=script.parents[2], text=True, **pipes) as process:

        def kill(**order):
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer or json.loads(answer):
                process.kill()
                pytest.fail(answer + process.stderr.read())

        yield kill
        process.kill()  # a process that was forked later may keep the input open, so that the process would not end


@pytest.fixture
def place(tmp_path, people, monkeypatch, killer):
    made = Place(tmp_path / "place", people, killer)
    monkeypatch.setenv("EQUISTRATA_STATE", str(made.state))
    monkeypatch.setenv("TMPDIR", str(made.tmp))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return made


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# These are the kinds of steps at which a release may be killed: before the charge, after it, after noise was drawn or
# saved, while the release is written, and after it is in place or committed.
FEW = ["among rows", "inside the charge", "drawn, not saved", "half saved", "mean drawn, not saved", "half copied",
       "committed"]  # fmt: skip


@pytest.mark.parametrize(
    "points",
    [FEW, pytest.param([point for point in POINTS if point not in FEW], marks=pytest.mark.slow)],
    ids=["few", "others"],
)
def test_a_release_that_dies_anywhere_ends_whole_and_is_charged_for_what_it_drew(place, points):
    whole = numbered(place.settings, "whole")
    release(whole)
    price = place.charges("whole")[0].entry.rho
    place.die(*points)
    for number, point in enumerate(points):
        assert len(place.charges(number)) == (point not in UNCHARGED), point
        if point == "journal half gone":  # the release is complete and its journal is removed
            with pytest.raises(InputError, match="charged already"):
                place.resume(number)
        else:
            place.resume(number)
        charges = place.charges(number)
        assert [list(charge.entry.parts) for charge in charges[1:]] == ([AGAIN[point]] if point in AGAIN else []), point
        assert {charge.outcome for charge in charges} == {"committed"}, point
        assert charges[0].entry.rho == price, point
        assert files(place.home / f"out{number}") == files(place.home / "outwhole"), point
        card = place.card(number)
        assert (
            card["ledger"]["rho"]
            == card["guarantee"]["rho"]
            == float(sum((c.entry.rho for c in charges), start=Rho(0)))
        )
        assert sum(card["guarantee"]["split_of_rho"].values()) == pytest.approx(card["guarantee"]["rho"])
    assert place.leftovers() == []
    place.ledger.verify()


SHARED_FEW = ["shared: drawn, not saved", "shared: half saved", "shared: models half saved", "shared: half laid out"]


@pytest.mark.parametrize(
    "points",
    [SHARED_FEW, pytest.param([point for point in SHARED_POINTS if point not in SHARED_FEW], marks=pytest.mark.slow)],
    ids=["few", "others"],
)
def test_a_release_with_one_choice_for_all_strata_that_dies_anywhere_ends_whole(place, points):
    """If the fit is not saved, it is charged again.

    If the measurements are saved, the model is fitted without a charge.
    """
    release(numbered(place.settings | SHARED, "whole"))
    place.die(*points, **SHARED)
    for number, point in enumerate(points):
        kept = Journal.find(f"release-{number}").paid / f"fit_{unit_name([], [])}" / "measurements.json"
        measured = kept.read_bytes() if kept.exists() else None
        assert (measured is None) == (point in SHARED_AGAIN), point
        place.resume(number, **SHARED)
        charges = place.charges(number)
        assert [charge.entry.parts for charge in charges[1:]] == [("synthesis",)] * (point in SHARED_AGAIN), point
        assert {charge.outcome for charge in charges} == {"committed"}, point
        assert files(place.home / f"out{number}") == files(place.home / "outwhole"), point
        released = (place.home / f"out{number}" / "measurements" / "all.json").read_bytes()
        assert measured in (None, released), point
        assert place.card(number)["selection"] == "shared"
    assert place.leftovers() == []


def test_what_is_charged_again_is_the_price_of_what_is_drawn_again(place):
    place.die("drawn, not saved", "mean drawn, not saved")
    parts = place.plan().parts
    for number, part in enumerate(["synthesis", "stratified mean of PAY"]):
        place.resume(number)
        again = place.charges(number)[1].entry
        assert (again.rho, again.parts) == (parts[part], (part,))
        assert again.reason == f"noise drawn again after a crash: {part}"
        card = place.card(number)
        total = sum(parts.values(), start=Rho(0)) + parts[part]
        assert card["guarantee"]["rho"] == float(total)
        assert card["guarantee"]["epsilon"] == total.epsilon(1e-9) > 1
        assert f"Charged again: ρ = {float(parts[part]):.6g}" in (place.home / f"out{number}" / "card.md").read_text()


def test_saved_measurements_are_used_again_and_not_measured_anew(place):
    place.die("second mean drawn")
    paid = Journal.find("release-0").paid
    kept = {value: (paid / f"fit_{place.unit(value)}" / "measurements.json").read_bytes() for value in (1, 2)}
    mean = json.loads((paid / f"mean_{unit_name('stratified mean of PAY')}.json").read_text())["strat_coinpress"]
    place.resume()
    released = place.home / "out0" / "measurements"
    assert {value: (released / f"SEX={value}.json").read_bytes() for value in (1, 2)} == kept
    means = json.loads((place.home / "out0" / "means.json").read_text())
    assert means["outcomes"]["PAY"]["strat_coinpress"] == mean


@pytest.mark.parametrize(
    ("selection", "point"), [("shared", "shared: half laid out"), ("per-stratum", "saved, not modelled")]
)
def test_weights_joined_with_counts_are_made_of_what_was_saved(place, selection, point):
    weights = place.home / "weights.csv"
    weights.write_text("SEX,count\n1,100\n2,900\n")
    changes = {"selection": selection, "weights": str(weights), "combine_weights": True, "rows": 1000}
    place.die(point, **changes)
    place.resume(**changes)
    assert len(place.charges()) == 1
    source = "file 'weights.csv', column 'count' and noisy counts (charged), by inverse variance"
    assert place.card()["strata"]["weights"] == source
    schema = place.plan().schema
    strata = Strata.over(schema, ["SEX"])
    measured = load_all_measurements(strata, place.home / "out0" / "measurements")
    again = combined_weights(strata, measured, PublicWeights.from_file(weights, strata))
    rows = pd.read_csv(place.home / "out0" / "synthetic.csv")["SEX"].value_counts().to_dict()
    assert rows == {key: count for (key,), count in again.allocate(1000).items()}


def test_a_stratum_is_drawn_at_most_as_often_as_it_was_paid_for(place):
    """If two runs are killed in the same stratum, there are three charges.

    If they are killed in different strata, the second draw is already paid for.
    """
    place.die("first drawn, not saved")
    # The first stratum is drawn again and saved, and the second stratum is drawn for the first time
    place.die("drawn, not saved")
    place.resume()
    assert [len(charge.entry.parts) for charge in place.charges()] == [3, 1]
    same = {"output": str(place.home / "same{n}"), "release_id": "same-{n}"}
    for _ in range(3):
        place.die("first drawn, not saved", **same)
    place.resume(**same)
    assert [len(charge.entry.parts) for charge in place.ledger.charges("people", "same-0")] == [3, 1, 1, 1]


def test_a_crash_leaves_no_row_in_what_is_kept(place, people):
    table, _, frame = people
    frame.loc[5, "PAY"] = 731924.6481
    frame.to_csv(table, index=False)
    place.die("second mean drawn", "half copied")
    journals = [path for path in place.state.rglob("*") if path.is_file()]
    mean = f"mean_{unit_name('stratified mean of PAY')}.json"
    assert {"measurements.json", "model.npz", mean, "release.json"} <= {path.name for path in journals}
    assert not any("stratum" in path.name or "outcome" in path.name or "held" in path.name for path in journals)
    assert not any(b"731924" in path.read_bytes() or b"scores" in path.read_bytes() for path in journals)
    assert oct(place.state.stat().st_mode)[-3:] == "700"
    assert list(place.tmp.rglob("*.npy")), "the dead run's rows are still in its working folder"
    assert list(place.home.glob(".out*.part"))
    place.resume("next")
    assert list(place.tmp.iterdir()) == [], "the next run, of any release, removes them"
    assert list(place.home.glob(".out*")) == [], "and the half-written folder"
    assert {path.name for path in left_in(place.state)} == {"release-0", "release-1"}


def test_rows_that_changed_since_cannot_be_joined(place, people):
    table, _, frame = people
    place.die("drawn, not saved", "before scores")
    frame.iloc[:-1].to_csv(table, index=False)
    with pytest.raises(InputError, match="the input has changed since release 'release-0' began"):
        place.resume(0)
    assert len(place.charges(0)) == 1
    assert not (place.home / "out0").exists()
    place.resume(1)  # All noise is saved, so that the rows are only needed for the exact scores, which are omitted.
    assert not (place.home / "out1.internal").exists()
    assert len(place.charges(1)) == 1
    frame.to_csv(table, index=False)
    place.resume(0)
    assert place.leftovers() == []


def test_rows_of_which_the_mark_is_gone_cannot_be_joined(place, people):
    table, _, frame = people
    place.die("drawn, not saved")
    (mark,) = place.state.glob("*/snapshot")
    mark.rename(place.home / "aside")
    frame.iloc[:-1].to_csv(table, index=False)
    for _ in range(2):  # the first attempt must not accept these rows
        with pytest.raises(InputError, match="the input has changed since release 'release-0' began"):
            place.resume()
    assert len(place.charges()) == 1
    frame.to_csv(table, index=False)
    (place.home / "aside").rename(mark)
    place.resume()
    assert place.leftovers() == []


def test_rows_that_change_while_they_are_read_are_not_charged_for(place, people, monkeypatch):
    """The digest is computed from the new rows.

    If the release is killed, it would use these rows together with the measurements of the old rows.
    """
    table, _, frame = people
    honest = reading.partition

    def partition(plan, work):
        honest(plan, work)
        frame.iloc[:-1].to_csv(table, index=False)

    monkeypatch.setattr(reading, "partition", partition)
    with pytest.raises(InputError, match="the input changed while it was read; start again"):
        place.resume()
    assert place.ledger.history()[1:] == []
    assert place.leftovers() == []
    place.resume()  # the file has the same bytes as before
    assert len(place.charges()) == 1


def test_a_release_that_has_become_another_is_not_resumed(place, people, monkeypatch):
    """The stratum of men is already measured.

    Each change that affects a unit is named, and nothing is drawn or charged.
    """
    schema, weights, means = people[1], place.home / "weights.csv", place.home / "means.yaml"
    declared = people[1].read_text().replace("[1, 2]", "[1, 2], labels: {1: men, 2: women}")
    job = "  JOB: {values: ['no', 'yes']}\n"
    shares, averaged = "SEX,share\n1,0.5\n2,0.5\n", "columns:\n  PAY: {lower: 0, upper: 1000000, sigma: 25000}\n"
    for path, text in ((schema, declared), (weights, shares), (means, averaged)):
        path.write_text(text)
    changes = {"weights": str(weights), "means_schema": str(means)}
    place.die("drawn, not saved", **changes)
    kept = Journal.find("release-0")
    before = {path: path.read_bytes() for path in kept.paid.rglob("*") if path.is_file()}
    (charge,), head = place.charges(), place.ledger.head
    assert (kept.paid / f"fit_{place.unit(1)}").exists()
    assert not (kept.paid / f"fit_{place.unit(2)}").exists()
    load = reading.partition
    monkeypatch.setattr(
        "equistrata.flows.release.steps.reading.partition", lambda *given: pytest.fail("rows were read")
    )

    def refused(sentence):
        with pytest.raises(InputError, match=re.escape(sentence)) as caught:
            place.resume(**changes)
        assert str(caught.value).startswith("since release 'release-0' was charged, this has changed: ")
        assert "undo the change, or give the release up (equistrata resume --discard release-0)" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert {path: path.read_bytes() for path in kept.paid.rglob("*") if path.is_file()} == before
        assert place.ledger.head == head

    others = {
        declared.replace("[1, 2]", "[2, 1]"): "(column 'SEX': the order of its values)",
        declared.replace("1: men", "1: boys"): "(column 'SEX': its labels)",
        declared.replace(job, "").replace("columns:\n", f"columns:\n{job}"): "(the order of its columns)",
    }
    assert declared not in others
    for text, told in others.items():
        schema.write_text(text)
        refused(f"the schema {str(schema)!r} {told}")
    schema.write_text(declared.replace("default: [SEX, ", "default: ["))
    with pytest.raises(
        InputError,
        match=r"release-0' was charged, but something that it needs has changed: stratum column 'SEX' .* --discard",
    ):
        place.resume(**changes)
    schema.write_text(f"# the same, said in another way\n{declared}")
    for path, text, other in (
        (weights, shares, shares.replace("5\n", "6\n", 1).replace("5\n", "4\n")),
        (means, averaged, averaged.replace("25", "26")),
    ):
        path.write_text(other)
        refused(str(path))
        path.write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr(
            "equistrata.flows.release.binding.version", lambda name: "9.9" if name == "equistrata" else version(name)
        )
        refused(f"equistrata ({version('equistrata')} then, 9.9 now);")
    with monkeypatch.context() as patch:
        patch.setattr("equistrata.flows.release.plan.mechanism", lambda *named: MST(readable=0.4))
        refused("the mechanism's settings;")
    monkeypatch.setattr(reading, "partition", load)
    place.resume(**changes)  # the measurements of the men are used, and the women are measured again
    assert [charge.entry.parts for charge in place.charges()] == [charge.entry.parts, ("synthesis",)]
    (men,) = (content for path, content in before.items() if path.name == "measurements.json")
    released = place.home / "out0" / "measurements"
    assert (released / "SEX=1.json").read_bytes() == men != (released / "SEX=2.json").read_bytes()
    assert place.leftovers() == []


def test_what_has_changed_before_the_charge_or_after_the_release_is_no_matter(place, people):
    """If nothing was charged, the release starts again with the current settings.

    If the release is complete, only the ledger is updated.
    """
    schema = people[1]
    turned = schema.read_text().replace("SEX: {values: [1, 2]}", "SEX: {values: [2, 1]}")
    place.die("before the charge", "in place", "committed")
    schema.write_text(turned)
    for number in range(3):
        place.resume(number)
        (charge,) = place.charges(number)
        assert charge.outcome == "committed"
    begun_anew, *others = (json.loads((place.home / f"out{n}" / "schema.json").read_text()) for n in range(3))
    assert begun_anew["columns"][0]["values"] == [2, 1]
    assert [other["columns"][0]["values"] for other in others] == [[1, 2]] * 2
    with pytest.raises(ReleaseExists, match="is complete"):
        place.resume(1)
    assert place.leftovers() == []


def test_a_release_begun_anew_is_bound_to_what_it_is_now(place, people):
    schema = people[1]
    old = schema.read_text()
    place.die("before the charge")
    schema.write_text(old.replace("[1, 2]", "[2, 1]"))
    place.die("drawn, not saved")
    schema.write_text(old)
    with pytest.raises(InputError, match="the order of its values"):
        place.resume()
    schema.write_text(old.replace("[1, 2]", "[2, 1]"))
    place.resume()


def test_a_charge_that_another_process_made_meanwhile_is_looked_at_again(place, people, monkeypatch):
    schema = people[1]
    old = schema.read_text()
    place.die("before the charge")
    schema.write_text(old.replace("[1, 2]", "[2, 1]"))
    earlier = prepare(ReleaseConfig.build(**numbered(place.settings, 0)))
    schema.write_text(old)
    place.die("drawn, not saved")
    head = place.ledger.head
    monkeypatch.setattr("equistrata.flows.release.prepared.prepare", lambda config: earlier)
    with pytest.raises(InputError, match="the order of its values"):
        place.resume()
    assert place.ledger.head == head


def test_a_plan_is_made_once_and_bound_once(place, monkeypatch):
    """A prepared plan is used in the next run if the configuration is the same, and it is used only once."""
    made = []
    for module, name, counted in (
        ("prepared", "Plan.of", Plan.of),
        ("prepared", "binding", binding),
        ("undertaking", "binding", binding),
    ):
        monkeypatch.setattr(
            f"equistrata.flows.release.{module}.{name}",
            lambda *given, _name=name, _counted=counted, **named: made.append(_name) or _counted(*given, **named),
        )
    config = ReleaseConfig.build(**numbered(place.settings, 0))
    plan, _ = prepare(config)
    assert place.resume().plan is plan
    assert made == ["Plan.of", "binding"]
    prepare(ReleaseConfig.build(**numbered(place.settings, 1)))
    assert place.resume(2).plan.config.release_id == "release-2"
    assert made == ["Plan.of", "binding", "Plan.of", "Plan.of", "binding"]


def rewrite(journal, **changes):
    path = journal.root / "release.json"
    record = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in record.items() if value is not None}))


def test_a_journal_that_says_another_thing_than_the_charge_is_refused(place, people, monkeypatch, capsys):
    """The journal may be edited so that a changed schema is accepted.

    It can also be damaged or can be written by a different version.
    """
    place.die("drawn, not saved")
    journal, head = Journal.find("release-0"), place.ledger.head
    people[1].write_text(people[1].read_text().replace("[1, 2]", "[2, 1]"))
    rewrite(journal, binding=binding(place.plan()))
    with pytest.raises(
        InputError, match="the saved files of release 'release-0' do not match its charge in the ledger"
    ):
        place.resume()
    rewrite(journal, format="equistrata journal 1", binding=None)
    with pytest.raises(InputError, match="charged by an earlier version of equistrata, which did not record"):
        place.resume()
    rewrite(journal, format="equistrata journal 3")
    with pytest.raises(
        InputError, match="cannot be read, because another version of equistrata wrote it, or it is damaged"
    ):
        place.resume()
    code, _, told = command(monkeypatch, capsys, "resume", "release-0")
    assert (code, "cannot be read, because another version" in told) == (2, True)
    assert place.ledger.head == head
    monkeypatch.setattr(Ledger, "lease_holder", lambda *given: None)  # the lease of the killed run has ended
    code, *_ = command(monkeypatch, capsys, "resume", "--discard", "release-0", "--ledger", place.ledger.path)
    assert code == 0
    assert place.charges()[0].outcome == "failed"
    assert [path.name for path in left_in(place.state)] == []


def test_a_release_of_an_earlier_version_is_given_up_or_ended_if_it_is_whole(place):
    place.die("drawn, not saved", "in place")
    for number in range(2):
        rewrite(Journal.find(f"release-{number}"), format="equistrata journal 1", binding=None)
    discard(Journal.find("release-0"))
    place.resume(1)
    assert [place.charges(number)[0].outcome for number in range(2)] == ["failed", "committed"]
    assert place.leftovers() == []


def test_a_release_whose_noise_is_saved_needs_no_input(place, people):
    place.die("before scores")
    people[0].unlink()
    place.resume()
    assert (place.home / "out0" / "means.json").exists()


def test_a_redraw_that_does_not_fit_is_refused_and_changes_nothing(place):
    place.die("drawn, not saved")
    left = place.ledger.remaining("people")
    place.ledger.reserve("people", left - Rho(0.0001), "all the rest")
    before = place.ledger.head
    with pytest.raises(BudgetExceeded, match=r"release-0.*only 0\.0001 is left"):
        place.resume()
    assert place.ledger.head == before
    assert Journal.find("release-0") is not None


def test_a_failure_is_told_and_can_be_resumed(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("equistrata.flows.release.steps.drawing.rows_of_units", lambda *given: 1 / 0)
        with pytest.raises(StepFailed, match="resample failed with ZeroDivisionError"):
            place.resume()
    (charge,) = place.charges()
    assert (charge.outcome, place.ledger.history()[-1].reason) == ("failed", "StepFailed")
    place.resume()
    assert [entry.kind for entry in place.ledger.history()] == ["create", "reserve", "fail", "resume", "commit"]
    assert place.leftovers() == []


def test_what_fails_before_the_charge_leaves_nothing(place, people):
    table, _, frame = people
    frame.loc[3, "GROUP"] = "canary"
    frame.to_csv(table, index=False)
    with pytest.raises(InputError, match="'GROUP' holds a value"):
        place.resume()
    assert place.ledger.history()[1:] == []
    assert place.leftovers() == []


def test_a_release_that_does_not_fit_is_refused_with_what_is_left(place):
    with pytest.raises(BudgetExceeded, match=r"release 'release-0' of data set 'people' asks for"):
        place.resume(epsilon=100)
    assert place.leftovers() == []
    assert place.ledger.head.entries == 1


def test_no_mechanism_sees_a_row_before_the_charge(place, monkeypatch):
    """Each function that reads rows from the working folder and each mechanism is called after the charge."""
    seen = []

    def watch(target):
        original = resolve_name(target)

        def watched(*args, **kwargs):
            seen.append((target, [charge.outcome for charge in place.charges(number)]))
            return original(*args, **kwargs)

        monkeypatch.setattr(target, watched)

    readers = [
        "equistrata.flows.run.workspace.Workspace.load_table",
        "equistrata.flows.release.steps.fitting.measure_stratum",
        "equistrata.flows.release.measuring.means._mean",
    ]
    for target in readers:
        watch(target)
    number = 0
    place.resume(number)
    assert {target for target, _ in seen} == set(readers)
    assert all(outcomes == ["reserved"] for _, outcomes in seen), seen

    def refuse(*args, **kwargs):
        raise BudgetExceeded(Rho(2), Rho(1), "another release was quicker")

    monkeypatch.setattr(Ledger, "reserve", refuse)
    number, seen[:] = 1, []
    with pytest.raises(BudgetExceeded):
        place.resume(number)
    assert seen == []
    assert place.leftovers() == []


def test_a_damaged_ledger_stops_everything(place):
    content = bytearray(place.ledger.path.read_bytes())
    at = content.find(b"add-remove")
    content[at] ^= 1
    place.ledger.path.write_bytes(content)
    with pytest.raises(LedgerError, match="entry 1"):
        place.resume()
    assert not (place.home / "out0").exists()
    assert not place.state.exists()


def test_a_release_id_belongs_to_one_release(place):
    place.die("after the charge")
    with pytest.raises(InputError, match="started with other settings"):
        place.resume(epsilon=2)
    other = Ledger(place.home / "other.db")
    other.create("people", 3, 1e-9)
    with pytest.raises(InputError, match="started with another ledger"):
        place.resume(ledger=str(place.home / "other.db"))
    place.resume(workers=2)  # the number of workers may change
    for again in ({}, {"epsilon": 3}):
        with pytest.raises(InputError, match="charged already"):
            place.resume(**again)
    with pytest.raises(InputError, match="charged already"):
        place.resume(output=str(place.home / "elsewhere"))
    assert place.leftovers() == []


def test_the_command_of_a_killed_release_given_again_is_charged_nothing(place):
    """Otherwise the command would start a new release with a different id at the full price."""
    place.die("drawn, not saved")
    again = numbered(place.settings, 0) | {"release_id": "another"}
    why = r"'release-0' into .* was charged, but is not complete; continue it with equistrata resume release-0 \("
    with pytest.raises(InputError, match=why):
        release(again)
    with pytest.raises(InputError, match=why):
        prepare(ReleaseConfig.build(**again))
    assert not place.ledger.charges("people", "another")
    release(again | {"output": str(place.home / "elsewhere")})


@pytest.mark.parametrize("point", ["before the charge", "drawn, not saved"])
def test_a_release_that_was_not_charged_or_was_given_up_leaves_its_folder_to_another(place, point):
    place.die(point)
    if place.charges():
        discard(Journal.of("release-0"))
    release(numbered(place.settings, 0) | {"release_id": "another"})
    assert len(place.ledger.charges("people", "another")) == 1


def test_a_release_that_runs_is_not_resumed_beside_itself(place):
    place.die("after the charge")
    with Journal.find("release-0").held(), pytest.raises(InputError, match="is running already"):
        place.resume()
    place.resume()


def test_giving_up_leaves_the_charge_and_nothing_else(place):
    place.die("drawn, not saved", "half copied")
    discard(Journal.find("release-0"))
    discard(Journal.find(str(place.home / "out1")))
    for number in range(2):
        (charge,) = place.charges(number)
        assert charge.outcome == "failed"
    assert place.leftovers() == []
    with pytest.raises(InputError, match="charged already"):
        place.resume()


def test_a_whole_release_is_not_given_up(place):
    place.die("in place")
    with pytest.raises(InputError, match="is complete"):
        discard(Journal.find("release-0"))
    place.resume()
    assert place.charges()[0].outcome == "committed"


def test_ids_are_made_from_the_output_and_something_unique():
    made = with_release_id(ReleaseConfig.build(dataset="d", ledger="l.db", output="a/b c/mön thly"))
    assert made.release_id.startswith("m-n-thly-")
    assert len(made.release_id) == len("m-n-thly-") + 12
    assert with_release_id(made) is made
    run = "0f9a6c1e-7d5b-4f0e-9a64-1d2c3b4a5f6e"
    again = [
        with_release_id(ReleaseConfig.build(dataset="d", ledger="l.db", output="..."), run).release_id for _ in range(2)
    ]
    assert again == ["release-0f9a6c1e7d5b"] * 2
    assert with_release_id(ReleaseConfig.build()).release_id is None


def test_who_does_not_get_the_output_is_charged_nothing_and_leaves_nothing(place):
    """The ids and the state folders of the runs are different. A run that is stopped also keeps its claim."""
    before = place.ledger.head
    with claimed_output(place.home / "out0"):
        for changes in ({}, {"dataset": None, "ledger": None, "release_id": None}):
            with pytest.raises(InputError, match="another run is making output folder"):
                place.resume(0, **changes)
        assert place.ledger.head == before
        assert list(place.state.glob("release-*")) == list(place.tmp.iterdir()) == []
    place.resume(0)
    with pytest.raises(InputError, match="exists already"):
        place.resume(0, release_id="another")
    assert len(place.ledger.charges("people", "another")) == 0
    assert place.leftovers() == []


def test_an_output_that_was_made_while_one_waited_for_its_place_is_left_alone(place, monkeypatch):
    """The other run is completed after the first check but before the claim."""
    original = prepared.prepare

    def earlier(config):
        told = original(config)
        (place.home / "out0").mkdir(exist_ok=True)
        return told

    monkeypatch.setattr(prepared, "prepare", earlier)
    for changes in ({}, {"dataset": None, "ledger": None, "release_id": None}):
        with pytest.raises(InputError, match="exists already"):
            place.resume(0, **changes)
        (place.home / "out0").rmdir()
    assert place.charges() == []
    assert place.leftovers() == []


def test_a_release_that_another_run_made_meanwhile_is_not_made_again(place, monkeypatch):
    """The id of the other run is the same. It is completed after the ledger is read but before the claim."""
    original = prepared.prepare

    def earlier(config):
        told = original(config)
        monkeypatch.setattr(prepared, "prepare", original)
        place.resume(0)
        return told

    monkeypatch.setattr(prepared, "prepare", earlier)
    with pytest.raises(ReleaseExists, match="'release-0' of data set 'people' was charged already and is complete"):
        place.resume(0, output=str(place.home / "elsewhere"))
    assert len(place.charges()) == 1
    assert not (place.home / "elsewhere").exists()
    assert place.leftovers() == []


def test_a_release_whose_output_was_taken_goes_on_into_another_folder(place):
    place.die("before scores")
    (place.home / "out0").mkdir()  # this folder was made by another program after the kill
    with pytest.raises(InputError, match=r"is not this release.*equistrata resume release-0 --output"):
        place.resume()
    new = str(place.home / "new")
    place.die("half copied", output=new)
    assert Journal.find("release-0").output == Path(new), "whoever resumes it next needs no --output"
    assert Journal.find(new) is not None
    place.resume(output=new)
    (charge,) = place.charges()
    assert charge.outcome == "committed"
    assert json.loads((place.home / "new" / "card.json").read_text())["ledger"]["release_id"] == "release-0"
    assert list((place.home / "out0").iterdir()) == []
    assert place.leftovers() == []


def test_a_folder_that_another_ledger_was_charged_for_is_another_release(place):
    """Otherwise there would be a charge without a release, and the noise would be deleted."""
    Ledger(place.home / "other.db").create("people", 3, 1e-9)
    trial = str(place.home / "trial")
    place.resume(output=trial, ledger=str(place.home / "other.db"))
    place.die("after the charge")
    with pytest.raises(InputError, match="exists already and is not this release"):
        place.resume(output=trial)
    assert [charge.outcome for charge in place.charges()] == ["reserved"]
    place.resume(output=str(place.home / "out0"))
    assert [charge.outcome for charge in place.charges()] == ["committed"]
    assert place.leftovers() == []


def test_a_release_that_has_landed_is_not_laid_down_twice(place):
    place.die("in place")
    with pytest.raises(InputError, match=r"is complete in '.*out0'; resume it without another output folder"):
        place.resume(output=str(place.home / "new"))
    place.resume()
    assert not (place.home / "new").exists()
    assert place.leftovers() == []


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("where", "charged"),
    [
        ("equistrata.flows.run.journal.write_durably", False),
        ("equistrata.flows.run.workspace.Workspace.append", False),
        ("equistrata.flows.run.workspace.Workspace.keep_fit", True),
        ("pyarrow.parquet.ParquetWriter.write_table", True),
        ("equistrata.flows.run.landing._copy", True),
    ],
)
def test_a_full_disk_is_told_and_what_was_charged_can_be_resumed(place, monkeypatch, where, charged):
    def full(*_):
        raise FULL

    told = pytest.raises(DiskFull, match=r"no space is left on the disk of '.*place.*'; free some")
    with monkeypatch.context() as patch, told:
        patch.setattr(where, full)
        place.resume()
    assert len(place.charges()) == charged
    assert not (place.home / "out0").exists()
    assert [path.name for path in left_in(place.state)] == ["release-0"] * charged
    place.resume()
    assert {charge.outcome for charge in place.charges()} == {"committed"}
    assert place.leftovers() == []
