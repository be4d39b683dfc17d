"""Tests of the worker processes, which must end with the command that started them. The processes must also end if no
other program is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

PROGRAM = """
from equistrata.synth.strata.fitting import process_pool
if __name__ == "__main__":
    with process_pool(2) as pool:
        print(pool.submit(abs, -7).result())
"""


def test_they_end_where_path_is_empty(tmp_path, repo_root):
    """Regression test for a command that did not end. To end its processes, loky needs either psutil or pgrep."""
    (tmp_path / "program.py").write_text(PROGRAM)
    env = os.environ | {"PATH": str(tmp_path), "PYTHONPATH": str(repo_root)}
    ended = subprocess.run(
        [sys.executable, tmp_path / "program.py"], env=env, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "7\n", "")


def test_what_ends_them_is_installed_without_any_extra(repo_root):
    """In this environment, psutil is also installed by an extra, so the test above does not check the dependency."""
    project = tomllib.loads((repo_root / "pyproject.toml").read_text("utf-8"))["project"]
    assert any(each.startswith("psutil") for each in project["dependencies"])
