"""What a state folder holds beside the newest heads of ledgers, which stay."""

from pathlib import Path


def left_in(state: Path) -> list[Path]:
    """Its other files and folders, by name."""
    return sorted(path for path in state.glob("*") if not path.name.startswith(".head-"))
