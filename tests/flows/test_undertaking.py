"""A charged release that dies anywhere ends whole, and the ledger has every noise that was drawn."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd
import pytest
from plain_release import POINTS, SHARED_POINTS, numbered, release

from data.errors import InputError
from data.strata import Strata
from data.weights import PublicWeights
from eval.scores import score_tables
from flows.config import ReleaseConfig
from flows.guard import StepFailed
from flows.journal import Journal
from flows.plan import Plan
from flows.undertaking import discard, with_release_id
from privacy.budget import BudgetExceeded, Rho
from privacy.ledger import Ledger, LedgerError
from synth.combined_weights import combined_weights
from synth.stratified import load_all_measurements

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
            "source": "csv", "input": str(table), "schema": str(schema), "strata": "SEX", "means": "PAY", "workers": 1, "selection": "per-stratum",
            "means_estimator": "both", "ledger": str(home / "ledger.db"), "dataset": "people",
            "output": str(home / "out{n}"), "release_id": "release-{n}",
        }  # fmt: skip

    def die(self, *points, **changes):
        """One release per point, each in a process that dies there."""
        environment = {"EQUISTRATA_STATE": str(self.state), "TMPDIR": str(self.tmp)}
        self.killer(settings=self.settings | changes, environment=environment, points=points)

    def resume(self, number=0, **changes):
        return release(numbered(self.settings | changes, number))

    def charges(self, number=0):
        return self.ledger.charges("people", f"release-{number}")

    def plan(self):
        return Plan.of(ReleaseConfig.build(**numbered(self.settings, "x")))

    def card(self, number=0):
        return json.loads((self.home / f"out{number}" / "card.json").read_text())

    def leftovers(self):
        """Everything that is there and should not be once all releases are whole."""
        found = [*self.state.glob("*"), *self.tmp.iterdir(), *self.home.glob(".out*")]
        return [path.name for path in found]


@pytest.fixture(scope="module")
def killer():
    """Has releases die; a process of its own, which imports everything once."""
    script = Path(__file__).parents[1] / "plain_release.py"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, script], cwd=script.parents[1], text=True, **pipes) as process:

        def kill(**order):
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer or json.loads(answer):
                process.kill()
                pytest.fail(answer + process.stderr.read())

        yield kill


@pytest.fixture
def place(tmp_path, people, monkeypatch, killer):
    made = Place(tmp_path / "place", people, killer)
    monkeypatch.setenv("EQUISTRATA_STATE", str(made.state))
    monkeypatch.setenv("TMPDIR", str(made.tmp))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return made


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_release_that_dies_anywhere_ends_whole_and_is_charged_for_what_it_drew(place):
    whole = numbered(place.settings, "whole")
    release(whole)
    price = place.charges("whole")[0].entry.rho
    place.die(*POINTS)
    for number, point in enumerate(POINTS):
        assert len(place.charges(number)) == (point not in UNCHARGED), point
        if point == "journal half gone":  # nothing is left to do, and nothing to do it from
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


def test_a_release_with_one_choice_for_all_strata_that_dies_anywhere_ends_whole(place):
    """Its one fit is charged again if it was begun and not saved; once saved, it is modelled at no charge."""
    release(numbered(place.settings | SHARED, "whole"))
    place.die(*SHARED_POINTS, **SHARED)
    for number, point in enumerate(SHARED_POINTS):
        kept = Journal.find(f"release-{number}").paid / "fit0" / "measurements.json"
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
    kept = {path.name: path.read_bytes() for path in paid.rglob("measurements.json") if path.parent.name == "fit1"}
    mean = json.loads((paid / "mean0.json").read_text())["strat_coinpress"]
    place.resume()
    released = (place.home / "out0" / "measurements").iterdir()
    assert kept["measurements.json"] in {path.read_bytes() for path in released}
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
    assert place.card()["strata"]["weights"] == "file 'weights.csv' and noisy counts (charged), by inverse variance"
    schema = place.plan().schema
    strata = Strata.over(schema, ["SEX"])
    measured = load_all_measurements(strata, place.home / "out0" / "measurements")
    again = combined_weights(strata, measured, PublicWeights.from_file(weights, strata))
    rows = pd.read_csv(place.home / "out0" / "synthetic.csv")["SEX"].value_counts().to_dict()
    assert rows == {key: count for (key,), count in again.allocate(1000).items()}


def test_a_stratum_is_drawn_at_most_as_often_as_it_was_paid_for(place):
    """Two runs die in the same stratum: three charges. In different strata: the second redraw was paid for by the first."""
    place.die("first drawn, not saved")
    place.die("drawn, not saved")  # the first stratum again, which is saved now, and the second for the first time
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
    assert {"measurements.json", "model.npz", "mean0.json", "release.json"} <= {path.name for path in journals}
    assert not any("stratum" in path.name or "outcome" in path.name or "held" in path.name for path in journals)
    assert not any(b"731924" in path.read_bytes() or b"scores" in path.read_bytes() for path in journals)
    assert oct(place.state.stat().st_mode)[-3:] == "700"
    assert list(place.tmp.rglob("*.npy")), "the dead run's rows are still in its working folder"
    assert list(place.home.glob(".out*.part"))
    place.resume("next")
    assert list(place.tmp.iterdir()) == [], "the next run, of any release, removes them"
    assert list(place.home.glob(".out*")) == [], "and the half-written folder"
    assert {path.name for path in place.state.iterdir()} == {"release-0", "release-1"}


def test_rows_that_changed_since_cannot_be_joined(place, people):
    table, _, frame = people
    place.die("drawn, not saved", "before scores")
    frame.iloc[:-1].to_csv(table, index=False)
    with pytest.raises(InputError, match="the input has changed since release 'release-0' began"):
        place.resume(0)
    assert len(place.charges(0)) == 1
    assert not (place.home / "out0").exists()
    place.resume(1)  # all noise is saved: only the exact scores need rows, and are left out
    assert not (place.home / "out1.internal").exists()
    assert len(place.charges(1)) == 1
    frame.to_csv(table, index=False)
    place.resume(0)
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
    monkeypatch.setattr("flows.steps.score_tables", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(StepFailed, match="evaluate failed with ZeroDivisionError"):
        place.resume()
    monkeypatch.setattr("flows.steps.score_tables", score_tables)
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
    """Every read of rows from the working folder, and every mechanism, finds the charge in the ledger; none is made without."""
    seen = []

    def watch(target):
        original = resolve_name(target)

        def watched(*args, **kwargs):
            seen.append((target, [charge.outcome for charge in place.charges(number)]))
            return original(*args, **kwargs)

        monkeypatch.setattr(target, watched)

    readers = ["flows.workspace.Workspace.load_table", "flows.steps.measure_stratum", "flows.steps._mean"]
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
    with pytest.raises(InputError, match="begun with other settings"):
        place.resume(epsilon=2)
    other = Ledger(place.home / "other.db")
    other.create("people", 3, 1e-9)
    with pytest.raises(InputError, match="begun with another ledger"):
        place.resume(ledger=str(place.home / "other.db"))
    place.resume(workers=2)  # who computes it does not matter
    for again in ({}, {"epsilon": 3}):
        with pytest.raises(InputError, match="charged already"):
            place.resume(**again)
    with pytest.raises(InputError, match="charged already"):
        place.resume(output=str(place.home / "elsewhere"))
    assert place.leftovers() == []


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
    with pytest.raises(InputError, match="is whole"):
        discard(Journal.find("release-0"))
    place.resume()
    assert place.charges()[0].outcome == "committed"


def test_the_same_snapshot_has_the_same_fingerprint(place, people):
    place.resume(0)
    place.resume(1)
    table, _, frame = people
    frame.iloc[1:].to_csv(table, index=False)
    place.resume(2)
    one, two, three = (place.charges(i)[0].entry.fingerprint for i in range(3))
    assert one == two != three
    assert len(one) == 64


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
