"""What commands print, and where: results to standard output, notes to standard error."""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import rich.text
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from equistrata.errors import InputError
from equistrata.flows.run.foreground import foreground, progress_bars
from equistrata.flows.run.server import TemporaryServer
from equistrata.printable import printable

out = Console()
err = Console(stderr=True)

SEEDED = "[bold yellow]not private[/]: seeded noise; for tests and benchmarks only"


def print_lines(*lines: str, console: Console = out) -> None:
    """Print lines as they are: no markup, no colours, and not wrapped, since they are copied and compared."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_prose(sentence: str, indent: int = 0) -> None:
    """Print a sentence in lines as wide as the screen; what a no-break space joins, as a number and its unit, stays.

    >>> with out.capture() as printed:
    ...     print_prose("word " * 15 + "0.65\u00a0%.")
    >>> printed.get().splitlines()[-1]
    '0.65\xa0%.'
    """
    blank = " " * indent
    lines = textwrap.wrap(
        sentence, out.width, initial_indent=blank, subsequent_indent=blank, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    print_lines(*lines)


def note(kind: str, sentence: str) -> None:
    """Print a sentence to standard error after a word with its style, as `[bold red]error:[/]`."""
    err.print(f"{kind} {escape(sentence)}", soft_wrap=True, highlight=False)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print what the block warns of to standard error, each sentence once: a command warns of what Python does."""
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always", UserWarning)
        yield
    for sentence in dict.fromkeys(str(each.message) for each in met):
        note("[bold yellow]note:[/]", sentence)


def print_json(document: Any, allow_nan: bool = True) -> None:
    """Print JSON for programs; with escapes where standard output has another encoding than UTF-8."""
    own = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    print(json.dumps(document, indent=2, ensure_ascii=not own, allow_nan=allow_nan))


class _Printable:
    """Standard output or error for text that rich does not print: `print`, logs, warnings, tracebacks."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream  # rich writes to it: its own sequences (colours, bars) are wanted

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def print_anything() -> None:
    """Have standard output and error show what any code prints, and neither act on it nor end in a traceback.

    Control characters and marks that are not seen become escapes (`equistrata.printable`); what the encoding has not (●
    or ε) becomes a question mark.
    """
    vars(rich.text)["strip_control_codes"] = printable  # of all text that rich shows: ours, typer's and Prefect's
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        if stream is not None and not isinstance(stream, _Printable):
            setattr(sys, name, _Printable(stream))


def table(title: str | Text | None, *headings: str, **style: Any) -> Table:
    """A table with these headings; a column with a heading that starts with ">" is aligned right."""
    grid = Table(title=title, title_justify="left", **style)
    for heading in headings:
        grid.add_column(heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left")
    return grid


@contextmanager
def flow_here(verbose: bool, ahead: TemporaryServer | None = None) -> Iterator[None]:
    """Import a flow and run it in the block, with a bar. Raises InputError if a configured Prefect server is down."""
    with progress_bars(err) as listener, foreground(listener, verbose, ahead):
        try:
            yield
        except Exception as error:
            import httpx  # loaded with Prefect already

            if not any(isinstance(each, httpx.HTTPError) for each in (error, error.__cause__)):
                raise
            if os.environ.get("PREFECT_API_URL"):
                raise InputError("no Prefect server answers at PREFECT_API_URL; start one, or unset it") from None
            raise InputError("Prefect's server ended meanwhile; run the command again") from None
