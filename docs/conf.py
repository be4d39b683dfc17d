"""The configuration of Sphinx for `make docs`, which builds a site from these pages with MyST and furo.

The pages are plain Markdown, so that a code host can show them. The table of contents (nav.yaml), the API from
docstrings, and the pages at the root of the repository are added when a page is read.
"""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import yaml
from sphinx.application import Sphinx

import equistrata

HERE = Path(__file__).parent
ROOT = HERE.parent
AT_THE_ROOT = {  # page → file
    "contributing": "CONTRIBUTING.md",
    "releasing": "RELEASING.md",
    "security": "SECURITY.md",
    "changelog": "CHANGELOG.md",
}

project = "equistrata"
author = copyright = "The equistrata authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "index"
exclude_patterns = ["nav.yaml"]
suppress_warnings = ["ref.python"]  # two classes have a field with the same name

myst_heading_anchors = 6  # links such as guide.md#a-series, as a code host makes them

html_theme = "furo"
html_title = "equistrata"
html_static_path = ["site"]
html_css_files = ["equistrata.css"]
html_copy_source = html_show_sourcelink = html_show_sphinx = False
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
copybutton_prompt_text = "$ "

add_module_names = False
autodoc_typehints = "none"  # the docstrings contain the types
autodoc_member_order = "bysource"
napoleon_use_ivar = True
napoleon_google_docstring = False
napoleon_custom_sections = ["Privacy"]


def toctree(*pages: str, caption: str = "") -> str:
    """Return a part of the table of contents of the site, which is hidden on the page."""
    return "\n".join(
        ["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```"]
    )


def contents() -> str:
    """Return the table of contents of the site, from nav.yaml."""
    parts = yaml.safe_load((HERE / "nav.yaml").read_text("utf-8"))
    return "\n".join(toctree(*pages, caption=part) for part, pages in parts.items())


def linked(text: str) -> list[str]:
    """Return the pages in the same folder to which a page links, in the order of the links."""
    return list(dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md[#)]", text)))


def at_the_root(name: str) -> str:
    """Return the text of a file at the root of the repository, with links relative to docs/."""
    text = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
    return re.sub(r"^(\[[^\]\n]+\]: )docs/", r"\1", text, flags=re.MULTILINE)


def modules(name: str) -> list[str]:
    """Return the name of a module, or the names of the public modules of a package."""
    found = import_module(name)
    inner = [each.name for each in iter_modules(getattr(found, "__path__", ())) if not each.name.startswith("_")]
    return [f"{name}.{each}" for each in inner] or [name]


def documented(names: list[str]) -> str:
    """Return the directives for the docstrings of public names, or of the modules of dotted paths."""
    parts = []
    for name in names:
        if "." in name:
            parts += [f"### {each}\n\n{directive('automodule', each)}" for each in modules(name)]
        elif isinstance(getattr(equistrata, name), type):
            parts.append(directive("autoclass", f"equistrata.{name}"))
        else:
            parts.append(directive("autofunction", f"equistrata.{name}"))
    return "\n\n".join(parts)


def directive(kind: str, name: str) -> str:
    """Return a directive of autodoc for a page in Markdown."""
    members = "" if kind == "autofunction" else "   :members:\n"
    return f"```{{eval-rst}}\n.. {kind}:: {name}\n{members}```"


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the parts of a page that only the site has, and change links to files at the root to links to their pages."""
    if page in AT_THE_ROOT:
        source[0] = at_the_root(AT_THE_ROOT[page])
    if page == root_doc:
        source[0] += contents()
    if page.endswith("/README"):
        source[0] += toctree(*linked(source[0]))
    # A comment such as <!-- api: Schema, Strata --> is replaced by the docstrings.
    source[0] = re.sub(
        r"<!-- api: ([\w., ]+) -->", lambda found: documented(re.split(r",\s*", found[1].strip())), source[0]
    )
    up = "../" * page.count("/")
    for name, file in AT_THE_ROOT.items():
        source[0] = re.sub(rf"\]\((?:\.\./)*{re.escape(file)}", f"]({up}{name}.md", source[0])


def as_rst(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Convert single backticks to RST, and escape other characters that RST would interpret."""
    for place, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", ".. ")):
            continue
        parts = re.split(r"(`+[^`]+`+)(?=(\w)?)", line)
        words = []
        for text, code, after in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], None], strict=True):
            words.append(re.sub(r"(?<!\\)([*|]|_(?=\W|$))", r"\\\1", text))
            words.append(f"``{code.strip('`')}``" + (r"\ " if after else "") if code else "")
        lines[place] = "".join(words)


# Parts of the theme that axe reports → replacements for screen readers and keyboards.
ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="The site">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="This page">',
    "<pre>": '<pre tabindex="0">',  # wide ones scroll
    '<div class="table-wrapper colwidths-auto docutils container">': (
        '<div class="table-wrapper colwidths-auto docutils container" tabindex="0">'
    ),
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    '</noscript>\n\n<div id="search-results">': '</noscript>\n<h1>Search</h1>\n<div id="search-results">',
}


# On a phone, the first page shows the picture for phones, because the text in the other picture is too small.
FIRST_PICTURE = re.compile(r'(?<!-phone\.png">)<img [^>]*src="_images/([\w-]+)-desktop\.png"[^>]*>')
ON_A_PHONE = r'<picture><source media="(max-width: 600px)" srcset="_images/\1-phone.png">\g<0></picture>'


def accessible(app: Sphinx, exception: Exception | None) -> None:
    """Replace parts of the pages that were written. Running this function again changes nothing."""
    for path in Path(app.outdir).rglob("*.html") if exception is None else ():
        text = path.read_text("utf-8")
        mended = text
        for found, instead in ACCESSIBLE.items():
            mended = mended.replace(found, instead)
        if path.name == f"{root_doc}.html" and path.parent == Path(app.outdir):
            mended = FIRST_PICTURE.sub(ON_A_PHONE, mended)
        if mended != text:
            path.write_text(mended, "utf-8")


def setup(app: Sphinx) -> None:
    """Connect the functions to the events of Sphinx."""
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", as_rst, priority=900)  # after napoleon
    app.connect("build-finished", accessible)
