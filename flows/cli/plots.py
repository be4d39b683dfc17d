"""A file for a picture: refused before anything is worked out, and saved alike by every command."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from equistrata.errors import InputError
from equistrata.flows.cli.console import note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".png", ".pdf")


def check_plot(path: Path) -> None:
    """Raise InputError unless the file can be drawn: its ending and its folder are there."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"plot {str(path)!r} must end in {', '.join(ENDINGS)}; choose one")
    if not path.absolute().parent.is_dir():
        raise InputError(f"plot {str(path)!r} is in no folder that exists; make it first")


def save_plot(figure: Figure, path: Path) -> None:
    """Write a figure to a file, all of it or nothing. Raises InputError where it cannot be written."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            figure.savefig(beside, dpi=130, format=path.suffix[1:].lower())
        beside.replace(path)
    except OSError:
        raise InputError(f"plot {str(path)!r} cannot be written; check its folder's permissions") from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    if any("missing from font" in str(each.message) for each in met):
        note("[bold yellow]note:[/]", f"the font of plot {str(path)!r} lacks some letters of its names; they are boxes")
