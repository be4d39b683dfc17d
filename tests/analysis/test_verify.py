"""Tests of `verify`: an unchanged release passes, and each fault is found even if the manifest is valid."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from edited_release import edited_copy
from in_process import command
from models_once import models_once
from plain_release import release

from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults, unchecked_properties, unlisted
from equistrata.data.texts.manifest import MANIFEST, write_manifest
from equistrata.errors import InputError
from equistrata.flows.publication.audited_card import AddedAudit, with_audit
from equistrata.flows.release.card.groups import group_table
from equistrata.flows.release.card.page import card_markdown
from equistrata.privacy.budget import Rho


def made(folder, **settings):
    release({"evaluate": "none", "output": str(folder)} | settings)
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return a release by MST with SEX as the strata."""
    columns = ("SEX", "AGEP", "MAR", "MIL", "ESR")
    return made(tmp_path_factory.mktemp("verify") / "honest", strata=("SEX",), columns=columns, epsilon=2.0)


@pytest.fixture(scope="module", autouse=True)
def modelled_once():
    """Use a cache of fitted models, because an edited copy usually has the measurements of the release."""
    with models_once():
        yield


@pytest.fixture
def edited(honest, tmp_path):
    """Return a function that edits a copy of the release, updates the manifest and returns the faults."""

    def edit(change):
        return faults(Release.open(edited_copy(honest, tmp_path / "copy", change)))

    return edit


def rewrite(path, change):
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), "utf-8")


def rewrite_card(copy, change):
    """Edit `card.json` and write `card.md` again."""
    rewrite(copy / "card.json", change)
    card, means = json.loads((copy / "card.json").read_text("utf-8")), copy / "means.json"
    known = json.loads(means.read_text("utf-8")) if means.exists() else None
    (copy / "card.md").write_text(card_markdown(card, known), "utf-8")


def test_a_companion_that_calls_noise_a_finding_is_found(edited):
    def change(copy):
        path = copy / "cells.csv"
        table = pd.read_csv(path, dtype=str)
        table.loc[3, "upper"] = str(float(table.loc[3, "upper"]) - 5)
        table.to_csv(path, index=False)

    assert edited(change) == ["cells.csv does not follow from the measurements"]


@pytest.mark.parametrize("change", [lambda found: found[0].update(error=found[0]["error"] / 2), list.pop])
def test_an_error_of_a_relation_that_was_made_smaller_is_found(edited, change):
    (fault,) = edited(lambda copy: rewrite(copy / "card.json", lambda card: change(card["relations"]["expected"])))
    assert fault == "the expected errors of relations on the card do not follow from the measurements"


def test_a_relation_that_is_called_kept_and_is_not_is_found(edited):
    def change(card):
        said = card["relations"]
        said["kept"] = [pair for pair in said["measured"] if pair not in said["kept"]]

    (fault,) = edited(lambda copy: rewrite(copy / "card.json", change))
    assert fault == "the relations that the card lists as kept do not follow from the measurements and the rows"


def _nearer(served):
    served["groups"][0]["distance"] /= 2


@pytest.mark.parametrize(
    "change", [lambda served: served.update(parity_distance=0.01), _nearer, lambda served: served["groups"].pop()]
)
def test_groups_that_a_card_calls_better_served_are_found(edited, change):
    (fault,) = edited(lambda copy: rewrite(copy / "card.json", lambda card: change(card["served"])))
    assert fault == "the expected errors of groups on the card do not follow from the measurements"


@pytest.mark.parametrize("said", [None, 1])
def test_what_an_earlier_card_expects_is_said_not_to_be_checked(honest, edited, tmp_path, said):
    def change(copy):
        rewrite(copy / "card.json", lambda card: [card["served"].update(distance=0.5), card.update(format=said)])

    assert edited(change) == []
    more = sorted(
        set(unchecked_properties(Release.open(tmp_path / "copy"))) - set(unchecked_properties(Release.open(honest)))
    )
    assert [each[:33] for each in more] == [
        "cells.csv, and whether a part of ",
        "the expected errors of the groups",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("served", "expected errors of groups"),
        ("raked", "raked"),
        ("expected", "errors of relations"),
        ("cells.csv", "cells.csv is missing"),
    ],
)
def test_a_part_of_the_card_that_was_left_out_is_found(honest, edited, tmp_path, name, said):
    def change(copy):
        if name == "cells.csv":
            (copy / name).unlink()
        rewrite_card(copy, lambda card: [card.pop(name, None), card["relations"].pop(name, None)])

    found = edited(change)
    assert len(found) == 1
    assert all(word in found[0] for word in said.split(", "))

    def undated(copy):
        change(copy)
        rewrite_card(copy, lambda card: card.pop("format"))

    earlier = Release.open(edited_copy(honest, tmp_path / "undated", undated))
    assert faults(earlier) == []  # an older version has no such part, so the missing part is only reported
    assert any("whether a part of the card was left out" in each for each in unchecked_properties(earlier))


def _charged(card):
    """Add the charges of a ledger to a card."""
    own, budget = card["guarantee"], Rho.from_epsilon_delta(3, card["guarantee"]["delta"])
    rest = Rho(float(budget) - own["rho"])
    reasons = (None, "noise was drawn again")
    charges = [{"entry": 1, "rho": own["rho"] / 2, "parts": ["synthesis"], "reason": reason} for reason in reasons]
    left = {"epsilon": rest.epsilon(own["delta"]), "delta": own["delta"], "rho": float(rest)}
    card["ledger"] = {
        "dataset": "people",
        "release_id": "one",
        "ledger": "one",
        "head": "2:" + "0" * 64,
        "charges": charges,
        "rho": own["rho"],
        "epsilon": own["epsilon"],
        "budget": {"epsilon": 3, "delta": own["delta"], "rho": float(budget)},
        "left": left,
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda card: None, None),
        (lambda card: card["ledger"]["charges"].pop(), "was charged, but the release costs"),
        (lambda card: card["ledger"].update(rho=1e-3), "was charged, but the release costs"),
        (lambda card: card["ledger"].update(epsilon=0.1), "was charged, but the release has"),
        (lambda card: card["ledger"]["left"].update(rho=1.0), "states a remaining budget that is larger"),
        (lambda card: card["ledger"]["left"].update(epsilon=9.0), "for the rest of a ledger"),
        (lambda card: card["ledger"]["budget"].update(epsilon=9.0), "for the budget of a ledger"),
        (lambda card: card["columns"].pop(), "other columns than schema.json"),
        (lambda card: card["called"].update(SEX="Race"), "have different labels for a column"),
        (lambda card: card["groups"].pop(), "several units together"),
        (lambda card: card.update(relation="replace-one"), "another relation than schema.json"),
    ],
)
def test_what_a_card_says_of_ledger_and_columns_goes_together(edited, change, said):
    found = edited(lambda copy: rewrite_card(copy, lambda card: [_charged(card), change(card)]))
    assert (found == []) if said is None else any(said in each for each in found)


@pytest.mark.parametrize(("said", "fault"), [(0, True), (3, False)])
def test_formats_of_cards_that_are_not_known(edited, tmp_path, said, fault):
    found = edited(lambda copy: rewrite(copy / "card.json", lambda card: card.update(format=said)))
    assert any("a format that no release writes" in each for each in found) == fault
    if not fault:
        assert any(
            "that were written by a later version" in each
            for each in unchecked_properties(Release.open(tmp_path / "copy"))
        )


def test_an_honest_release_passes(honest, monkeypatch, capsys):
    assert faults(Release.open(honest)) == []
    code, shown, _ = command(monkeypatch, capsys, "verify", honest)
    assert code == 0
    assert "files, rows, measurements and price agree" in shown


def test_an_honest_release_with_a_public_audit_passes(edited):
    audit = AddedAudit("audit", "2026-11-24", 0.8, 1e-6, 0.01, "", True, "0" * 64, ())

    def add(copy):
        rewrite_card(copy, lambda card: card.update(with_audit(card, audit)))

    assert edited(add) == []


def test_a_sum_of_release_and_audit_that_is_too_low_is_found(edited):
    audit = AddedAudit("audit", "2026-11-24", 0.8, 1e-6, 0.01, "", True, "0" * 64, ())

    def add(copy):
        card = with_audit(json.loads((copy / "card.json").read_text("utf-8")), audit)
        card["guarantee"] |= card["guarantee"]["release"]
        (copy / "card.json").write_text(json.dumps(card), "utf-8")

    assert any("the parts of ρ on the card add up to" in fault for fault in edited(add))


@pytest.mark.parametrize(
    "settings",
    [
        {"unit": "NATIVITY", "at_most": 3, "epsilon": 20.0, "columns": ("SEX", "AGEP", "ESR", "MAR")},
        {"unit": "NATIVITY", "at_most": 2, "epsilon": 20.0, "columns": ("SEX", "AGEP", "ESR", "MAR")},
        {"synthesizer": "aim", "strata": ("SEX",), "columns": ("SEX", "AGEP", "ESR", "MAR")},
        pytest.param({"synthesizer": "gem", "columns": ("SEX", "AGEP", "ESR", "MAR")}, marks=pytest.mark.slow),
        {"strata": ("SEX",), "selection": "per-stratum", "columns": ("SEX", "AGEP", "ESR", "MAR")},
        {"strata": ("SEX",), "epsilon": 50.0, "columns": ("SEX", "AGEP", "ESR", "MAR")},
        {"epsilon": 0.01, "columns": ("SEX", "AGEP", "ESR", "MAR")},
        {"rows": 7, "columns": ("SEX", "AGEP", "ESR", "MAR")},
    ],
)
def test_every_form_of_release_adds_up(tmp_path, settings):
    assert faults(Release.open(made(tmp_path / "made", **settings))) == []


@pytest.mark.parametrize("combine", [False, True])
def test_releases_by_public_weights_pass(tmp_path, combine):
    (tmp_path / "weights.csv").write_text("SEX,count\n1,9000\n2,11000\n")
    given = {"strata": ("SEX",), "weights": str(tmp_path / "weights.csv"), "combine_weights": combine}
    release = Release.open(made(tmp_path / "made", columns=("SEX", "MIL", "ESR"), **given))
    assert faults(release) == []


@pytest.mark.slow
def test_twenty_honest_releases_pass(tmp_path):
    for number in range(20):
        strata = (("SEX",), ("SEX", "RAC1P"), ())[number % 3]
        folder = made(tmp_path / str(number), strata=strata, epsilon=0.1 * 4 ** (number % 5))
        assert faults(Release.open(folder)) == []


def test_a_sigma_that_was_edited_is_found(edited):
    def smaller(document):
        document["measurements"][3]["sigma"] *= 0.9

    fault, *others = edited(lambda copy: rewrite(copy / "measurements" / "all.json", smaller))
    assert "a σ, a selection or the price was changed" in fault
    assert others == [
        "cells.csv does not follow from the measurements",
        "the expected errors of relations on the card do not follow from the measurements",
    ]


def test_measurements_that_are_all_gone_are_found(edited):
    """A privacy cost that cannot be computed must be reported as a fault."""
    assert edited(lambda copy: shutil.rmtree(copy / "measurements")) == [
        "the measurements are missing, so the price cannot be checked"
    ]


@pytest.mark.parametrize("change", [{"columns": ["NOPE"]}, {"sigma": 0}, {"sigma": 0.0, "columns": ["NOPE"]}])
def test_a_measurement_of_what_the_schema_has_not_is_found(edited, change):
    found = edited(
        lambda copy: rewrite(copy / "measurements" / "all.json", lambda d: d["measurements"][2].update(change))
    )
    assert any("does not fit the schema" in fault for fault in found)


@pytest.mark.parametrize("change", [{"rows": "many"}, {"held_out": 1.0}, {"held_out": "a"}, {"held_out": -3}])
def test_a_card_with_impossible_numbers_is_refused(edited, change):
    with pytest.raises(InputError):
        edited(lambda copy: rewrite(copy / "card.json", lambda card: card.update(change)))


def test_a_missing_measurement_is_found(edited):
    found = edited(lambda copy: rewrite(copy / "measurements" / "all.json", lambda d: d["measurements"].pop()))
    assert any("a measurement is missing" in fault for fault in found)


def test_a_price_that_is_too_low_is_found(edited):
    def cheaper(card):
        card["guarantee"]["epsilon"] /= 2
        card["config"]["epsilon"] /= 2

    (fault,) = edited(lambda copy: rewrite_card(copy, cheaper))
    assert "says ε = 1, but its ρ and δ give 2" in fault


def test_a_price_that_is_too_low_throughout_is_found(edited):
    def cheaper(card):
        guarantee = card["guarantee"]
        guarantee["split_of_rho"] = {name: part / 2 for name, part in guarantee["split_of_rho"].items()}
        guarantee["rho"] /= 2
        guarantee["epsilon"] = Rho(guarantee["rho"]).epsilon(guarantee["delta"])
        card["config"]["epsilon"] = guarantee["epsilon"]
        card["groups"] = group_table(guarantee["rho"], guarantee["delta"])

    (fault,) = edited(lambda copy: rewrite_card(copy, cheaper))
    assert "but the card says" in fault


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["unit"].update(column="HOME", at_most=4),
        lambda card: card["unit"].update(relation="replace-one"),
        lambda card: card["guarantee"].update(unit="all rows with one HOME, of which at most 4 are used"),
        lambda card: card["guarantee"].update(relation="replace-one: neighbouring tables differ by another row"),
        lambda card: card["groups"][1].update(epsilon=card["guarantee"]["epsilon"]),
        lambda card: card["groups"][2].update(rho=card["guarantee"]["rho"]),
    ],
)
def test_a_unit_or_a_group_that_pays_more_than_the_card_says_is_found(edited, change):
    (found,) = edited(lambda copy: rewrite_card(copy, change))
    assert "the unit or the relation on the card" in found or "units together is not k²ρ" in found


def test_a_row_that_breaks_a_rule_is_found(edited):
    def child_at_work(copy):
        for name, read, write in (
            ("synthetic.parquet", pd.read_parquet, pd.DataFrame.to_parquet),
            ("synthetic.csv", pd.read_csv, pd.DataFrame.to_csv),
        ):
            rows = read(copy / name)
            rows.loc[0, ["AGEP", "MIL", "ESR"]] = [0, 1, 1]
            write(rows, copy / name, index=False)

    (fault,) = edited(child_at_work)
    assert "declares impossible" in fault


def test_files_that_differ_are_found(edited):
    def another(copy):
        rows = pd.read_csv(copy / "synthetic.csv")
        rows.loc[5, "SEX"] = 3 - rows.loc[5, "SEX"]
        rows.to_csv(copy / "synthetic.csv", index=False)

    assert edited(another) == ["synthetic.csv has other rows than synthetic.parquet"]


def test_categories_that_a_reader_of_csv_takes_for_something_else_pass(tmp_path):
    """Regression test: the values were read as True, as missing values or as 1, so the release was refused."""
    odd = ["true", "false", "TRUE", "NA", "01", "1", "1e3", "2024-01-31", "12:30", " x"]
    rows = pd.DataFrame({"S": ["a", "b"] * 100, "V": odd * 20, "B": ["true", "false"] * 100, "N": [1.5, None] * 100})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "schema.yaml").write_text(
        f"columns: {{S: {{values: [a, b]}}, V: {{values: {json.dumps(odd)}, missing: NA}},\n"
        "  B: {values: ['true', 'false']}, N: {lower: 0, upper: 10, missing: own}}\n"
    )
    source = {"type": "file", "path": str(tmp_path / "rows.csv"), "schema": str(tmp_path / "schema.yaml")}
    source = {"source": "csv", "input": str(tmp_path / "rows.csv"), "schema": str(tmp_path / "schema.yaml")}
    folder = made(tmp_path / "odd", **source, strata=("S",))
    assert faults(Release.open(folder)) == []

    text = (folder / "synthetic.csv").read_text()
    (folder / "synthetic.csv").write_text(text.replace("true", "TRUE", 1))
    (folder / MANIFEST).unlink()
    write_manifest(folder)
    assert faults(Release.open(folder)) == ["synthetic.csv has other rows than synthetic.parquet"]


def test_measurements_of_other_rows_are_found(edited):
    def other(document):
        first = next(m for m in document["measurements"] if len(m["columns"]) > 1 and "AGEP" in m["columns"])
        first["values"] = [2 * value for value in first["values"]]

    found = edited(lambda copy: rewrite(copy / "measurements" / "all.json", other))
    assert any("contradict each other" in fault for fault in found)


def test_what_does_not_belong_is_named_and_a_fault_ends_with_2(honest, folder, monkeypatch, capsys):
    (honest / "notes.txt").write_text("mine")
    assert unlisted(honest) == ["notes.txt"]
    assert "not part of the release: notes.txt" in command(monkeypatch, capsys, "verify", honest)[1]
    (honest / "notes.txt").unlink()
    code, _, said = command(monkeypatch, capsys, "verify", folder)  # the noise of this release has a seed
    assert (code, "the noise was seeded" in said) == (2, True)


SEEDED = "the noise was seeded, so the release is not private"


@pytest.fixture(scope="module")
def with_means(tmp_path_factory):
    """Return a release with private means, raked rows and public weights that are different from
    the measured shares.
    """
    home = tmp_path_factory.mktemp("means")
    rng = np.random.default_rng(5)
    pay = np.where(rng.random(4000) < 0.3, 0, rng.lognormal(9, 1, 4000)).clip(0, 90000).round()
    people = pd.DataFrame({"SEX": rng.integers(1, 3, 4000), "JOB": rng.integers(0, 3, 4000), "PAY": pay})
    people.to_csv(home / "pay.csv", index=False)
    (home / "pay.yaml").write_text(
        "columns: {SEX: {values: [1, 2]}, JOB: {values: [0, 1, 2]}, "
        "PAY: {lower: 0, upper: 1000000, integer: true, sigma: 20000}}"
    )
    (home / "weights.csv").write_text("SEX,share\n1,0.9\n2,0.1\n")
    named = {"input": str(home / "pay.csv"), "schema": str(home / "pay.yaml"), "weights": str(home / "weights.csv")}
    named |= {"source": "csv", "strata": ("SEX",), "means": ("PAY",)}
    return made(home / "made", means_share=0.9, epsilon=0.5, seed=3, **named)


@pytest.fixture
def told(with_means, tmp_path):
    """Return a function that edits a copy of the release, updates the manifest and returns the faults."""

    def edit(change):
        copy = edited_copy(with_means, tmp_path / "copy", change)
        return [each for each in faults(Release.open(copy)) if each != SEEDED]

    return edit


def test_rows_that_were_raked_follow_from_the_measurements_and_the_means(with_means):
    """The model is fitted again and raked to the means of the folder."""
    assert json.loads((with_means / "card.json").read_text("utf-8"))["raked"] == {"PAY": 2}
    assert faults(Release.open(with_means)) == [SEEDED]


def test_rows_that_were_moved_are_found(told):
    def change(copy):
        rows = pd.read_parquet(copy / "synthetic.parquet")
        rows["PAY"] = (rows["PAY"] * 1.5).clip(0, 1000000).round().astype(rows["PAY"].dtype)
        rows.to_parquet(copy / "synthetic.parquet", index=False)
        rows.to_csv(copy / "synthetic.csv", index=False)

    assert told(change) == ["the shares of 'PAY' in the rows do not follow from the measurements"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda mean: mean.update(rho=mean["rho"] / 9), "together, but the file states"),
        (lambda mean: mean.update(value=mean["upper"] + 1), "is outside its interval"),
        (lambda mean: mean.update(value=float("nan")), "NaN is not a number"),
        (lambda mean: mean["strata"]["SEX=1"].update(upper=2e6), "is outside its interval"),
        (lambda mean: mean["strata"]["SEX=1"].update(share=0.5), "or shares that do not sum to 1"),
        (lambda mean: mean["strata"].pop("SEX=2"), "or shares that do not sum to 1"),
        (lambda mean: mean.pop("lower"), "lacks 'outcomes.PAY."),
    ],
)
def test_means_that_contradict_themselves_are_found(told, change, fault):
    def edit(copy):
        rewrite(copy / "means.json", lambda found: [change(each) for each in found["outcomes"]["PAY"].values()])

    assert any(fault in each for each in told(edit))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("**ε = 0.5,", "**ε = 0.05,", "card.md does not state ε = 0.5, δ = "),
        ("synthetic rows, variant", "rows of real people, variant", "card.md does not state"),
        (
            "| PAY | pub strat coinpress | ",
            "| PAY | pub strat coinpress | 1",
            "card.md and means.json state different means of 'PAY'",
        ),
    ],
)
def test_a_card_for_people_that_says_otherwise_is_found(told, old, new, fault):
    def edit(copy):
        text = (copy / "card.md").read_text("utf-8")
        assert old in text
        (copy / "card.md").write_text(text.replace(old, new), "utf-8")

    (found,) = told(edit)
    assert found.startswith(fault)


@pytest.fixture
def of_card(edited, monkeypatch):
    """Return `edited` without the slow checks that fit the model again."""
    for name in ("companion_faults", "rows_faults"):
        monkeypatch.setattr(f"equistrata.analysis.verify.{name}", lambda *_: ())
    return edited


def cheaper_throughout(card, times):
    """Multiply the privacy cost of the card by a factor, in ε, ρ and the parts of ρ."""
    guarantee = card["guarantee"]
    guarantee["split_of_rho"] = {name: part * times for name, part in guarantee["split_of_rho"].items()}
    guarantee["rho"] *= times
    guarantee["epsilon"] = Rho(guarantee["rho"]).epsilon(guarantee["delta"])
    card["config"]["epsilon"] = guarantee["epsilon"]
    card["groups"] = group_table(guarantee["rho"], guarantee["delta"])


def test_a_part_of_the_price_below_nothing_is_found(of_card):
    """Regression test for a negative part of ρ. The value of ε on the card could be too small because of this part."""

    def change(card):
        parts = dict(card["guarantee"]["split_of_rho"])
        cheaper_throughout(card, 0.01)
        card["guarantee"]["split_of_rho"] = parts | {"rounding": card["guarantee"]["rho"] - sum(parts.values())}

    assert of_card(lambda copy: rewrite_card(copy, change)) == ["a part of ρ on the card is negative"]


def test_a_choice_that_costs_less_than_nothing_is_found(of_card):
    def change(copy):
        card = json.loads((copy / "card.json").read_text("utf-8"))
        rewrite_card(copy, lambda card: cheaper_throughout(card, 0.01))
        less = 0.99 * sum(card["guarantee"]["split_of_rho"].values())
        rewrite(
            copy / "measurements" / "all.json",
            lambda found: found["measurements"][1].update(choices=found["measurements"][1]["choices"] - less),
        )

    assert of_card(change) == ["the cost of a selection is negative"]


def test_choices_that_some_measurements_lack_are_found(of_card):
    (fault, *_) = of_card(
        lambda copy: rewrite(copy / "measurements" / "all.json", lambda found: found["measurements"][1].pop("choices"))
    )
    assert fault.startswith("the cost of selections is published for some measurements")


def test_caveats_of_another_synthesizer_do_not_spare_the_check_of_a_price(of_card):
    """Regression test for the caveat of another synthesizer. If the card contains this caveat, the value of ε must also
    be checked.
    """

    def change(card):
        cheaper_throughout(card, 0.01)
        card["guarantee"]["caveats"] = ["floating point"]

    found = of_card(lambda copy: rewrite_card(copy, change))
    assert any("names a synthesizer of equistrata" in fault for fault in found)
    assert any("but the card says" in fault for fault in found)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda card: card["strata"].update(count=7), "that there are 7 strata, but there are 2"),
        (lambda card: card["strata"].update(weights="file 'w.csv'"), "says that weights are public, but its settings"),
        (lambda card: card.update(mechanism="exact"), "names the mechanism 'exact'"),
        (lambda card: card.update(private=False), "the noise was seeded"),
        (lambda card: card.update(groups=[]), "does not state the price of several units together"),
        (lambda card: card["config"].update(synthesizer="smartnoise-mst"), "but lists none of its caveats"),
    ],
)
def test_a_card_that_contradicts_its_own_settings_is_found(of_card, change, fault):
    assert any(fault in each for each in of_card(lambda copy: rewrite_card(copy, change)))


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["guarantee"].update(rho="1"),
        lambda card: card["guarantee"].update(epsilon="1"),
        lambda card: card["guarantee"].update(split_of_rho={"synthesis": "a"}),
        lambda card: card["guarantee"].update(split_of_rho=3),
        lambda card: card.update(groups=[1]),
        lambda card: card.update(unit=3),
        lambda card: card.update(relations={"measured": 5}),
    ],
)
def test_a_card_of_what_no_release_writes_ends_in_a_sentence(of_card, change):
    with pytest.raises(InputError, match=r"card\.json of release .* has '[\w.]+' = .*, which is no "):
        of_card(lambda copy: rewrite(copy / "card.json", change))


def test_a_price_that_cannot_be_computed_ends_in_a_sentence(of_card):
    assert of_card(lambda copy: rewrite(copy / "card.json", lambda card: card.update(unit_sizes={"sigma": 0})))


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '{"rho": 1, "rho": 2}', ""])
def test_means_that_no_release_writes_end_in_a_sentence(of_card, text):
    assert of_card(lambda copy: (copy / "means.json").write_text(text))


def test_an_empty_companion_ends_in_a_sentence(edited):
    assert edited(lambda copy: (copy / "cells.csv").write_text(""))


def test_a_card_with_a_key_twice_is_refused(of_card):
    """A reader sees the first value, but a program uses the last value."""

    def change(copy):
        text = (copy / "card.json").read_text("utf-8")
        (copy / "card.json").write_text(text.replace('"rows":', '"rows": 5, "rows":', 1), "utf-8")

    with pytest.raises(InputError, match="cannot be read as JSON"):
        of_card(change)


def test_a_measurement_in_a_file_that_is_not_read_is_found(of_card):
    def change(copy):
        shutil.copy(copy / "measurements" / "all.json", copy / "measurements" / "SEX=1.json")

    (fault,) = of_card(change)
    assert fault.startswith("measurements/ has files that do not belong to a release")


def _with_rows(change):
    def edit(copy):
        rows = change(pd.read_parquet(copy / "synthetic.parquet"))
        rows.to_parquet(copy / "synthetic.parquet", index=False)
        rows.to_csv(copy / "synthetic.csv", index=False)
        rewrite_card(copy, lambda card: card.update(rows=len(rows)))

    return edit


def _mixed(name, within=()):
    """Permute the values of a column."""
    rng = np.random.default_rng(0)
    if not within:
        return lambda rows: rows.assign(**{name: rng.permutation(rows[name].to_numpy())})
    return lambda rows: rows.assign(**{name: rows.groupby([*within])[name].transform(rng.permutation)})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda rows: rows.assign(SEX=3 - rows["SEX"]), "the shares of the strata in the rows do not follow"),
        (lambda rows: rows.sample(500, random_state=0), "there are 500 rows, but the measurements lead to"),
        (_mixed("MAR", ["SEX"]), "the relation of 'AGEP' and 'MAR' in the rows does not follow"),
        (_mixed("SEX"), "the shares of 'MIL' in the rows of strata do not follow"),
    ],
)
def test_rows_of_other_groups_and_relations_are_found(edited, change, fault):
    """Regression test: each of these changes keeps the margins of all columns, so it was not found."""
    assert any(each.startswith(fault) for each in edited(_with_rows(change)))


def test_a_mean_that_counts_contradict_is_found(told):
    def change(copy):
        def move(found):
            for each in (mean for own in found["outcomes"]["PAY"].values() for mean in (own, *own["strata"].values())):
                for end in ("value", "lower", "upper"):
                    each[end] *= 20

        rewrite(copy / "means.json", move)
        rewrite_card(copy, lambda card: None)

    assert told(change) != []


def test_means_that_were_paid_for_and_are_not_there_are_found(told):
    assert any("although its price was paid" in fault for fault in told(lambda copy: (copy / "means.json").unlink()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| ε at δ = 1e-09 | 0.5 | ", "| ε at δ = 1e-09 | 0.5 | 9"),
        ("| means | 0.0", "| means | 0.00"),
        ("which is ρ = 0.0", "which is ρ = 0.00"),
    ],
)
def test_a_price_table_for_people_that_says_otherwise_is_found(told, old, new):
    def edit(copy):
        text = (copy / "card.md").read_text("utf-8")
        assert old in text
        (copy / "card.md").write_text(text.replace(old, new), "utf-8")

    assert any(fault.startswith("card.md ") for fault in told(edit))


def test_sizes_of_strata_that_were_measured_one_by_one_are_compared(tmp_path):
    columns = ("SEX", "MIL", "ESR")
    folder = made(tmp_path / "made", strata=("SEX",), selection="per-stratum", columns=columns)
    assert faults(Release.open(folder)) == []
    _with_rows(lambda rows: pd.concat([rows[rows["SEX"] == 2], rows])[: len(rows)])(folder)
    (folder / MANIFEST).unlink()
    write_manifest(folder)
    (fault,) = faults(Release.open(folder))
    assert fault.startswith("the shares of the strata")


def test_the_card_for_people_is_compared_where_nothing_is_measured(told):
    """This is the case of a synthesizer of another project."""

    def change(copy):
        shutil.rmtree(copy / "measurements")
        text = (copy / "card.md").read_text("utf-8")
        (copy / "card.md").write_text(text.replace("**ε = 0.5,", "**ε = 0.05,"), "utf-8")

    found = told(change)
    assert any(fault.startswith("card.md does not state ε = 0.5") for fault in found)
    assert not any("means.json" in fault for fault in found)
