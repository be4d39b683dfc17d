"""Tests of the unit, the groups of rows, the households and the neighbouring relation in a release card."""

import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from plain_release import release

from equistrata.analysis.release import Release
from equistrata.data.schema import Column, Schema
from equistrata.data.sources import FolktablesSource
from equistrata.data.units.unit import Unit
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.publication.released import odds_on
from equistrata.flows.publication.verified import release_faults
from equistrata.flows.release.card.document import HOUSEHOLDS, RunRecord, _relations, release_card
from equistrata.flows.release.card.groups import GROUPS, group_table, unit_of
from equistrata.flows.release.card.page import card_markdown, title_of
from equistrata.flows.release.plan import Plan
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Rho
from equistrata.privacy.noise import SecureNoise
from equistrata.synth.measurements import Measurement
from equistrata.synth.mechanisms.mst import MST


def plan(**settings):
    return Plan.of(ReleaseConfig.build(source="sample", strata="SEX", output="out", **settings))


def card(of):
    """Return the card after it is written and read again."""
    return json.loads(json.dumps(release_card(of, SecureNoise(), RunRecord(10, "noisy counts")), allow_nan=False))


def cells(page, heading):
    """Return the cells in the row of a table on the page that starts with this heading."""
    line = next(line for line in page.splitlines() if line.startswith(f"| {heading} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


HOSTILE = "<script>x</script> [a](http://b) *c* `d`\u202e\u200b\x1b[31m\n# e | f"


def hostile(document, at=()):
    """Replace each string in the document by a hostile text, except for strings that are compared with fixed values."""
    fixed = {"levels", "selection", "engine", "column", "weights", "label"}
    if isinstance(document, dict):
        return {key: each if key in fixed else hostile(each, (*at, key)) for key, each in document.items()}
    if isinstance(document, list):
        return [hostile(each, at) for each in document]
    return document if not isinstance(document, str) else HOSTILE


def test_a_stranger_s_card_is_text_on_its_page():
    """An edited card must not add markup, links, headings or characters that change the text direction."""
    made = hostile(card(plan(epsilon=1, delta=1e-9, report={"title": "t", "agency": "a", "contact": "c"})))
    made["guarantee"]["caveats"] = [HOSTILE]
    made["wide_bins"] = [{"column": HOSTILE, "bin": HOSTILE, "share": 0.5, "mean_off": 1.0, "deviations": 1.0}]
    page = card_markdown(made, None)
    assert "&lt;script&gt;" in page
    page = re.sub(r"(?<!\\)`[^`\n]*`", "", page)  # code spans are ignored
    assert not re.search(r"<script|(?<!\\)\[a(?<!\\)\]|^# e|[\u202e\u200b\x1b]", page, re.MULTILINE)


def test_the_price_of_a_group_is_that_of_the_paper_and_of_the_issue():
    """The values are computed with the tight conversion of k²ρ.

    For example, the ε of three rows is 3.18 if ε = 1 and δ = 1e-9.
    """
    rho = float(Rho.from_epsilon_delta(1, 1e-9))
    found = {entry["units"]: entry for entry in group_table(rho, 1e-9)}
    assert tuple(found) == GROUPS == (1, 2, 3, 5, 10)
    assert {rows: round(entry["epsilon"], 2) for rows, entry in found.items()} == {
        1: 1,
        2: 2.07,
        3: 3.18,
        5: 5.52,
        10: 11.97,
    }
    assert [entry["rho"] for entry in found.values()] == pytest.approx([rho * rows**2 for rows in GROUPS], rel=1e-15)


def test_the_card_states_its_unit_and_the_price_of_a_group():
    made = card(plan(epsilon=1, delta=1e-9))
    guarantee = made["guarantee"]
    assert guarantee["unit"] == "one row"
    assert made["groups"] == group_table(guarantee["rho"], 1e-9)
    assert made["unit"] == {"column": None, "at_most": 1, "unique": False, "weights": "rows", "relation": "add-remove"}
    assert made["relation"] == "add-remove"
    page = card_markdown(made, None)
    assert "The unit is one row." in page
    assert cells(page, "rows") == ["1", "2", "3", "5", "10"]
    assert cells(page, "ε at δ = 1e-09") == ["1", "2.07", "3.183", "5.524", "11.97"]
    assert "Replacing a row by another one counts as two" in page
    assert "one row is one person" not in page
    assert "of at least one row each" in guarantee["relation"]


@pytest.mark.parametrize(
    ("unit", "says", "not_said"),
    [
        (Unit("HOME", 4), "the column itself is not released. The noise is scaled to 4 rows", "share a weight"),
        (
            Unit("HOME", 4),
            "Rows beyond the bound are not used. Counts, shares and means are of the rows",
            "Left out were",
        ),
        (Unit("HOME", 4), "is private; the setting 'bound_share' buys a noisy count of them.", "Left out were"),
        (
            Unit("HOME", 4, weights="units"),
            "share a weight of one, so the noise is scaled to one row.",
            "scaled to 4 rows of",
        ),
        (Unit("HOME", 1, unique=True), "one row, which alone has its HOME;", "Rows beyond the bound"),
    ],
)
def test_the_card_says_what_noise_is_for(unit, says, not_said):
    page = card_markdown(card(replace(plan(), unit=unit)), None)
    assert says in page
    assert not_said not in page
    assert "The privacy cost for k units together is k²ρ.\n\n| units |" in page


def test_the_card_of_replaced_units_is_about_these():
    unit = Unit("HOME", 4, relation="replace-one")
    made = card(replace(plan(), unit=unit))
    assert made["relation"] == "replace-one of all rows with one HOME"
    assert made["groups"] == group_table(made["guarantee"]["rho"], 1e-9)  # k replaced rows cost k²ρ
    page = card_markdown(made, None)
    assert (
        "Neighbouring relation (replace-one): neighbouring tables, of at least one row each, differ by replacing one"
        in page
    )
    assert "| units replaced | 1 | 2 |" in page
    assert "counts as two" not in page
    assert unit_of(made) == unit


def test_a_card_has_its_sections_in_the_order_of_the_pages():
    """Who is served how well, the price, what to keep in mind, what is here, and how it was made."""
    served = {"parity_distance": 0.03, "counted": 1.4, "distance": 0.02, "groups": []}
    means = {"outcomes": {"AGE": {"coinpress": {"value": 40.0, "lower": 39.0, "upper": 41.0}}}}
    found = re.findall("^## (.*)", card_markdown(card(plan()) | {"served": served}, means), re.MULTILINE)
    served, *others = found
    assert served == "Expected error"
    assert others == ["Privacy cost", "Keep in mind", "Contents", "Private means", "How it was made"]


@pytest.mark.parametrize(
    ("unit", "odds"),
    [
        (Unit(), "that a person with one row is in the table"),
        (Unit("HOME", 4), "that the rows of one HOME are in the table"),
        (Unit("HOME", 4, relation="replace-one"), "on the content of the rows of one HOME"),
        (Unit("ID", 1, unique=True), "that a person with one row is in the table"),
    ],
)
def test_pages_say_which_odds_the_price_bounds(unit, odds):
    assert odds_on(card(replace(plan(), unit=unit))) == odds


def test_a_price_that_changes_takes_its_table_with_it():
    """If there is a second charge for the same rows, ρ is larger. The table is a function of the ρ in the card."""
    made = card(plan(epsilon=1, delta=1e-9))
    guarantee = made["guarantee"]
    guarantee["rho"] *= 2
    made["groups"] = group_table(guarantee["rho"], guarantee["delta"], guarantee["relation"])
    assert made["groups"][0]["epsilon"] == Rho(guarantee["rho"]).epsilon(1e-9) > 1.4


def test_epsilon_past_floating_point_is_no_number():
    """The price of 20 rows at the largest possible ε is 134,000 ρ."""
    page = card_markdown(card(replace(plan(epsilon=500, delta=1e-9), mechanism=Foreign(relation=REPLACE_ONE))), None)
    assert cells(page, "ε at δ = 1e-09")[-2:] == ["3.523e+04", "∞"]


def test_households_are_told_where_rows_are_the_survey_s():
    of = plan()
    assert card(of)["households"] is None  # simulated rows have none
    survey = card(replace(of, source=FolktablesSource(("VT",), 2024, root_dir="acs")))
    assert "share a household" in survey["households"]
    assert f"- {survey['households']}.\n" in card_markdown(survey, None)


def test_the_share_that_is_told_of_households_is_the_files_own(acs_root):
    places = pd.read_csv(f"{acs_root}/2024/1-Year/psam_p50.csv", usecols=["SERIALNO"])["SERIALNO"]
    assert f"{places.duplicated(keep=False).mean():.0%}".replace("%", " %") in HOUSEHOLDS


@dataclass(frozen=True)
class Foreign(MST):
    """A synthesizer of another project, which may use the exact number of rows."""

    relation: str = ADD_REMOVE
    software = "other"
    caveats = ("The exact number of rows is used.",)

    def within(self, folder):
        raise NotImplementedError

    def fit_table(self, table, rho, noise, known=()):
        raise NotImplementedError


@pytest.mark.parametrize(("relation", "times"), [(ADD_REMOVE, 1), (REPLACE_ONE, 4)])
def test_a_foreign_synthesizer_s_card_prints_the_relation_that_its_caveats_leave(relation, times):
    made = card(replace(plan(), mechanism=Foreign(relation=relation)))
    guarantee, page = made["guarantee"], card_markdown(made, None)
    assert guarantee["relation"].startswith(relation)
    assert f"Neighbouring relation ({guarantee['relation'].replace(': ', '): ', 1)}.\n" in page
    assert made["groups"][0]["rho"] == pytest.approx(times * guarantee["rho"], rel=1e-15)
    assert ("adding or removing one row" in page) == (relation == ADD_REMOVE)
    assert ("| rows replaced |" in page) == (relation == REPLACE_ONE)


def measurement(columns, where=()):
    return Measurement(columns, np.zeros([1] * len(columns)), 1.0, where=where)


def test_strata_that_were_measured_by_themselves_are_told():
    of = plan()
    one = card(of)
    assert (one["selection"], one["levels"]) == ("shared", "auto")
    found = [measurement(("AGEP",)), measurement(("AGEP", "ESR"), (("SEX", 1),))]
    made = json.loads(json.dumps(release_card(of, SecureNoise(), RunRecord(10, "noisy counts", measured=found))))
    assert (made["selection"], made["levels"]) == ("per-stratum", "auto")
    assert made["guarantee"]["composition"].startswith("strata in parallel")
    pairs = [["AGEP", "ESR"], ["AGEP", "SEX"], ["SEX", "ESR"]]
    assert sorted(made["relations"]["measured"]) == sorted(sorted(pair, key=of.schema.names.index) for pair in pairs)
    page = card_markdown(made, None)
    assert "one synthesizer for each of" in page
    assert "all in one file" in page


def test_a_card_lists_the_relations_that_are_kept_and_those_that_are_not_known():
    made = json.loads(
        json.dumps(release_card(plan(), SecureNoise(), RunRecord(10, "counts", measured=[measurement(("SEX",))])))
    )
    errors = [{"columns": ["SEX", other], "error": 0.02} for other in ("RAC1P", "AGEP")]
    relations = made["relations"] | {"measured": [each["columns"] for each in errors], "expected": errors}
    relations["kept"] = [["SEX", "RAC1P"]]
    page = card_markdown(made | {"relations": relations, "called": {"SEX": "Sex"}}, None)
    assert (
        "\nRelations that the rows preserve: Sex × RAC1P.\n\nRelations that the rows may not preserve: Sex × AGEP.\n"
        in page
    )
    assert cells(page, "Sex × RAC1P")[0].startswith("2.0")
    assert "| Sex × AGEP |" not in page
    del relations["kept"]  # earlier cards have no such entry
    older = card_markdown(made | {"relations": relations}, None)
    assert "Relations that the rows preserve" not in older


def test_groups_that_are_not_known_come_first_on_a_card():
    groups = [
        {
            "label": "SEX=1",
            "words": "Male",
            "rows": 900,
            "lower": 880.2,
            "upper": 919.9,
            "covered": True,
            "distance": 0.02,
        },
        {
            "label": "SEX=2",
            "words": "Female",
            "rows": 22,
            "lower": 0.0,
            "upper": 41.2,
            "covered": False,
            "distance": 0.4,
        },
    ]
    served = {"parity_distance": 0.03, "covered": 1, "counted": 1.2, "scored": True, "groups": groups, "distance": 0.2}
    page = card_markdown(card(plan()) | {"served": served}, None)
    assert "| Female | fewer than 42 | not known |\n| Male | 881 to 919 | 2.0\u00a0% |\n" in page
    assert page.index("Not known for 1 of 2 groups") < page.index("| Female |")
    lost = card_markdown(card(plan()) | {"served": served | {"groups": groups[1:]}}, None)
    assert "Not known for 1 of 1 groups" in lost


def test_a_column_of_one_value_has_no_relation():
    """The relations of this column used to be in the list of relations that are not measured."""
    columns = (Column("A", values=(1, 2)), Column("B", values=(1, 2)), Column("ONE", values=(1,)))
    found = _relations(Schema("s", columns), [("A", "ONE")])
    assert found == {"measured": [], "not_measured": [["A", "B"]], "alone": ["A", "B"]}


def test_what_was_not_measured_is_said():
    of = plan()
    names = of.schema.names
    measured = [measurement(("SEX",)), measurement(names[:2]), measurement(("SEX", names[0]))]
    made = json.loads(json.dumps(release_card(of, SecureNoise(), RunRecord(10, "noisy counts", measured=measured))))
    relations = made["relations"]
    assert [names[0], names[1]] in relations["measured"]
    assert [names[0], names[2]] in relations["not_measured"]
    pairs = len(names) * (len(names) - 1) // 2
    assert len(relations["measured"]) + len(relations["not_measured"]) == pairs
    assert "SEX" not in relations["alone"]
    page = card_markdown(made, None)
    assert f"2 of {pairs} pairs of columns were measured together" in page
    assert f"{', '.join(relations['alone'])} were not measured together with any other column." in page
    # Cards of earlier versions have no relations
    assert "pairs of columns" not in card_markdown(made | {"relations": None}, None)


@pytest.mark.parametrize("too_small", [True, False])
@pytest.mark.parametrize(("target", "said"), [("rows", "the means of the private rows"), ("population", "drawn from")])
def test_the_card_says_which_means_are_covered_and_where_sigma_is_too_small(too_small, target, said):
    sigma = {"declared": 80_000.0, "rows_far_out": 0.123, "too_small": too_small}
    estimate = {"value": 50_000.0, "lower": 49_000.0, "upper": 51_000.0, "sigma": sigma}
    means = {"target": target, "outcomes": {"PAY": {"strat_coinpress": estimate}}}
    page = card_markdown(card(plan()), means)
    assert said in page
    assert ("`sigma` of PAY, 80000, is too small: noisy counts show 12% of the rows" in page) is too_small
    older = {"outcomes": {"PAY": {"coinpress": {key: estimate[key] for key in ("value", "lower", "upper")}}}}
    assert "drawn from" in card_markdown(card(plan()), older)


def test_the_card_names_means_of_which_the_interval_says_nothing():
    lost = {"value": 60.0, "lower": 0.0, "upper": 99.0, "uninformative": True}
    known = {"value": 40.0, "lower": 39.0, "upper": 41.0, "uninformative": False}
    strata = {"SEX=1": lost, "SEX=2": known}
    page = card_markdown(card(plan()), {"outcomes": {"AGE": {"pub_strat_coinpress": lost | {"strata": strata}}}})
    assert "| AGE | pub strat coinpress | 60 | 0 to 99, uninformative |" in page
    assert "Means are uninformative in AGE (all rows, 1 of 2 groups), because their intervals are as wide as" in page
    page = card_markdown(card(plan()), {"outcomes": {"AGE": {"pub_strat_coinpress": known | {"strata": {"a": known}}}}})
    assert "uninformative" not in page


def test_the_groups_that_count_are_told():
    groups = [{"words": "Male", "lower": 880, "upper": 920, "covered": True, "distance": 0.02}]
    served = {"parity_distance": 0.03, "counted": 1.4, "distance": 0.02}
    page = card_markdown(
        card(plan()) | {"served": served | {"groups": [*groups, groups[0] | {"covered": False}]}}, None
    )
    assert "between 0, which means no error, and 2.1. " in page
    assert "summed over the groups with at least 0.1\u00a0% of the rows (about 1 of 2). The" in page
    assert "averaged over columns" in card_markdown(card(plan()) | {"served": served | {"groups": []}}, None)


def test_a_card_has_the_steward_s_title_agency_and_contact():
    texts = {"title": "Dogs *2026* <b>", "agency": "Kennel_club", "contact": "a@b.org"}
    made = card(plan(report=texts))
    assert made["report"] == texts
    page = card_markdown(made, None)
    assert page.startswith("# Dogs \\*2026\\* &lt;b&gt;\n\n10 synthetic rows, variant MST_SEX.\n")
    assert "\nAgency: Kennel_club\n\nContact: a@b.org\n" in page


def test_a_card_without_a_title_is_called_by_data_set_and_release():
    of = plan()
    made = card(of)
    assert made["report"] == {"title": None, "agency": None, "contact": None}
    assert card_markdown(made, None).startswith("# acs_employment\n")
    charged = {"dataset": "people", "release_id": "2026-11", "charges": [], "epsilon": 1.0, "rho": 0.1}
    assert title_of(release_card(of, SecureNoise(), RunRecord(10, "noisy counts"), charged)) == "people: 2026-11"


def test_no_name_of_a_steward_makes_markup(tmp_path):
    """The names of files, schemas, columns and strata were not escaped, unlike titles and labels."""
    bad = "<img src=x onerror=alert(1)>"
    source, schema = tmp_path / f"{bad}.csv", tmp_path / "people.yaml"
    pd.DataFrame({f"A {bad}": [0, 1] * 200, "B|c": [0, 1, 1, 1] * 100, "N": list(range(10)) * 40}).to_csv(
        source, index=False
    )
    schema.write_text(
        f'name: "p`{bad}"\ncolumns:\n  "A {bad}": {{values: [0, 1]}}\n  "B|c": {{values: [0, 1]}}\n'
        "  N: {lower: 0, upper: 9, sigma: 3}\n"
    )
    folder = tmp_path / "made"
    settings = {"source": "csv", "input": str(source), "schema": str(schema), "strata": (f"A {bad}",)}
    release({"evaluate": "none", "output": str(folder), "means": ("N",)} | settings)
    text = (folder / "card.md").read_text("utf-8")
    assert text.count("&lt;img") >= 5
    assert f"(schema `p'{bad}`, SHA-256" in text  # in a code span, only the end of the span is markup
    assert "<img" not in re.sub("`[^`]*`", "", text.replace("\\`", ""))
    assert release_faults(Release.open(folder)) == []
