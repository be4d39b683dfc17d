"""Tests of `python -m equistrata`, and of Ctrl-C during the imports."""

import signal
import subprocess
import sys

# A background job ignores interrupts, and so do its children.
HEEDS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
# This simulates Ctrl-C at the time when the command line is imported.
INTERRUPTED = f"""
{HEEDS}
import os, sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "equistrata.flows.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from equistrata.__main__ import main
main()
"""


def test_ctrl_c_among_imports_ends_without_a_traceback():
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == ""


def test_the_package_is_a_program_and_heeds_interrupts_afterwards():
    after = "import equistrata.flows.cli.main as cli, signal; cli.main = lambda: print(signal.getsignal(2).__name__)"
    program = f"{HEEDS}; {after}; from equistrata.__main__ import main; main()"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.strip() == "default_int_handler"
    version = [sys.executable, "-m", "equistrata", "--version"]
    shown = subprocess.run(version, capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.startswith("equistrata ")
