"""Tests of the site that is built by `make docs`: all pages are in the contents, and no link is broken."""

import re
import runpy
import shutil
from importlib.util import find_spec

import pytest
import yaml
from sites import DOCS, build

faults = runpy.run_path(str(DOCS / "check_site.py"))["faults"]


def test_every_page_is_in_the_contents():
    """This test is fast and does not need Sphinx. The strict build finds the same errors."""
    parts = yaml.safe_load((DOCS / "nav.yaml").read_text("utf-8"))
    named = {page for pages in parts.values() for page in pages if "<" not in page} | {"index"}
    for folder in ("proofs", "experiments"):
        links = re.findall(r"\]\(([\w-]+)\.md[#)]", (DOCS / folder / "README.md").read_text("utf-8"))
        named |= {f"{folder}/{page}" for page in links}
    assert {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")} == named


@pytest.mark.skipif(find_spec("sphinx") is None, reason="Sphinx is not installed (extra 'docs')")
def test_links_of_pages_at_the_root_lead_there_from_docs():
    """The links in the text and the link definitions are checked. The strict build finds the same
    errors but is slow.
    """
    conf = runpy.run_path(str(DOCS / "conf.py"))
    for name in conf["AT_THE_ROOT"].values():
        text = conf["at_the_root"](name)
        assert not re.findall(r"(?:\]\(|^\[[^\]\n]+\]: )docs/\S+", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="other.html">', "other.html is not there"),
        ('<a href="#there">', "#there has no such place"),
        ('<img src="gone.png">', "gone.png is not there"),
        ('<picture><source srcset="gone.png 2x"></picture>', "gone.png is not there"),
        ('<script src="https://example.org/a.js"></script>', "not in the site"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "not in the site"),
        ('<h1 id="here"></h1><a href="index.html#here"></a><a href="https://example.org"></a>', None),
    ],
)
def test_what_is_wrong_with_a_site_is_found(tmp_path, body, said):
    (tmp_path / "index.html").write_text(f"<html><body>{body}</body></html>")
    wrong, count = faults(tmp_path)
    assert count
    assert not wrong if said is None else said in wrong[0]


def test_a_style_sheet_that_loads_a_font_is_found(tmp_path):
    (tmp_path / "index.html").write_text("<html></html>")
    (tmp_path / "a.css").write_text("@font-face { src: url('https://example.org/font.woff2') }")
    assert "font.woff2" in faults(tmp_path)[0][0]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("furo") is None, reason="the extra 'docs' is not installed (make docs installs it)")
def test_the_site_is_built_strictly(tmp_path):
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    wrong, count = faults(tmp_path / "site")
    assert wrong == []
    assert count > 5000
    public = (tmp_path / "site" / "reference" / "public.html").read_text("utf-8")
    assert "Charge a release in one transaction" in public  # the page contains the docstrings
    # A colon in the first line of the docstring of a property must not be parsed as a type.
    assert not re.search(r"<dt[^>]*>Type<", public)
    first = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert 'srcset="_images/release-page-phone.png"' in first


@pytest.mark.slow
@pytest.mark.skipif(find_spec("furo") is None, reason="the extra 'docs' is not installed (make docs installs it)")
def test_a_dead_link_fails_the_build(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs")
    for page in DOCS.parent.glob("*.md"):
        shutil.copy(page, tmp_path)
    page = tmp_path / "docs" / "planning.md"
    page.write_text(page.read_text("utf-8") + "\n[x](gone.md) [x](guide.md#no-such) ![x](figures/gone.png)\n", "utf-8")
    done = build(tmp_path / "docs", tmp_path)
    assert done.returncode != 0
    assert all(name in done.stderr for name in ("gone.md", "no-such", "gone.png"))
