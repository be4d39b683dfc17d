"""A function that builds the site of the documentation in the same way as `make docs`."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def build(docs, to):
    """Build the site in the folder to/site with warnings as errors, and return the completed process."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(to / "doctrees"), str(docs)]
    return subprocess.run([*command, str(to / "site")], capture_output=True, text=True, timeout=600)
