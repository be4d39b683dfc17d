"""What every room's tests share: reproducible Hypothesis runs, and the optional real ACS rows."""

from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# Examples follow from the test alone, so a run on another machine sees the same ones.
# `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def acs_root() -> str:
    """The folder with real ACS person files in folktables' layout, beside the repository; skips where there is none."""
    root = ROOT.parent / "shared" / "acs"
    if not (root / "2024" / "1-Year" / "psam_p50.csv").is_file():
        pytest.skip("optional ACS person files are not in ../shared/acs")
    return str(root)
