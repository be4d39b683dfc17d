"""Tests of edited releases with a valid manifest and a matching card, which are refuted by other
files of the folder.
"""

import json
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from edited_release import edited_copy
from plain_release import release

from equistrata.analysis.checks.method import _has_choice_share
from equistrata.analysis.release import Release
from equistrata.flows.publication.verified import release_faults, unchecked_release_properties
from equistrata.flows.release.card.page import card_markdown
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism

SCHEMA = """
columns:
  SEX: {values: [1, 2]}
  KIND: {values: [only]}
  AGE: {lower: 0, upper: 99, edges: [0, 17, 39, 99], sigma: 30, integer: true}
  JOB: {values: ["no", "yes"]}
  MAR: {values: [0, 1, 2, 3]}
  PAY: {lower: 0, upper: 90000, sigma: 20000, integer: true}
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return the settings for a table of 4,000 people. Most of the people have rounded pay, and all
    have the same KIND.
    """
    home, rng, n = tmp_path_factory.mktemp("checks"), np.random.default_rng(3), 4000
    pay = np.exp(rng.normal(9, 1, n)).clip(0, 89000)
    people = {
        "SEX": rng.integers(1, 3, n),
        "KIND": ["only"] * n,
        "AGE": rng.integers(0, 100, n),
        "JOB": rng.choice(["no", "yes"], n),
        "MAR": rng.integers(0, 4, n),
        "PAY": np.where(rng.random(n) < 0.8, pay.round(-3), pay).astype(int),
    }
    pd.DataFrame(people).to_csv(home / "people.csv", index=False)
    (home / "people.yaml").write_text(SCHEMA)
    named = {"source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml")}
    return named | {"strata": ("SEX",), "epsilon": 2.0, "evaluate": "none", "output": str(home / "out")}


@pytest.fixture(scope="module")
def honest(table):
    """Make a release with MST and private means."""
    release(table | {"means": ("AGE", "PAY")})
    return Release.open(table["output"]).folder


@pytest.fixture
def edited(honest, tmp_path, monkeypatch):
    """Return a function that edits `card.json` in a copy of the release and updates the manifest and `card.md`."""
    for name in ("companion_faults", "rows_faults"):  # these checks are slow and do not use the edited parts
        monkeypatch.setattr(f"equistrata.analysis.verify.{name}", lambda *_: ())

    def edit(change, file="card.json"):
        def rewrite(copy):
            document = json.loads((copy / file).read_text("utf-8"))
            change(document)
            (copy / file).write_text(json.dumps(document), "utf-8")
            card, means = (json.loads((copy / name).read_text("utf-8")) for name in ("card.json", "means.json"))
            with suppress(KeyError):  # a card with a missing part has no page
                (copy / "card.md").write_text(card_markdown(card, means), "utf-8")

        return Release.open(edited_copy(honest, tmp_path / "copy", rewrite))

    return edit


def test_an_honest_release_with_a_column_of_one_value_passes(honest):
    """Regression test: `verify` reported that the measured pairs are not the pairs on the card."""
    found = Release.open(honest)
    assert found.card["wide_bins"]
    assert release_faults(found) == []
    assert not any("in words" in each for each in unchecked_release_properties(found))
    assert found.card["relations"]["expected"]
    assert "KIND ×" not in (honest / "card.md").read_text("utf-8")


@pytest.mark.parametrize("synthesizer", ["aim", pytest.param("gem", marks=pytest.mark.slow)])
def test_honest_releases_of_other_mechanisms_pass_and_are_not_called_mst(table, tmp_path, synthesizer):
    folder = tmp_path / "out"
    columns = ("SEX", "KIND", "AGE", "JOB", "MAR")
    release(table | {"synthesizer": synthesizer, "output": str(folder), "columns": columns, "epsilon": 8.0})
    assert release_faults(Release.open(folder)) == []

    def change(copy):
        card = (copy / "card.json").read_text("utf-8")
        upper = synthesizer.upper()
        (copy / "card.json").write_text(card.replace(upper, "MST").replace(f'"{synthesizer}"', '"mst"'), "utf-8")
        own = json.loads((copy / "card.json").read_text("utf-8"))
        assert (own["mechanism"], own["config"]["synthesizer"]) == ("MST", "mst")
        (copy / "card.md").write_text(card_markdown(own, None), "utf-8")

    found = release_faults(Release.open(edited_copy(folder, tmp_path / "copy", change)))
    # GEM measures all of its choices with the same noise scale, and its part of ρ may be equal to the part of MST.
    assert any("were not selected by MST" in each for each in found) == (synthesizer == "aim")


@pytest.mark.parametrize(("sigmas", "by_mst"), [((55.0, 55.0), True), ((55.0,), True), ((55.0, 60.0), False)])
def test_pairs_that_are_measured_alike_may_have_been_chosen_by_mst(honest, sigmas, by_mst):
    """Regression test: the part of ρ for the choices of MST may be equal to the part of AIM."""
    part = mechanism("aim").choice_part
    pairs = (("AGE", "JOB"), ("AGE", "MAR"))
    chosen = [
        Measurement(pair, np.zeros((3, 2)), sigma, choices=part / (2 * sigma**2))
        for pair, sigma in zip(pairs, sigmas, strict=False)
    ]
    assert _has_choice_share(SimpleNamespace(card=Release.open(honest).card, measurements=chosen)) == by_mst


def test_means_of_acs_data_have_the_bounds_of_their_own_schema(tmp_path):
    """Regression test: `verify` used the σ of the schema of the rows instead of the default schema."""
    folder = tmp_path / "out"
    columns = ("SEX", "SCHL", "ESR")
    release({"strata": ("SEX",), "columns": columns, "means": ("SCHL",), "evaluate": "none", "output": str(folder)})
    found = Release.open(folder)
    assert found.schema["SCHL"].sigma is None
    assert release_faults(found) == []


_APART = {"column": "PAY", "stratum": None, "rows": 9.0, "lower": 10.0, "upper": 11.0}


def _renamed(card):
    card["mechanism"], card["config"]["synthesizer"], card["name"] = "AIM", "aim", "AIM_SEX"
    split = card["guarantee"]["split_of_rho"]
    split["synthesis (AIM_SEX)"] = split.pop("synthesis (MST_SEX)")


def _measured_together(card):
    """Remove a pair from the list of pairs that were not measured. If the list is empty, add a measured pair."""
    others = card["relations"]["not_measured"]
    if others:
        others.pop()
    else:
        others.append(["SEX", "JOB"])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_renamed, "were not selected by AIM"),
        (_measured_together, "lists as not measured"),
        (lambda card: card.update(wide_bins=[]), "wide bins"),
        (lambda card: card.update(selection="per-stratum"), "how the measurements were selected"),
        (lambda card: card.update(shrinkage=False), "settings state different values of 'shrinkage'"),
        (lambda card: card["config"].update(strata=[]), "other strata than its settings"),
        (lambda card: card["config"].update(epsilon=0.5), "ε = 2, but its settings 0.5"),
        (lambda card: card["config"].update(delta=1e-12), "but its settings 1e-12"),
        (lambda card: card["config"].update(seed=7), "the noise was seeded"),
        (lambda card: card.update(name="exact"), "differs from the name of the synthesis in its price"),
        (lambda card: card["means_apart"].append(_APART), "means that differ from the rows"),
        (lambda card: card["schema"].update(target="PAY"), "different names or targets"),
        (lambda card: card.pop("called"), "lacks parts that each card of its format has: called"),
        (lambda card: card["config"].update(means=["AGE"]), "means of other columns than"),
    ],
)
def test_a_card_that_the_folder_contradicts_is_found(edited, change, fault):
    assert any(fault in each for each in release_faults(edited(change)))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda mean: mean.update(level=0.5), "another price, level or target"),
        (lambda mean: mean["strata"]["SEX=1"].update(rho=mean["rho"] / 9), "another price, level or target"),
        (lambda mean: mean["strata"]["SEX=1"].update(uninformative=True), "whether it is informative"),
        (lambda mean: mean["sigma"].update(declared=1.0), "another σ than schema.json"),
    ],
)
def test_means_whose_words_are_not_of_their_numbers_are_found(edited, change, fault):
    found = edited(lambda means: [change(each) for each in means["outcomes"]["PAY"].values()], "means.json")
    assert any(fault in each for each in release_faults(found))


@pytest.mark.parametrize(("name", "said"), [("delta_is", "how large δ is"), ("composition", "how prices add up")])
def test_words_on_the_price_that_no_card_has_are_shown(edited, name, said):
    found = edited(lambda card: card["guarantee"].update({name: "far below what anyone asks for"}))
    assert unchecked_release_properties(found)[0] == f"{said}, in words that this version does not use: " + (
        "far below what anyone asks for"
    )


@pytest.mark.parametrize("called", ["False", "True", "maybe"])
def test_a_cell_that_is_called_noise_or_not_against_its_numbers_is_found(honest, tmp_path, called):
    def change(copy):
        cells = pd.read_csv(copy / "cells.csv", dtype=str)
        estimates = cells["estimate"].astype(float)[cells["noise"] == ("True" if called == "False" else "False")]
        # Use the cell with the smallest or the largest estimate, because rounding may change the flag of a cell at the
        # limit.
        cells.loc[estimates.idxmin() if called == "False" else estimates.idxmax(), "noise"] = called
        cells.to_csv(copy / "cells.csv", index=False)

    found = release_faults(Release.open(edited_copy(honest, tmp_path / "copy", change)))
    assert found == ["cells.csv does not follow from the measurements"]


def test_a_card_names_files_without_their_folders(honest, table):
    """The paths are private to the data owner. The card used to contain the path of the schema."""
    assert table["schema"].startswith("/")
    text = (honest / "card.json").read_text("utf-8")
    assert json.loads(text)["config"]["schema"] == "people.yaml"
    assert str(honest.parent) not in text + (honest / "card.md").read_text("utf-8")
