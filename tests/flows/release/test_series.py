"""Tests of a series of releases in the steps of the flow, with its months, prices, kills and refusals."""

import hashlib
import json
import shutil
from fractions import Fraction

import pandas as pd
import pytest
from made_up_people import PEOPLE_SCHEMA, made_up_people
from monthly import places_of_its_own, two_months_of
from plain_release import release

from equistrata.analysis.checks.price import stated_price_faults
from equistrata.analysis.checks.statements import statement_faults
from equistrata.analysis.release import Release
from equistrata.analysis.series.releases import SeriesOfReleases
from equistrata.analysis.verify import faults
from equistrata.data.columns import column
from equistrata.data.texts.manifest import write_manifest
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.publication.audited_card import AddedAudit, with_audit
from equistrata.flows.release.prepared import prepare
from equistrata.flows.release.steps import fitting, reading
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger, LedgerError, OlderCopy

TOTAL = Rho.from_epsilon_delta(1, 1e-9)


class Office:
    """The settings of a monthly release of the small table, and its ledger."""

    def __init__(self, home, people):
        self.table, self.schema, _ = people
        self.home, self.out = home, home / "out"
        self.ledger = Ledger(home / "ledger.db")
        self.ledger.create("people", 3, 1e-9)

    def settings(self, month, **changes):
        return {
            "source": "csv", "input": str(self.table), "schema": str(self.schema), "strata": "SEX", "evaluate": "none",
            "workers": 1, "dataset": "people", "ledger": str(self.home / "ledger.db"),
            "output": str(self.out / f"m{month}"), "release_id": f"people-{month}",
            "series": {"name": "year", "horizon": 4},
        } | changes  # fmt: skip

    def make(self, month, served=False, **changes):
        return release(self.settings(month, **changes), served)

    def prepare(self, month, **changes):
        return prepare(ReleaseConfig.build(**self.settings(month, **changes)))

    def card(self, month):
        return json.loads((self.out / f"m{month}" / "card.json").read_text())

    def known(self, month):
        return json.loads((self.out / f"m{month}" / "series.json").read_text())["known"]


@pytest.fixture
def office(people, tmp_path, monkeypatch):
    places_of_its_own(monkeypatch, tmp_path)
    return Office(tmp_path, people)


@pytest.fixture(scope="module")
def two_months(tmp_path_factory):
    """Return a folder that contains months 1 and 2."""

    def office_in(home):
        table, schema, frame = home / "people.csv", home / "people.yaml", made_up_people(1357)
        schema.write_text(PEOPLE_SCHEMA)
        frame.to_csv(table, index=False)
        return Office(home, (table, schema, frame))

    return two_months_of(tmp_path_factory.mktemp("two-months"), office_in)


def test_the_months_of_a_series_cost_the_whole_and_its_cards_say_so(office):
    for month in range(1, 5):
        office.make(month, served=True)
        said = office.card(month)["series"]
        assert (said["name"], said["month"], said["horizon"]) == ("year", month, 4)
        assert said["so_far"]["rho"] == pytest.approx(float(TOTAL) * month / 4, rel=1e-12)
        assert said["at_its_end"] == {"rho": float(TOTAL), "epsilon": 1.0, "delta": 1e-9}
        assert (said["former"] or {}).get("month") == (month - 1 or None)
        # The folder also contains the measurements of earlier months, so its price is the total of all months.
        card, page = office.card(month), (office.out / f"m{month}" / "card.md").read_text()
        guarantee, own, whole = card["guarantee"], said["own"], TOTAL * Fraction(month, 4)
        assert (guarantee["rho"], guarantee["epsilon"]) == pytest.approx((float(whole), whole.epsilon(1e-9)))
        assert guarantee["epsilon"] == said["so_far"]["epsilon"] == card["groups"][0]["epsilon"]
        former = guarantee["split_of_rho"].get("former months of the series", 0)
        assert former == pytest.approx(float(TOTAL) * (month - 1) / 4)
        assert own["rho"] == pytest.approx(float(TOTAL) / 4)
        assert own["epsilon"] == pytest.approx((TOTAL * Fraction(1, 4)).epsilon(1e-9))
        assert f"**ε = {guarantee['epsilon']:g}, δ = 1e-09** for exactly the files" in page
        assert f"This month alone costs ε = {own['epsilon']:.4g} " in page
        assert faults(Release.open(office.out / f"m{month}")) == []
    assert office.ledger.spent("people") == TOTAL
    series = SeriesOfReleases.open(list(office.out.glob("m?")))
    assert series.faults() == []
    assert series.table()["month"].tolist() == [1, 2, 3, 4]
    assert series.table()["epsilon_so_far"].iloc[-1] == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(InputError, match="series 'year' already has all of its 4 months"):
        office.prepare(5)
    assert office.ledger.spent("people") == TOTAL


def test_a_month_learns_from_the_one_before_and_prices_its_own_measurements_alone(made):
    own = Release.open(made.out / "m2").measurements
    assert sum(1 / (2 * each.sigma**2) + each.choices for each in own) == pytest.approx(float(TOTAL) / 4)
    first, second = (json.loads((made.out / f"m{month}" / "series.json").read_text()) for month in (1, 2))
    assert (first["month"], second["month"]) == (1, 2)

    def size_sigma(state):
        return next(each["sigmas"][0] for each in state["known"] if each["columns"] == ["SEX"])

    assert size_sigma(second) < 0.85 * size_sigma(first)


def test_a_reader_estimates_from_a_month_by_its_own_measurements_alone(made):
    asked = ("proportion", {"JOB": "yes"}, "SEX")
    before = Release.open(made.out / "m2").estimate(*asked)
    (made.out / "m2" / "series.json").unlink()
    write_manifest(made.out / "m2")
    assert Release.open(made.out / "m2").estimate(*asked).equals(before)
    change = Release.open(made.out / "m2").compare(Release.open(made.out / "m1"), *asked)
    parts = [Release.open(made.out / f"m{month}").estimate(*asked)["standard_error"] for month in (1, 2)]
    assert change["standard_error"].to_numpy() == pytest.approx((parts[0] ** 2 + parts[1] ** 2) ** 0.5, rel=0.05)


def refused(office, month, match, kind=InputError, **changes):
    """Check that a month is refused before any row is read or charged."""
    spent = office.ledger.spent("people")
    with pytest.raises(kind, match=match):
        office.make(month, **changes)
    assert office.ledger.spent("people") == spent
    assert not (office.out / f"m{month}").exists()


def test_what_is_refused_costs_nothing(office, monkeypatch):
    office.make(1)
    monkeypatch.setattr(reading, "partition", lambda *_: pytest.fail("rows were read"))
    refused(office, 2, "was started with 4 months at ε = 1", LedgerError, series={"name": "year", "horizon": 5})
    refused(office, 2, "was started with 4 months at ε = 1", LedgerError, epsilon=2.0)
    refused(office, 2, "name the data set", dataset=None, ledger=None, release_id=None)
    refused(office, 2, "a series needs a name and a horizon", series={"name": "year"})
    refused(office, 2, "'former' only applies to a series", series={}, former=str(office.out / "m1"))
    shutil.move(office.out / "m1", office.home / "elsewhere")
    refused(office, 2, "'people-1', which is not beside the output .* name its folder with --former")
    refused(office, 2, "has no manifest.json", former=str(office.out))


def test_a_former_release_may_lie_elsewhere(office):
    office.make(1)
    shutil.move(office.out / "m1", office.home / "elsewhere")
    office.make(2, former=str(office.home / "elsewhere"))
    assert office.card(2)["series"]["former"]["release_id"] == "people-1"
    assert "elsewhere" not in json.dumps(office.card(2))


def test_a_rehearsal_with_another_ledger_is_no_former_release(office):
    """The measurements are charged to another ledger.

    If they were used, the cost of the month would be larger than the price of the series.
    """
    other = Ledger(office.home / "rehearsal.db")
    other.create("people", 3, 1e-9)
    rehearsal = office.home / "rehearsal"
    office.make(1, ledger=str(office.home / "rehearsal.db"), output=str(rehearsal))
    office.make(1)
    match = "was charged to another ledger or data set than series 'year', so its price is not in the series' budget"
    refused(office, 2, match, former=str(rehearsal))
    shutil.move(rehearsal, office.out / "a-rehearsal")  # this name is before m1 in alphabetical order
    office.make(2)
    assert office.card(2)["series"]["former"]["state"] == digest_of(office.out / "m1" / "series.json")
    assert SeriesOfReleases.open([office.out / f"m{month}" for month in (1, 2)]).faults() == []
    (found,) = SeriesOfReleases.open([office.out / "a-rehearsal", office.out / "m2"]).faults()[:1]
    assert "month 2" in found
    assert "was charged to another ledger or data set than month 1" in found


def test_an_older_copy_of_the_ledger_is_found_by_the_releases_beside(office):
    """The older copy does not contain the charge of month 2."""
    office.make(1)
    kept = {path: path.read_bytes() for path in office.home.glob("ledger.db*")}
    office.make(2)
    newest = {path: path.read_bytes() for path in office.home.glob("ledger.db*")}

    def bring(files):
        for path in office.home.glob("ledger.db*"):
            path.unlink()
        for path, content in files.items():
            path.write_bytes(content)

    bring(kept)
    with pytest.raises(OlderCopy, match=r"lacks entry 5, which was seen on this machine, so it is an older copy"):
        office.make(3)
    shutil.rmtree(office.home / "state")
    with pytest.raises(OlderCopy, match=r"releases in '.*' were charged to it, so this is an older copy"):
        office.make(3)
    assert not (office.out / "m3").exists()
    bring(newest)
    office.make(3)
    assert office.card(3)["series"]["month"] == 3


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_former_release_that_was_edited_is_refused(office):
    office.make(1)
    state = office.out / "m1" / "series.json"
    state.write_text(state.read_text().replace('"month":1', '"month":3'))
    refused(office, 2, "file 'series.json' .* was edited after the release")
    write_manifest(office.out / "m1")
    refused(office, 2, "is month 1 on its card, but another month in series.json")
    state.write_text("[" * 100_000 + "]" * 100_000)
    write_manifest(office.out / "m1")
    refused(office, 2, "is nested more than 20 levels deep")


class Killed(BaseException):
    pass


def killed(office, monkeypatch, *months, point="learn"):
    """Kill each month before the given step, or after the strata are measured."""
    honest = getattr(fitting, point)

    def deadly(*given):
        if point == "measure_stratum":
            honest(*given)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(fitting, point, deadly)
        for month in months:
            with pytest.raises(Killed):
                office.make(month)


@pytest.mark.parametrize("saved", [True, False])
def test_a_killed_month_costs_nothing_twice(office, monkeypatch, saved):
    """If the measurements are saved, there is no further cost.

    Otherwise the noise is drawn again. The cost is then taken from the remaining months, so that the budget of the
    series does not change.
    """
    office.make(1)
    killed(office, monkeypatch, 2, point="learn" if saved else "measure_stratum")
    office.make(2)
    charges = office.ledger.charges("people", "people-2")
    assert len(charges) == (1 if saved else 2)
    assert office.card(2)["series"]["month"] == 2
    so_far = office.ledger.spent("people")
    assert office.card(2)["series"]["so_far"]["rho"] == pytest.approx(float(so_far))
    office.make(3)
    assert office.ledger.charges("people", "people-3")[0].entry.rho == (TOTAL - so_far) * Fraction(1, 2)
    office.make(4)
    assert office.ledger.spent("people") == TOTAL
    assert SeriesOfReleases.open(list(office.out.glob("m?"))).faults() == []


def test_a_month_that_was_given_up_counts_and_the_next_learns_from_the_last_whole_one(office, monkeypatch):
    office.make(1)
    killed(office, monkeypatch, 2)
    office.make(3)
    said = office.card(3)["series"]
    assert (said["month"], said["former"]["month"]) == (3, 1)
    series = SeriesOfReleases.open([office.out / "m1", office.out / "m3"])
    assert series.missing == [2]
    assert series.faults() == []


def test_killed_months_are_finished_in_any_order(office, monkeypatch):
    """Each month learns from the months that are complete at the time of its charge.

    The card contains the total so far.
    """
    office.make(1)
    killed(office, monkeypatch, 2, 3)
    assert office.prepare(4)[0].warnings == [
        "series 'year' has charged releases that are not finished ('people-2', 'people-3'), so month 4 learns nothing "
        "from them; finish them first with equistrata resume"
    ]
    assert office.prepare(2)[0].warnings == []
    for month in (4, 2, 3):
        office.make(month)
    cards = [office.card(month)["series"] for month in range(1, 5)]
    assert [card["former"] and card["former"]["month"] for card in cards] == [None, 1, 1, 1]
    for month, card in enumerate(cards, 1):
        assert card["so_far"]["rho"] == pytest.approx(float(TOTAL * Fraction(month, 4)))
    assert office.ledger.spent("people") == TOTAL
    assert SeriesOfReleases.open(list(office.out.glob("m?"))).faults() == []


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({}, {"strata": "SEX,GROUP"}),
        ({}, {"strata": ""}),
        ({}, {"selection": "per-stratum"}),
        pytest.param({"selection": "per-stratum"}, {"strata": ""}, marks=pytest.mark.slow),
        ({"strata": "SEX,GROUP", "selection": "per-stratum"}, {"strata": "GROUP,SEX", "selection": "per-stratum"}),
        pytest.param(
            {"selection": "per-stratum"}, {"strata": "GROUP", "selection": "per-stratum"}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"synthesizer": "gem"}, {"selection": "per-stratum", "synthesizer": "aim"}, marks=pytest.mark.slow
        ),
        pytest.param({"synthesizer": "aim"}, {"synthesizer": "gem"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_month_may_be_made_otherwise_than_the_one_before(office, first, then):
    """The strata or the selection of the next month are different. All measurements with the same meaning are used.

    The third month has the settings of the first month, so that each change is tested in both directions.
    """
    for month, settings in enumerate((first, then, first), 1):
        office.make(month, **{"synthesizer": "mst"} | settings)
        assert faults(Release.open(office.out / f"m{month}")) == []
    assert SeriesOfReleases.open(list(office.out.glob("m?"))).faults() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"selection": "per-stratum"},
        {"synthesizer": "aim"},
        pytest.param({"synthesizer": "gem"}, marks=pytest.mark.slow),
        {"strata": "", "means": "PAY"},
        {"strata": "SEX,GROUP", "epsilon": 4.0},
        {"unit": "HOME", "at_most": 3, "unit_weights": "units"},
        {"open": True},
    ],
    ids=str,
)
def test_releases_of_every_kind_learn(office, settings):
    if settings.pop("open", False):
        office.schema.write_text(office.schema.read_text().replace("[a, b, c]", "open"))
    if "unit" in settings:
        frame = pd.read_csv(office.table)
        frame.assign(HOME=[f"h{place // 2}" for place in range(len(frame))]).to_csv(office.table, index=False)
        office.ledger.create("homes", 3, 1e-9, relation="add-remove of all rows with one HOME")
        settings |= {"dataset": "homes"}
    for month in (1, 2):
        office.make(month, served=True, **settings)
        assert faults(Release.open(office.out / f"m{month}")) == []
    assert SeriesOfReleases.open([office.out / "m1", office.out / "m2"]).faults() == []
    assert office.card(2)["series"]["former"]["month"] == 1


def test_a_changed_schema_and_a_former_month_of_another_are_allowed_for(office):
    office.make(1)
    other = office.home / "other.yaml"
    other.write_text(office.schema.read_text().replace("[a, b, c]", "[a, b, c, d]"))
    changes = {"schema": str(other), "columns": "SEX,GROUP,JOB"}
    assert office.prepare(2, **changes)[0].warnings == [
        "month 1 of series 'year' is not used for 'GROUP', because it lacks these columns or codes them "
        "differently; if "
        "this is a mistake, correct the schema"
    ]
    office.make(2, **changes)
    assert office.card(2)["series"]["former"]["anew"] == ["GROUP"]
    said = (office.out / "m2" / "card.md").read_text()
    assert "They contain no information about GROUP, because that month does not have these columns" in said
    known = [each for each in office.known(2) if "GROUP" in each["columns"]]
    assert all(each["shape"][each["columns"].index("GROUP")] == 4 for each in known)
    assert SeriesOfReleases.open([office.out / "m1", office.out / "m2"]).faults() == []
    assert office.prepare(3, schema=str(other), columns="SEX,GROUP,JOB")[0].warnings == []
    office.make(3)
    assert office.card(3)["series"]["former"]["anew"] == ["GROUP", "AGE"]


def test_bins_that_an_earlier_version_cut_otherwise_are_called_anew(office, monkeypatch):
    """This month can only be checked with the earlier version, but the other months are still valid."""
    honest, changes = column.fine_edges, {"columns": "SEX,JOB,PAY"}
    with monkeypatch.context() as earlier:
        earlier.setattr(column, "fine_edges", lambda *bounds: (*honest(*bounds)[:-1:2], honest(*bounds)[-1]))
        office.make(1, **changes)
    assert office.prepare(2, **changes)[0].warnings == [
        "month 1 of series 'year' is not used for 'PAY', because it lacks these columns or codes them differently; if "
        "this is a mistake, correct the schema"
    ]
    for month, anew in ((2, ["PAY"]), (3, [])):
        office.make(month, **changes)
        assert office.card(month)["series"]["former"]["anew"] == anew
    assert "PAY" in {name for each in office.known(2) for name in each["columns"]}
    assert SeriesOfReleases.open([office.out / "m2", office.out / "m3"]).faults() == []
    (found,) = SeriesOfReleases.open([office.out / f"m{month}" for month in (1, 2, 3)]).faults()
    assert found.startswith("month 1 ")
    assert "(PAY)" in found
    assert "read it with that version" in found


def test_a_month_of_before_bounds_had_cells_of_their_own_holds_and_says_nothing_of_them(office, monkeypatch):
    changes = {"columns": "SEX,JOB,PAY"}
    with monkeypatch.context() as earlier:
        earlier.setattr(column, "has_bin_each", lambda *_: True)
        office.make(1, **changes)
    assert "is not used for 'PAY'" in office.prepare(2, **changes)[0].warnings[0]
    for month, anew in ((2, ["PAY"]), (3, [])):
        office.make(month, **changes)
        assert office.card(month)["series"]["former"]["anew"] == anew
    first, *later = (Release.open(office.out / f"m{month}").schema["PAY"] for month in (1, 2, 3))
    assert (first.bounds_apart, [each.bounds_apart for each in later]) == (False, [True, True])
    assert SeriesOfReleases.open([office.out / f"m{month}" for month in (1, 2, 3)]).faults() == []


def test_an_open_column_is_called_anew_once_its_values_are_known(office):
    office.schema.write_text(office.schema.read_text().replace("[a, b, c]", "open"))
    many = {"series": {"name": "year", "horizon": 2}, "epsilon": 3.0}
    office.make(1, **many)
    assert office.prepare(2, **many)[0].warnings == []
    office.make(2, **many)
    first, second = (Release.open(office.out / f"m{month}").schema["GROUP"].keys for month in (1, 2))
    expected = [] if first == second else ["GROUP"]
    assert office.card(2)["series"]["former"]["anew"] == expected
    assert SeriesOfReleases.open(list(office.out.glob("m?"))).faults() == []


def test_the_course_leaves_out_months_that_were_not_asked(office):
    other = office.home / "other.yaml"
    other.write_text(office.schema.read_text().replace("[a, b, c]", "[a, b, c, d]"))
    office.make(1)
    office.make(2, schema=str(other), columns="SEX,GROUP,JOB")
    office.make(3)
    series = SeriesOfReleases.open(list(office.out.glob("m?")))

    def months(*asked, **more):
        return sorted(set(series.course(*asked, **more)["month"]))

    assert months("mean", "AGE") == [1, 3]
    assert months("count", by="AGE") == months("count", where={"AGE": "0 to 17"}) == [1, 3]
    assert months("count", where={"GROUP": "d"}) == [2]
    assert months("proportion", {"GROUP": "c"}, by=["SEX"]) == [1, 2, 3]
    with pytest.raises(InputError, match=r"month 1 .* has no value"):
        series.course("count", where={"GROUP": "e"})
    with pytest.raises(InputError, match=r"month 1 .* has no value"):  # no month has both
        series.course("count", {"GROUP": "d"}, by="AGE")


def test_a_course_does_not_mix_people_and_rows(office):
    office.make(1, columns="SEX,JOB")
    office.make(2, columns="SEX,JOB", survey_weight="PAY")
    series = SeriesOfReleases.open(list(office.out.glob("m?")))
    with pytest.raises(InputError, match="ask about rows in each"):
        series.course("count")
    assert series.course("count", weighted=False)["estimate"].max() < 3000


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda card: card["series"]["so_far"].update(rho=1e-9), "a release between was not counted"),
        (lambda card: card["series"]["former"].update(state="0" * 64), "has learned from another version of month 1"),
        (lambda card: card["series"].update(former=None), "has learned from no month before it"),
        (lambda card: card["series"]["former"].update(anew=["JOB"]), "does not list the columns for which month 1"),
        (lambda card: card["series"]["at_its_end"].update(rho=1.0), "states another budget"),
        (lambda card: card["guarantee"].update(rho=1e-5), "says ε"),
        (lambda card: card["guarantee"].update(card["series"]["own"]), "is not the total cost of its series so far"),
    ],
)
def test_what_was_changed_on_a_card_is_found(made, edit, match):
    card = made.card(2)
    edit(card)
    (made.out / "m2" / "card.json").write_text(json.dumps(card))
    write_manifest(made.out / "m2")
    found = SeriesOfReleases.open([made.out / "m1", made.out / "m2"]).faults()
    assert any(pd.Series(found).str.contains(match))


def test_an_audit_in_a_month_s_folder_adds_to_what_all_months_cost(made):
    card, folder = made.card(2), made.out / "m2"
    together = with_audit(card, AddedAudit("audit", "", 1.0, 1e-9, 0.01, "", True, "0" * 64))
    whole = Rho(card["series"]["so_far"]["rho"]) + Rho(0.01)
    assert together["guarantee"]["rho"] == pytest.approx(float(whole))
    assert together["guarantee"]["release"]["epsilon"] == card["series"]["so_far"]["epsilon"]
    assert together["groups"][0]["epsilon"] == whole.epsilon(1e-9)
    (folder / "card.json").write_text(json.dumps(together))
    write_manifest(folder)
    assert list(stated_price_faults(Release.open(folder))) == []
    assert list(statement_faults(Release.open(folder))) == []


def test_a_state_that_was_made_up_is_found(made):
    path = made.out / "m2" / "series.json"
    state = json.loads(path.read_text())
    state["known"][0]["values"][0] += 5
    path.write_text(json.dumps(state))
    write_manifest(made.out / "m2")
    (found,) = SeriesOfReleases.open([made.out / "m1", made.out / "m2"]).faults()
    assert "has a state that does not follow" in found
