"""What a state folder holds beside the newest heads of ledgers, which stay, and the empty folder of audits."""

from pathlib import Path


def left_in(state: Path) -> list[Path]:
    """Its other files and folders, by name."""
    found = (path for path in state.glob("*") if not path.name.startswith(".head-"))
    return sorted(path for path in found if path.name != ".audits" or any(path.iterdir()))
