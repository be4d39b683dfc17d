"""A function that returns the files in a state folder, except the heads of ledgers and an empty audit folder."""

from pathlib import Path


def left_in(state: Path) -> list[Path]:
    """Return the other files and folders, sorted by name."""
    found = (path for path in state.glob("*") if not path.name.startswith(".head-"))
    return sorted(path for path in found if path.name != ".audits" or any(path.iterdir()))
