"""Output of the commands. Results are printed to standard output, and notes are printed to standard error."""

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
    """Print lines without markup, colours and wrapping, so that they can be copied and compared."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_prose(sentence: str, indent: int = 0) -> None:
    """Print a sentence with line breaks for the width of the screen.

    Words that are joined by a no-break space are not separated.

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
    """Print a sentence to standard error after a styled word, such as `[bold red]error:[/]`."""
    err.print(f"{kind} {escape(sentence)}", soft_wrap=True, highlight=False)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print the warnings of the block to standard error. Each sentence is printed once."""
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always", UserWarning)
        yield
    for sentence in dict.fromkeys(str(each.message) for each in met):
        note("[bold yellow]note:[/]", sentence)


def print_json(document: Any, allow_nan: bool = True) -> None:
    """Print JSON for programs. If the encoding of standard output is not UTF-8, non-ASCII characters are escaped."""
    own = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    print(json.dumps(document, indent=2, ensure_ascii=not own, allow_nan=allow_nan))


class _Printable:
    """Standard output or error for text that is not printed by rich, such as `print`, logs, warnings and tracebacks."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream  # rich writes to this stream directly, because its own sequences are allowed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def print_anything() -> None:
    """Make standard output and error safe for any text.

    Control characters and invisible marks are replaced by escapes (see `equistrata.printable`). Characters that the
    encoding does not support, such as ● or ε, are replaced by a question mark.
    """
    vars(rich.text)["strip_control_codes"] = printable  # used for all text that rich shows, including typer and Prefect
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
        if stream is not None and not isinstance(stream, _Printable):
            setattr(sys, name, _Printable(stream))


def table(title: str | Text | None, *headings: str, **style: Any) -> Table:
    """Create a table with headings. If a heading starts with ">", its column is aligned to the right."""
    grid = Table(title=title, title_justify="left", **style)
    for heading in headings:
        grid.add_column(heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left")
    return grid


@contextmanager
def flow_here(verbose: bool, ahead: TemporaryServer | None = None) -> Iterator[None]:
    """Import and run a flow in the block with a progress bar.

    Raises
    ------
    InputError
        If the configured Prefect server does not answer.
    """
    with progress_bars(err) as listener, foreground(listener, verbose, ahead):
        try:
            yield
        except Exception as error:
            import httpx  # already imported by Prefect

            if not any(isinstance(each, httpx.HTTPError) for each in (error, error.__cause__)):
                raise
            if os.environ.get("PREFECT_API_URL"):
                raise InputError("no Prefect server answers at PREFECT_API_URL; start one, or unset it") from None
            raise InputError("Prefect's server stopped during the run; run the command again") from None
