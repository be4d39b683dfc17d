"""The site of the documentation, built as `make docs` builds it."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def build(docs, to):
    """Build it strictly into to/site; the process, as it ended."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(to / "doctrees"), str(docs)]
    return subprocess.run([*command, str(to / "site")], capture_output=True, text=True, timeout=600)
