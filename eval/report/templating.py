"""Jinja templates carry layout and fixed words; Python gives them numbers."""

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
    """A steward's text in Markdown: it makes no markup and no HTML.

    >>> print(plain("<b> *a*"))
    &lt;b&gt; \\*a\\*
    """
    return _MARKUP.sub(r"\\\1", escape(" ".join(text.splitlines()), quote=False))


def code(text: str) -> str:
    """A text between backticks in Markdown: it does not end them."""
    return " ".join(text.splitlines()).replace("`", "'")


def _shown(value: Any) -> Any:
    """What is filled into a template, without characters that a reader does not see."""
    return type(value)(printable(value)) if isinstance(value, str) else value


@lru_cache(maxsize=32)
def template(path: Path, **filters: Callable[..., str]) -> Template:
    """A template with these filters; it may include those beside it. What is filled into HTML is escaped.

    Compiled once for each set of filters: name functions of a module, not lambdas made anew.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
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
