"""Tests of the report in a browser, with several screens and colour schemes, the keyboard, axe-core
and a printed page.
"""

from __future__ import annotations

import re

import pytest
from browsing import SIZES, chromium, first_picture, opened, too_wide, violations
from report_fixtures import FAIR, HISTORY, facts, internal_report, public_report

from equistrata.eval.report.bars import Contents
from equistrata.eval.report.expected import ExpectedReport, write_expected
from equistrata.eval.report.page import write_report
from equistrata.eval.report.tables import Table, csv_files
from equistrata.eval.report.verdict import verdict

LOW = {"desktop": 800, "phone": 844}  # the lower end of a small screen
FIRST_PICTURE = 1000  # milliseconds from disk, at the most
TOUCHING = """figure => [...figure.querySelectorAll('.axis svg')].flatMap(svg => {
    const boxes = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect());
    return boxes.slice(1).filter((box, i) => box.left < boxes[i].right + 2);
}).length"""  # the number of overlapping labels of an axis


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Return a dictionary from the kind of report to the report and the URL of its page."""
    found = {}
    for report in (public_report(history=HISTORY), internal_report(history=HISTORY)):
        folder = tmp_path_factory.mktemp(report.MODE)
        found[report.MODE] = report, write_report(report, folder).as_uri()
    return found


def looks_right(page, wrong, size, scheme, figures_at_least):
    """Check that the figures are complete, the page is not too wide, the colours match the scheme, and axe-core finds
    no error.
    """
    figures = page.locator("figure.chart").all()
    assert len(figures) >= figures_at_least
    for figure in figures:
        box = figure.bounding_box()
        assert box["width"] > 200
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= SIZES[size][0]
        assert figure.locator("path").count() > 3
        ends = figure.evaluate(TOUCHING)
        assert ends == 0
    assert too_wide(page, size) == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(15, 20, 25)"
    )
    assert wrong == []
    assert violations(page) == []


SEEN = pytest.mark.parametrize(
    ("scheme", "size"),
    [
        ("light", "desktop"),
        ("dark", "desktop"),
        ("light", "phone"),
        pytest.param("dark", "phone", marks=pytest.mark.slow),
        ("light", "zoomed"),
        pytest.param("light", "wide", marks=pytest.mark.slow),
    ],
)


@SEEN
@pytest.mark.parametrize("kind", ["public", "internal"])
def test_a_page_as_it_is_seen(browser, reports, kind, scheme, size):
    report, address = reports[kind]
    with opened(browser, address, size, scheme) as (page, wrong):
        said = page.locator("#verdict").inner_text().replace("\xa0", " ")
        for sentence in (*verdict(report).opening, *verdict(report).comparison):
            assert sentence.replace("\xa0", " ") in said
        looks_right(page, wrong, size, scheme, 4)


def free_report(number=7, columns=3):
    """A free audit's report of so many groups and columns."""
    groups = {f"Group number {place}, of the second kind": 10.0 ** min(place, 9) for place in range(1, number + 1)}
    factors = {"AGE": 3.0, "WORK": 20.0, "HEALTH": 0.5} | {f"OF {place}": 1.0 for place in range(columns - 3)}
    distances = {
        name: {group: min(factor / rows, 1.0) for group, rows in groups.items()} for name, factor in factors.items()
    }
    tables = [Table(f"{name} & more", ("a", "b"), (("one", "<two>"),) * 3) for name in ("People", "Files", "Means")]
    called = {"AGE": "Age", "WORK": "Usual hours of work", "HEALTH": "Health"}
    return ExpectedReport(
        title="A title <of> the steward's",
        agency="An agency",
        contact="data@example.org",
        release=facts("fair"),
        unit="one row",
        grouping="Number × Kind",
        sizes=groups,
        limits={group: (0.9 * size, 1.1 * size) for group, size in groups.items()},
        distances=distances,
        parity_distance=1.2,
        counted=7.0,
        covered=frozenset(groups),
        called={name: called.get(name, name) for name in distances},
        not_measured=("Age and Health",),
        replicates=50,
        made="2026-11-23T10:00:00+00:00",
        software="equistrata",
        contents=Contents(*tables),
    )


@SEEN
def test_a_free_audits_page_as_it_is_seen(browser, tmp_path, scheme, size):
    report = free_report()
    with opened(browser, write_expected(report, tmp_path).as_uri(), size, scheme) as (page, wrong):
        said = page.locator("#verdict").inner_text().replace("\xa0", " ")
        assert "largest expected error is that of Group number 1" in said
        assert "and by 100 % in Usual hours of work." in said
        assert "1 in between" in said
        ends = page.evaluate("[...document.querySelectorAll('nav a')].map(link => link.getBoundingClientRect().right)")
        assert max(ends) <= SIZES[size][0]  # no link is cut off or needs scrolling
        looks_right(page, wrong, size, scheme, 1)


def test_a_page_that_misbehaves_is_seen(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<title>x</title><script>console.error('no'); x.y</script><img src='other.png'>")
    with opened(browser, page.as_uri()) as (seen, wrong):
        assert {text.split(":")[0] for text in wrong} == {"console", "error", "request", "failed"}
        assert "image-alt" in {rule for rule, *_ in violations(seen)}


def test_the_first_picture_is_there_within_a_second(browser, reports):
    """The fastest of three runs is used because the machine may be busy."""
    for _, address in reports.values():
        took = []
        for _ in range(3):
            with opened(browser, address) as (page, _):
                took.append(first_picture(page))
        assert min(took) < FIRST_PICTURE


def test_the_keyboard_is_enough(browser, reports):
    with opened(browser, reports["public"][1]) as (page, wrong):
        focused = "document.activeElement"
        page.keyboard.press("Tab")
        assert page.evaluate(f"{focused}.textContent") == "Skip to the verdict"
        assert page.locator(".skip").bounding_box()["x"] >= 0  # the link is visible
        page.keyboard.press("Enter")
        page.wait_for_function(f"{focused}.id === 'main'")
        page.keyboard.press("Tab")
        reached = set()
        for _ in range(300):
            reached.add(
                page.evaluate(
                    f"{focused}.tagName + ' ' + ({focused}.getAttribute('aria-label') || {focused}.textContent)"
                )
            )
            if page.evaluate(f"{focused} === document.body"):
                break
            page.keyboard.press("Tab")
        kinds = [name.split()[0] for name in reached]
        assert kinds.count("SUMMARY") >= 1
        assert "DIV The releases in numbers" in reached  # a table that can be scrolled has the focus
        summary = page.locator("summary").first
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("details").first.get_attribute("open") is not None
        assert page.locator("details table").first.is_visible()
        assert page.evaluate(f"getComputedStyle({focused}).outlineStyle") == "solid"  # the focus is visible
        page.get_by_role("link", name="Glossary").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**#glossary")  # the browser follows the link asynchronously
        assert wrong == []


def test_tables_are_downloaded_from_the_page_itself(browser, reports, tmp_path):
    report, address = reports["public"]
    with opened(browser, address) as (page, wrong):
        for name, text in csv_files(report).items():
            with page.expect_download() as waiting:
                page.locator(f"#tables a[download='{name}']").click()
            waiting.value.save_as(tmp_path / name)
            assert (tmp_path / name).read_text("utf-8") == text
        assert all(text.startswith("request: data:text/csv") for text in wrong)


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_first_screen_says_who_is_served_worst_how_sure_that_is_and_at_what_price(browser, tmp_path, size):
    pages = [write_expected(free_report(), tmp_path)]
    for make in (public_report, internal_report):
        folder = tmp_path / make.__name__
        folder.mkdir()
        pages.append(write_report(make(tables={"fair": FAIR}), folder))
    for place in pages:
        with opened(browser, place.as_uri(), size) as (page, _):
            texts = page.locator("#verdict .lead, #verdict .release p, #verdict .short > *").all()
            first = [each for each in texts if (box := each.bounding_box())["y"] + box["height"] <= LOW[size]]
            said = " ".join(each.inner_text() for each in first)
            assert "least accurate" in said or "the largest expected error" in said.lower()
            assert "an attacker's odds that a person with one row is in the table change by a factor of at most" in said
            assert "How sure" in said
            assert "1,000" in said


def pages_of(pdf):
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_a_release_s_page_takes_two_sheets_and_an_audit_s_figures_begin_anew(browser, reports, tmp_path):
    with opened(browser, write_expected(free_report(18, 8), tmp_path).as_uri()) as (page, _):
        assert 1 <= pages_of(page.pdf(prefer_css_page_size=True)) <= 2
        page.emulate_media(media="print")
        assert page.locator(".paper").is_visible()
        assert not page.locator("#method").is_visible()
        assert page.locator(".shaded").is_visible()
    for _, address in reports.values():
        with opened(browser, address) as (page, _):
            page.emulate_media(media="print")
            breaks = page.evaluate(
                "[...document.querySelectorAll('.exhibit')].map(each => getComputedStyle(each).breakBefore)"
            )
            assert [place for place, found in enumerate(breaks) if found == "page"] == [3]  # after one map a release


def test_on_paper(browser, reports):
    for kind, (_, address) in reports.items():
        with opened(browser, address, scheme="dark") as (page, _):
            page.emulate_media(media="print", color_scheme="dark")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            assert not page.locator("nav").is_visible()
            assert not page.locator("details").first.is_visible()  # the numbers of a figure, which is printed
            assert page.locator(".paper").is_visible()  # and says so
            assert page.locator("svg.strip").first.is_visible()
            assert page.locator(".banner").is_visible()
            assert (page.evaluate("getComputedStyle(document.querySelector('.banner')).position") == "fixed") == (
                kind == "internal"
            )
