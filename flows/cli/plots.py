"""A file for a picture: refused before anything is worked out, and saved alike by every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from equistrata.errors import InputError

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
    """Write a figure to a file. Raises InputError where it cannot be written."""
    try:
        figure.savefig(path, dpi=130)
    except OSError:
        raise InputError(f"plot {str(path)!r} cannot be written; check its folder's permissions") from None
