"""Tests of the report: a public report contains no exact number, the two kinds are separate, and
the texts and formats.
"""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from audit_fixtures import SCHEMA
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from report_fixtures import (
    FAIR,
    HISTORY,
    OTHER,
    PRIVATE,
    Deaf,
    about,
    facts,
    internal_report,
    public_report,
)

import equistrata.eval.audit.public
import equistrata.eval.report.page as report_page
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.eval.audit.internal import MeanComparison
from equistrata.eval.audit.noisy_number import NoisyNumber
from equistrata.eval.report.exhibits import exhibits
from equistrata.eval.report.group_errors import ReportedNumber
from equistrata.eval.report.page import SCHEMA as DOCUMENT_SCHEMA
from equistrata.eval.report.page import write_report
from equistrata.eval.report.tables import WRITTEN, csv_files, published_means, summary
from equistrata.eval.report.verdict import _on_groups, verdict

WATERMARK = "internal: computed from private rows"
VALIDATOR = Draft202012Validator(json.loads(DOCUMENT_SCHEMA.read_text("utf-8")))


def to_document(report):
    return report_page.to_document(report, verdict(report))


def to_markdown(report):
    return report_page.to_markdown(report, verdict(report))


def to_html(report):
    return report_page.to_html(report, verdict(report), csv_files(report))


NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    """Use a small forest because the accuracy of the predictions is not tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("equistrata.eval.scores.classifiers.TREES", 20)
        yield


@pytest.fixture(scope="module")
def public():
    return public_report(history=HISTORY)


@pytest.fixture(scope="module")
def internal():
    return internal_report(history=HISTORY)


@pytest.fixture(scope="module")
def files(public, internal, tmp_path_factory):
    """Return a dictionary from the kind of report and the name of a file to its text."""
    root = tmp_path_factory.mktemp("reports")
    return {kind: written(report, root / kind) for kind, report in (("public", public), ("internal", internal))}


@pytest.fixture(scope="module")
def pages(files):
    return {"public": files["public"]["audit.html"], "internal": files["internal"]["internal-audit.html"]}


def written(report, folder):
    """Return a dictionary from the name of each file of a report to its text."""
    folder.mkdir()
    write_report(report, folder)
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


def leaves(tree):
    if isinstance(tree, Mapping):
        for branch in tree.values():
            yield from leaves(branch)
    elif isinstance(tree, list):
        for branch in tree:
            yield from leaves(branch)
    else:
        yield tree


# --- No exact number in a public report


def test_with_noise_that_does_not_listen_the_whole_report_is_the_same_for_other_rows(tmp_path):
    """The noise source ignores the private rows, so the report must not depend on them."""
    one, other = (public_report(rows, Deaf(3), history=HISTORY) for rows in (PRIVATE, OTHER))
    assert written(one, tmp_path / "one") == written(other, tmp_path / "other")


@pytest.mark.parametrize("fault", ["a rate", "a size", "a note"])
def test_that_test_sees_what_goes_around_the_noise(monkeypatch, fault):
    if fault == "a rate":
        honest = equistrata.eval.audit.public.SECTIONS["rates"]

        def leaky(subject, *rest):
            shown, drawn = honest(subject, *rest)
            exact = float(np.mean(subject.predictions[1] == subject.predictions[0].selected))
            return {**shown, "accuracy": {**shown["accuracy"], "all": NoisyNumber(exact, 0.0, 1.0)}}, drawn

        monkeypatch.setitem(equistrata.eval.audit.public.SECTIONS, "rates", leaky)
    if fault == "a size":
        monkeypatch.setattr(Deaf, "_gaussian", lambda self, counts, *claim: counts)
    if fault == "a note":
        rows = CodedTable.__len__
        monkeypatch.setattr("report_fixtures.about", lambda strata: replace(about(strata), rows=f"{rows(seen)} rows"))
    found = []
    for seen in (PRIVATE, OTHER):
        report = public_report(seen, Deaf(3), tables={"fair": FAIR})
        found.append((to_document(report), csv_files(report)))
    assert found[0] != found[1]


def exact_numbers(report):
    """Return the numbers of an internal audit that are not public, as text with six digits."""
    document = [each.to_dict() for each in report.audits] + [each.marginals.to_dict() for each in report.audits]
    public = set(
        leaves([{"rows": dict(m.rows), "means": dict(m.means)} for m in (each.synthetic for each in report.audits)])
    )
    public |= set(
        leaves([s for each in report.audits for c in each.marginals.columns.values() for s in [c.synthetic.tolist()]])
    )
    public |= set(
        leaves([s for each in report.audits for c in each.marginals.in_group.values() for s in [c.synthetic.tolist()]])
    )
    found = {f"{x:.6g}" for x in leaves(document) if isinstance(x, float) and x not in public}
    return {text for text in found if len(text) > 6}  # ratios of small counts can be equal by chance


def numbers_in(files):
    """Return all numbers in the files of a report, including encoded tables, as text with six digits.

    A percentage is also returned as a share.
    """
    found = set()
    for text in files.values():
        parts = [text, *(base64.b64decode(code).decode() for code in re.findall(r"base64,([A-Za-z0-9+/=]+)", text))]
        for number in NUMBER.findall(" ".join(parts)):
            x = float(number.replace(",", ""))
            found |= {f"{x:.6g}", f"{x / 100:.6g}"}
    return found


def test_no_exact_number_is_in_any_file_of_a_public_report(internal, files):
    """Each number of the internal audit of the same releases is searched in all HTML, JSON, CSV and Markdown files."""
    canaries = exact_numbers(internal)
    assert len(canaries) > 60
    assert {name.rpartition(".")[2] for name in files["public"]} == {"html", "json", "csv", "md"}
    assert canaries & numbers_in(files["public"]) == set()
    assert len(canaries & numbers_in(files["internal"])) > 60  # the numbers are found in the internal report


# --- Two kinds of reports


def test_reports_take_audits_of_their_kind_only(public, internal):
    with pytest.raises(TypeError, match="public audits only, not InternalAudit"):
        replace(public, audits=internal.audits)
    with pytest.raises(TypeError, match="internal audits only, not PublicAudit"):
        replace(internal, audits=public.audits)
    with pytest.raises(TypeError, match="only a public report"):
        to_markdown(internal)
    with pytest.raises(ValueError, match="one audit"):
        replace(internal, audits=internal.audits[:1])


def test_files_tell_the_kinds_apart(files):
    ours, theirs = files["public"], files["internal"]
    assert set(ours) == {"audit.html", "audit.json", "audit.md", "audit.schema.json"} | {
        f"tables/{name}.csv" for name in ("groups", "errors", "means", "measurements", "budget")
    }
    assert set(theirs) == {"internal-audit.html", "internal-audit.json", "audit.schema.json"} | {
        f"tables/{name}.csv" for name in ("groups", "errors", "marginals", "pairs", "budget")
    }
    assert WATERMARK in theirs["internal-audit.html"]
    assert "position: fixed" in theirs["internal-audit.html"]  # on each printed page
    assert json.loads(theirs["internal-audit.json"])["warning"] == WATERMARK
    assert WATERMARK not in "".join(text for name, text in ours.items() if name != "audit.schema.json")


# --- The texts


def test_the_verdict_names_the_group_that_was_spoiled(public, internal, pages):
    for report in (public, internal):
        said = verdict(report)
        assert [each.name for each in said.releases] == ["fair", "spoiled"]
        (_, spoiled) = said.releases
        assert report.findings[1].worst == ("G=y",)
        off = {
            "public": "its means are off by 78",
            "internal": "its columns are off by 44",
        }
        first, *others = spoiled.sentences
        if report.MODE == "public":  # the error of G z may be due to chance
            assert first == "The error is not known for 1 of the 3 groups (G z), because the noise is too large."
            first, *others = others
        judged = "Of the 2 groups that can be judged, " if report.MODE == "public" else ""
        assert first.startswith(f"{judged}spoiled is least accurate for G y: {off[report.MODE]}")
        (relations,) = [each for each in others if each.startswith("Relations between columns: over all rows")]
        assert "0 means no error, and 2 means no combination of values in common. " in relations
        assert "The error is largest for G y: 1.7" in relations
        significantly = "significantly " if report.MODE == "public" else ""
        assert said.comparison[0].startswith(f"fair is {significantly}more accurate than spoiled for 1 of the 3 groups")
        assert "spoiled is least accurate for G y: off by" in said.comparison[0]
        assert "ε = 1" in said.opening[1]
        assert report.order == (("G=z", "G=y", "G=x") if report.MODE == "public" else report.order)
        page = html.unescape(re.sub("[ \\n]+", " ", pages[report.MODE]))
        for sentence in (*said.opening, *spoiled.sentences, *said.comparison, *said.caveats):
            assert sentence in page


def sentences_of(report, **errors):
    """The sentences on the first release's groups if they had these errors in all columns."""
    found = report.findings[0]
    of = {label.replace("_", "="): shown for label, shown in errors.items()} | {"all": ReportedNumber(0.01, 0.0, 0.04)}
    return list(_on_groups(replace(found, errors=dict.fromkeys(found.averaged, of)), report.about))


GOOD = ReportedNumber(0.01, 0.005, 0.015)
HIDDEN = ReportedNumber(0.3, 0.0, 0.9, "margin of error larger than the value")


@pytest.mark.parametrize(
    ("y", "first"),
    [
        (ReportedNumber(0.3, 0.041, 0.5), "fair is least accurate for G y: its means are off by 30"),
        (
            ReportedNumber(0.3, 0.039, 0.5),
            "It is not known for which group fair is least accurate. It may be any of these 3 groups: G y, off",
        ),
    ],
)
def test_no_group_is_called_the_worst_where_intervals_hold_another(public, y, first):
    alike = ReportedNumber(0.01, 0.0, 0.04)
    assert sentences_of(public, G_x=alike, G_y=y, G_z=alike)[0].startswith(first)


def test_a_worst_group_is_apart_from_all_others_and_not_from_the_best_alone(public):
    """Regression test: G y was called the worst group, but the error of G x may be twice as large."""
    said = sentences_of(public, G_x=ReportedNumber(0.2, 0.03, 0.6), G_y=ReportedNumber(0.3, 0.041, 0.5), G_z=GOOD)
    assert said[0].startswith(
        "It is not known for which group fair is least accurate. It may be any of these 2 groups: G y, off by"
    )
    assert not any("accurate for G" in each for each in said)


def test_the_one_group_that_can_be_judged_is_not_called_worst(public):
    """Regression test: the group was called the worst group because the errors of the other groups were unknown."""
    said = sentences_of(public, G_x=GOOD, G_y=HIDDEN, G_z=HIDDEN)
    assert said[0] == "The error is not known for 2 of the 3 groups (G y; G z), because the noise is too large."
    unknown = "It is not known for which group fair is least accurate."
    assert said[1].startswith(f"{unknown} Only G x can be judged, which is off by 1.0")
    assert not any("accurate for G" in each or "best" in each for each in said)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.booleans()), min_size=3, max_size=3))
def test_headline_table_and_figure_name_one_worst_group_or_none(public, numbers):
    """Regression test: the headline used the lower ends and the figure used the estimates, so they named different
    groups.
    """
    labels = ("G=x", "G=y", "G=z")
    of = {
        label: ReportedNumber(value, max(value - far, 0.0), value + far, "noise" if hidden else "")
        for label, (value, far, hidden) in zip(labels, numbers, strict=True)
    }
    of["all"] = ReportedNumber(0.1, 0.0, 0.2)
    (one, *_) = public.findings
    found = replace(one, errors=dict.fromkeys(one.averaged, of))
    report = replace(public, releases=public.releases[:1], audits=public.audits[:1])
    vars(report)["findings"] = (found,)
    assert all(found.served[label].note for label in report.order[: len(found.below_noise)])
    named = [
        label
        for label in labels
        if f"least accurate for {report.about.names[label]}:" in " ".join(_on_groups(found, report.about))
    ]
    cell = {row[0]: row[1] for row in summary(report).rows}["group with the largest error"]
    seen = next(exhibits(report)).chart.description
    assert len(named) <= 1
    for label in labels:
        words = f"{report.about.names[label]}: "
        assert (words in cell) == (words in seen) == (label in named)
    if named:
        others = [found.served[label].at_most for label in found.judged if label not in named]
        assert found.served[named[0]].at_least > max(others, default=-1.0)
    else:
        assert "not known" in cell


def test_the_comparison_with_a_release_that_is_alike_tells_nothing():
    report = public_report(tables={"one": FAIR, "two": FAIR})
    (said,) = verdict(report).comparison
    assert said == "The errors of one and two do not differ significantly for any of the 3 groups."


def test_a_lost_group_is_named():
    lost = FAIR.take(np.flatnonzero(FAIR.column("G") != 2))
    for make in (public_report, internal_report):
        (said,) = verdict(make(tables={"lossy": lost})).releases
        assert said.sentences[0] == "There are no synthetic rows for 1 of the 3 groups (G z)."


def test_what_is_too_small_is_said_not_ranked():
    report = public_report(price=public_report().audits[0].rho.split([1, 4000])[0])
    (found, _), (said, _) = report.findings, verdict(report).releases
    assert set(found.below_noise) == {"G=x", "G=y", "G=z"}
    assert said.sentences[0] == (
        "The error is not known for 3 of the 3 groups (G z; G y; G x), because the noise is too large."
    )
    assert said.sentences[1].startswith("Over all rows")


def test_prices_are_told(public):
    said = verdict(public).opening[1]
    assert "this audit cost ε = 2 at δ = 1e-9" in said
    (together,) = re.findall(r"at most ε = ([\d.]+)", said)
    assert public.together <= float(together) <= public.together * 1.01  # rounded up
    assert any("No ledger was charged" in caveat for caveat in verdict(public_report()).caveats)
    assert not any("No ledger was charged" in caveat for caveat in verdict(public).caveats)


def test_seeded_noise_is_told_everywhere(public, pages):
    assert not public.private
    assert "<strong>Not private:</strong>" in pages["public"]
    assert to_document(public)["price"]["private"] is False
    assert "not private" in to_markdown(public)
    unprivate = replace(public, releases=tuple(replace(each, private=False) for each in public.releases))
    assert "fair and spoiled were made with a seeded noise source" in verdict(unprivate).caveats[0]


def test_exact_findings_are_those_of_the_audit(internal):
    for found, audit in zip(internal.findings, internal.audits, strict=True):
        for label in ("G=x", "G=y", "G=z", "all"):
            for of, value in (
                (audit.scores.distance_by_group, found.served[label].value),
                (audit.scores.parity_by_group, found.numbers["error of means"][label].value),
            ):
                assert value == pytest.approx(np.mean([of[column][label] for column in ("A", "B", "Y")]))
        parts = [found.served[label].value for label in ("G=x", "G=y", "G=z")]
        assert audit.scores.parity_distance == pytest.approx(sum(parts) + found.served["all"].value / 3)
        assert (audit.marginals.group,) == found.worst
        assert found.numbers["workload error"]["G=x"].value == audit.scores.workload3_strata["G=x"]
        assert found.numbers["accuracy"]["all"].value == audit.fairness.accuracy


# --- The document


def test_documents_fit_the_published_schema(public, internal):
    Draft202012Validator.check_schema(VALIDATOR.schema)
    for report in (
        public,
        internal,
        public_report(strata=Strata.over(SCHEMA, [])),
        public_report(tables={"one": FAIR}),
    ):
        document = json.loads(json.dumps(to_document(report), allow_nan=False))
        assert list(VALIDATOR.iter_errors(document)) == []


def broken(document, path, value):
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    place[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mode",), "internal"),
        (("exact",), 0.75),
        (("price",), None),
        (("warning",), WATERMARK),
        (("releases", 0, "audit", "sizes", "G=x"), 9000),
        (("releases", 0, "audit", "means", "A", "G=x"), {"value": 1.5}),
        (("releases", 0, "audit", "measurements", "rates", "G=x", "true positives"), 31),
        (("releases", 0, "audit", "scores"), {"parity_error": 0.5}),
        (("releases", 0, "marginals"), {}),
        (("releases", 0, "served", "G=x"), 0.1),
        (("schema",), "x"),
    ],
)
def test_the_schema_lets_no_exact_number_into_a_public_document(public, path, value):
    document = json.loads(json.dumps(to_document(public)))
    assert list(VALIDATOR.iter_errors(broken(document, path, value)))


def test_tables_hold_what_the_document_holds(public, internal):
    for report in (public, internal):
        files = {name: list(csv.DictReader(io.StringIO(text))) for name, text in csv_files(report).items()}
        document = to_document(report)
        served = {(r["name"], g): n for r in document["releases"] for g, n in r["served"].items()}
        measure = report.findings[0].measure
        assert {each["measure"] for each in document["releases"]} == {measure}
        rows = [row for row in files["groups.csv"] if row["quantity"] == measure]
        assert {(row["release"], row["group"]): row["value"] for row in rows} == {
            key: str(number["value"]) for key, number in served.items()
        }
        assert {row["quantity"] for row in files["groups.csv"]} == set(report.findings[0].by_group)
        assert set(report.findings[0].by_group) == set(WRITTEN) - ({"distance"} if report is public else set())
        assert len(files["errors.csv"]) == 2 * 3 * 4  # releases, columns, groups and all rows
        assert [row["outcome"] for row in files["budget.csv"]] == ["committed", "this audit"]
    marginals = [row for row in files["marginals.csv"] if (row["release"], row["group"]) == ("fair", "all")]
    for column in SCHEMA.names:
        shares = [float(row["private"]) for row in marginals if row["column"] == column]
        counts = np.bincount(PRIVATE.column(column), minlength=SCHEMA[column].size)
        assert shares == pytest.approx((counts / len(PRIVATE)).tolist())


# --- The page


def test_a_page_holds_all_it_needs(pages):
    for page in pages.values():
        assert "<script" not in page
        addresses = re.findall(r'(?:href|src|action)="([^"]*)"', page) + re.findall(r"url\(([^)]*)\)", page)
        assert addresses
        assert all(address.startswith(("#", "data:")) for address in addresses)
        assert not re.search(r"https?://(?!www\.w3\.org/)", page)


def test_every_chart_has_words_and_the_theme_s_colours(pages):
    served = {"served", "workload", "calibration", "rates"}
    for kind, more in {"public": set(), "internal": {"marginals0", "marginals1", "marginals2"}}.items():
        charts = re.findall(r'<figure class="chart" id="(.*?)" role="img" aria-label="(.*?)">', pages[kind])
        assert {name for name, _ in charts} == served | more
        assert all(len(label) > 30 for _, label in charts)
        assert pages[kind].count('<p class="legend">') == len(charts)
        assert pages[kind].count('class="shaded"') == 2  # of errors by column, one for each release
        ids = re.findall(r'\sid="([^"]*)"', pages[kind])
        assert len(ids) == len(set(ids))
        assert not re.search("#(?:1f6f8b|b4531a)", re.sub(r":root \{.*?\}", "", pages[kind]))


def test_names_cannot_become_markup():
    names = ('<script>alert("x")</script>', "a|b")
    schema = Schema(
        "nasty",
        (Column("G", label="<b>group</b>", values=(1, 2), labels=((1, names[0]), (2, names[1]))), *SCHEMA.columns[1:]),
        target="Y",
    )
    strata = Strata.over(schema, ["G"])

    def of(table):
        return CodedTable(table.take(np.flatnonzero(table.column("G") < 2)).codes, schema)

    report = public_report(of(PRIVATE), tables={"<i>release</i>": of(FAIR)}, strata=strata)
    page, text = to_html(report), to_markdown(report)
    for markup in ("<script", "<b>", "<i>"):
        assert markup not in page
    assert "&lt;script&gt;" in page
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    for strip in re.findall(r'<svg class="strip".*?</svg>(?=<)', page):
        ET.fromstring(strip if strip.count("<svg") == strip.count("</svg>") else f"{strip}</svg>")


@pytest.mark.parametrize("make", [public_report, internal_report])
def test_without_strata_all_rows_are_one_group(make):
    report = make(strata=Strata.over(SCHEMA, []))
    said = verdict(report)
    assert "Errors are stated for all rows together" in said.opening[0]
    public = report.MODE == "public"
    off = f"{'means' if public else 'columns'} are off by "
    assert said.releases[0].sentences[0].startswith(f"Over all rows, the {off}")
    assert said.comparison[0].startswith("fair is off by ")
    assert report.order == ("all",)
    assert to_html(report).count("<svg") > 10


def test_without_a_target_nothing_is_said_of_classifiers():
    schema = SCHEMA.select(["G", "A", "B"])
    tables = {"one": FAIR.select(["G", "A", "B"])}
    strata = Strata.over(schema, ["G"])
    report = public_report(PRIVATE.select(["G", "A", "B"]), tables=tables, strata=strata, classifier=False)
    page = to_html(report)
    assert "lassifier" not in "".join(verdict(report).releases[0].sentences)
    assert 'id="calibration"' not in page
    assert list(VALIDATOR.iter_errors(json.loads(json.dumps(to_document(report))))) == []


def test_infinite_ends_are_null_not_words(public):
    report = public_report(price=public_report().audits[0].rho.split([1, 4000])[0])
    assert any(s.upper == math.inf for found in report.findings for s in found.numbers["calibration"].values())
    text = json.dumps(to_document(report), allow_nan=False)
    assert "Infinity" not in text
    assert all("inf" not in content for content in csv_files(report).values())


def test_the_relations_that_were_not_measured_are_in_the_exhibit_of_relations(public, internal, pages):
    found = {"measured": [["A", "B"]], "not_measured": [["A", "Y"], ["B", "Y"]], "alone": ["Y"]}
    for report in (public, internal):
        first, second = report.releases
        said = replace(report, releases=(replace(first, relations=found), second))
        (exhibit,) = [each for each in exhibits(said) if "relations between columns" in each.title]
        sentence = "1 of 3 pairs of columns was measured together; Y was not measured together with any other column."
        # The sentence is only for the first release, because the other has an older card.
        assert exhibit.reading.endswith(f" {first.name}: {sentence}")
        assert sentence in to_html(said)
        document = to_document(said)
        assert list(VALIDATOR.iter_errors(document)) == []
        assert [each["relations"] for each in document["releases"]] == [found, None]
        assert "measured together" not in pages[report.MODE]


def test_a_page_has_the_steward_s_title_agency_and_contact():
    plain = public_report(tables={"fair": FAIR})
    report = replace(plain, about=replace(plain.about, title="<b>Dogs</b> & cats", agency="Kennel_club", contact="a@b"))
    page, document = to_html(report), to_document(report)
    assert document["report"] == {"title": "<b>Dogs</b> & cats", "agency": "Kennel_club", "contact": "a@b"}
    assert list(VALIDATOR.iter_errors(document)) == []
    assert "<b>" not in page
    assert "<h1>&lt;b&gt;Dogs&lt;/b&gt; &amp; cats</h1>" in page
    assert '<p class="kind">Agency: Kennel_club</p>' in page
    assert to_markdown(report).startswith("# &lt;b&gt;Dogs&lt;/b&gt; &amp; cats\n\nAgency: Kennel_club\n\nContact: a@b")
    assert to_document(plain)["report"] == {"title": "Fairness audit of fair", "agency": None, "contact": None}
    named = replace(plain, releases=(replace(plain.releases[0], title="dogs: 2026-11"),))
    assert named.title == "Fairness audit of dogs: 2026-11"


NAMES = Schema(
    "names",
    (
        SCHEMA.columns[0],
        Column("A", values=(1, 2)),
        Column("C", label="Colour", values=(1, 2, 3), labels=((1, "red"), (2, "green"), (3, "blue"))),
    ),
)


def coloured(seed, size):
    rng = np.random.default_rng(seed)
    return CodedTable(rng.integers(0, (3, 2, 3), (size, 3)).astype(np.uint8), NAMES)


def test_codes_without_an_order_are_in_no_group_s_error_of_a_public_report():
    strata, tables = Strata.over(NAMES, ["G"]), {"one": coloured(1, 900)}
    report = public_report(coloured(0, 9000), tables=tables, strata=strata, classifier=False)
    (found,) = report.findings
    assert (set(found.errors), found.averaged) == ({"A", "C"}, ("A",))
    assert found.served["G=x"].value == found.errors["A"]["G=x"].value
    assert any("The codes of Colour have no order" in caveat for caveat in verdict(report).caveats)
    assert to_document(report)["releases"][0]["averaged"] == ["A"]
    assert list(VALIDATOR.iter_errors(json.loads(json.dumps(to_document(report))))) == []


def test_without_any_order_a_public_report_states_no_error_of_groups():
    schema = NAMES.select(["G", "C"])
    one, two, rows = (coloured(seed, size).select(["G", "C"]) for seed, size in ((1, 900), (2, 900), (0, 9000)))
    report = public_report(rows, tables={"one": one, "two": two}, strata=Strata.over(schema, ["G"]), classifier=False)
    said = verdict(report)
    assert all(each.sentences[0].startswith("Relations between columns") for each in said.releases)
    assert said.comparison == ()
    assert any("The codes of Colour have no order" in caveat for caveat in said.caveats)
    page = to_html(report)
    assert "Error of each group" not in page
    assert "no column has ordered codes" in page
    assert list(VALIDATOR.iter_errors(json.loads(json.dumps(to_document(report))))) == []


def test_distances_do_not_depend_on_the_order_of_names(monkeypatch):
    colour = replace(NAMES.columns[2], values=(3, 1, 2))
    other, place = replace(NAMES, columns=(*NAMES.columns[:2], colour)), np.array([1, 2, 0], dtype=np.uint8)

    def again(table):
        codes = table.codes.copy()
        codes[:, 2] = place[codes[:, 2]]
        return CodedTable(codes, other)

    def served(schema, private, table):
        report = internal_report(private, {"one": table}, Strata.over(schema, ["G"]))
        return {label: shown.value for label, shown in report.findings[0].served.items()}

    monkeypatch.setattr("report_fixtures.Fixed", lambda: None)
    private, table = coloured(0, 9000), coloured(1, 900)
    found = served(other, again(private), again(table))
    assert found == pytest.approx(served(NAMES, private, table))


def test_groups_and_columns_go_by_their_words_and_by_codes_where_these_are_the_same():
    columns = (
        Column("G", label="Group", values=("x", "y", "z"), labels=(("x", "Us"), ("y", "Them"), ("z", "Them"))),
        *SCHEMA.columns[1:],
    )
    strata = Strata.over(replace(SCHEMA, columns=columns), ["G"])
    assert about(strata).names == {"G=x": "Us", "G=y": "Them (G=y)", "G=z": "Them (G=z)", "all": "all rows"}
    assert about(strata).titles["G"] == "Group"


def test_the_verdict_says_how_rows_were_made_as_the_card_does(public):
    how = "one selection of marginals within strata, for all 3 declared strata of G"
    said = replace(public, releases=tuple(replace(each, how=how) for each in public.releases))
    assert verdict(said).releases[0].made == f"MST, {how}; 1,000 synthetic rows; ε = 1, δ = 1e-9"
    assert verdict(public).releases[0].made.startswith("MST; ")


def test_published_means_without_an_exact_one_are_in_no_interval():
    """A stratum without rows has no exact mean. The labels of the columns are from the card."""
    report = internal_report(tables={"fair": FAIR})
    means = {"A (coinpress)": {"G=x": MeanComparison(1.0, 1.5, 0.5, 2.0), "G=y": MeanComparison(None, 1.5, 0.5, 2.0)}}
    means["PAY (coinpress)"] = {"G=x": MeanComparison(9.0, 1.5, 0.5, 2.0)}
    shown = replace(
        report,
        about=replace(report.about, called={"PAY": "Wage"}),
        audits=(replace(report.audits[0], means=means),),
    )
    (table,) = published_means(shown)
    assert [row[0] for row in table.rows] == ["A: G x", "A: G y", "Wage: G x"]
    assert [row[-1] for row in table.rows] == ["yes", "–", "no"]
    assert table.caption == "Published means and exact means, fair"
    held_out = replace(shown, releases=(facts("fair", held_out=0.2),))
    (table,) = published_means(held_out)
    assert table.caption == "Published means (of a random 80\u00a0% of the rows) and exact means, fair"
    both = replace(shown, audits=(replace(report.audits[0], means=means | {"A (other)": means["A (coinpress)"]}),))
    assert [row[0] for row in next(published_means(both)).rows][:1] == ["A (coinpress): G x"]
