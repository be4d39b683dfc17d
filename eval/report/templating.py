"""Jinja templates with the layout and the fixed text of pages. The numbers are computed in Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equistrata.printable import printable

if TYPE_CHECKING:
    from jinja2 import Template

_MARKUP = re.compile(r"([\\`*{}\[\]#|]|(?<!\w)_|_(?!\w))")


def plain(text: str) -> str:
    r"""Escape a text for Markdown, so that it contains neither markup nor HTML.

    >>> print(plain("<b> *a*"))
    &lt;b&gt; \*a\*
    """
    return _MARKUP.sub(r"\\\1", escape(" ".join(text.splitlines()), quote=False))


def code(text: str) -> str:
    """Return a text that can be used between backticks in Markdown."""
    return " ".join(text.splitlines()).replace("`", "'")


def _shown(value: Any) -> Any:
    """Remove characters that are not visible to readers from a value that is inserted into a template."""
    return type(value)(printable(value)) if isinstance(value, str) else value


@lru_cache(maxsize=32)
def template(path: Path, **filters: Callable[..., str]) -> Template:
    """Return the template at a path, with additional filters.

    The template can include other templates in the same folder. Values that are inserted into HTML are escaped. The
    template is compiled once for each set of filters, so the filters should be functions of a module and not new
    lambdas.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # nosec B701
        loader=FileSystemLoader(path.parent),
        autoescape=path.name.endswith(".html.j2"),
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": plain, "code": code} | filters
    return environment.get_template(path.name)
