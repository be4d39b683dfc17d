"""Commands in the docs: each is understood by the command line; those of the first pages run, in order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Context
from typer.main import get_command

from equistrata.flows.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:^|[\s(])(?:\.venv/bin/)?equistrata ([^;|&)<>#\n]+)")


def blocks(page):
    """The console blocks of a page, without prompts."""
    found = [text for kind, text in _BLOCK.findall(page.read_text("utf-8")) if kind in ("", "console", "sh", "bash")]
    return [re.sub(r"^ *\$ ", "", text, flags=re.MULTILINE) for text in found if "equistrata " in text]


def commands(page):
    """The commands in them, as words."""
    joined = [text.replace("\\\n", " ") for text in blocks(page)]
    lines = [line for text in joined for line in text.splitlines() if not line.startswith(("error:", "what it has"))]
    found = [words for line in lines for words in _COMMAND.findall(line)]
    return [shlex.split(words) for words in found if words.strip()[0].islower() or words.startswith("--")]


ALL = [(page, words) for page in PAGES for words in commands(page)]


def test_there_are_many():
    assert len(ALL) > 30


@pytest.mark.parametrize(("page", "words"), ALL, ids=[f"{page.name}: {' '.join(words)[:60]}" for page, words in ALL])
def test_a_command_is_understood(page, words):
    command, context, rest = get_command(app), None, list(words)
    while hasattr(command, "commands"):
        context = Context(command, info_name="equistrata", parent=context)
        command = command.commands[rest.pop(0)]
    command.make_context(command.name, rest, parent=context)  # parses, and raises a usage error


SAMPLE = "equistrata release --source sample --synthesizer mst --evaluate none --strata SEX"
PEOPLE = "printf 'source: sample\\nsynthesizer: mst\\nevaluate: none\\nstrata: [SEX, RAC1P]\\n' > people.yaml"
RUNS = {
    # page: what is there before, by command lines; and the first words of the blocks that run
    "docs/index.md": ("", ("cat > codebook.csv", ".venv/bin/equistrata release")),
    "docs/ledger.md": ("", ("export EQUISTRATA_LEDGER_URL", "equistrata budget create sample-2")),
    "docs/planning.md": ("", ("equistrata plan --strata RAC1P", "equistrata plan --synthesizer mst")),
    "docs/using-a-release.md": (f"{SAMPLE} --output my-release", ("equistrata estimate my-release",)),
    "docs/guide.md": (PEOPLE, ("equistrata budget create people",)),
    "README.md": (f"{SAMPLE} --output ny2018", (".venv/bin/equistrata estimate ny2018",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNS)
def test_the_blocks_of_a_page_run(page, tmp_path):
    before, wanted = RUNS[page]
    found = blocks(ROOT / page)
    script = ["set -euo pipefail", before]
    for first in wanted:
        (text,) = [text for text in found if text.lstrip().startswith(first)]
        again = re.search(r"^equistrata release .*?2026-11$", text, re.MULTILINE | re.DOTALL)
        if page == "docs/guide.md":  # the block shows one month, and compares two
            assert again is not None
            text = text.replace(again[0], f"{again[0]}\n{again[0].replace('2026-11', '2026-12')}")
        script.append(text)
    scripts = Path(sys.executable).parent
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(scripts)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("EQUISTRATA", "PREFECT"))}
    environment |= {
        "PATH": f"{scripts}:/usr/bin:/bin",
        "EQUISTRATA_STATE": str(tmp_path / "state"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "HOME": str(tmp_path),
    }
    ran = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
