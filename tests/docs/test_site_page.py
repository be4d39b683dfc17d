"""Tests of the site in a browser: accessibility with axe-core, several screens, and the time until
the page is shown.
"""

from importlib.util import find_spec

import pytest
from browsing import chromium, first_picture, opened, too_wide, violations
from sites import DOCS, build

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("furo") is None, reason="the extra 'docs' is not installed (make docs installs it)"),
]
FIRST_PICTURE = 1000  # at most, in milliseconds, if the page is loaded from disk


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    done = build(DOCS, folder)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_every_page_is_seen_by_all(browser, site, size, scheme):
    """The page must not be wider than the screen, log an error, load other files, or fail a rule of axe-core."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    wrong = {}
    for path in pages:
        with opened(browser, path.as_uri(), size, scheme, within=site.as_uri()) as (page, faults):
            found = [*faults, *violations(page), *([f"{wide} px too wide"] if (wide := too_wide(page, size)) else [])]
            wrong |= {path.relative_to(site).as_posix(): found} if found else {}
    assert wrong == {}


def test_the_first_picture_can_be_read_on_a_phone(browser, site):
    """Regression test: the text in the picture for desktops was only four pixels high on a phone."""
    for size, shown in (("desktop", "release-page-desktop.png"), ("phone", "release-page-phone.png")):
        with opened(browser, (site / "index.html").as_uri(), size, within=site.as_uri()) as (page, _):
            first_picture(page)
            assert page.evaluate("document.querySelector('main img, article img').currentSrc").endswith(shown)


FOCUSED = """() => {
    const of = document.activeElement, style = getComputedStyle(of), box = of.getBoundingClientRect();
    const shown = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    const ring = parseFloat(style.outlineWidth) > 0 && style.outlineStyle !== "none" && style.opacity > 0;
    return of === document.body ? null : [of.outerHTML.slice(0, 100), shown, ring];
}"""


@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("name", ["index", "ledger"])
def test_who_goes_by_keyboard_sees_where_it_is(browser, site, size, name):
    """Regression test: the focus was not visible in the contents on a phone and in the search field."""
    with opened(browser, (site / f"{name}.html").as_uri(), size, within=site.as_uri()) as (page, _):
        page.add_style_tag(content="* { transition: none !important; scroll-behavior: auto !important; }")
        stops = []
        for _ in range(400):
            page.keyboard.press("Tab")
            if (stop := page.evaluate(FOCUSED)) is None:
                break
            stops.append(stop)
        assert 50 < len(stops) < 400
        assert [html for html, shown, ring in stops if not (shown and ring)] == []


def test_nothing_is_printed_over_the_text(browser, site):
    """Regression test: an element with a fixed position was printed over the text on each page."""
    with opened(browser, (site / "index.html").as_uri(), within=site.as_uri()) as (page, _):
        assert page.evaluate("document.querySelector('.skip-to-content').getClientRects().length") == 1
        page.emulate_media(media="print")
        assert page.evaluate("document.querySelector('.skip-to-content').getClientRects().length") == 0


@pytest.mark.parametrize("name", ["index", "gallery"])
def test_the_first_picture_is_there_within_a_second(browser, site, name):
    """The fastest of three runs is used because the machine may be busy."""
    took = []
    for _ in range(3):
        with opened(browser, (site / f"{name}.html").as_uri(), within=site.as_uri()) as (page, _):
            took.append(first_picture(page))
    assert min(took) < FIRST_PICTURE


def test_the_theme_is_mended_as_expected(site):
    """This test needs no browser. Each replacement in docs/conf.py must match a text of the theme."""
    texts = [path.read_text("utf-8") for path in site.rglob("*.html")]
    for found, instead in mends().items():
        assert any(instead in text for text in texts), f"nothing like {found} is in the theme's pages any more"
        assert not any(found in text for text in texts), found


def mends():
    """Return the replacements in docs/conf.py without running the file."""
    import ast

    tree = ast.parse((DOCS / "conf.py").read_text("utf-8"))
    assigned = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    return ast.literal_eval(assigned["ACCESSIBLE"])
