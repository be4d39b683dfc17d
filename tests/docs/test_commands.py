"""Tests of the commands in the docs: each command is parsed, and each block is run or has a reason why it is not run.

The commands in docs/deploy.md are run by test_deploy_page.py, and those in docs/extending.md by test_extending_page.py.
"""

import json
import os
import re
import shlex
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from holders import SCHEMA_FILE, tables
from pages import PAGES, ROOT, SCRIPTS, block, blocks, checkout, end_all, installed, run, variables
from typer import Context
from typer.main import get_command

from equistrata.environments import FLOWER, interpreter_in
from equistrata.flows.cli.main import app

_COMMAND = re.compile(r"(?:^|[\s(])(?:\.venv/bin/)?equistrata ([^;|&)<>#\n]+)")


def commands(page):
    """Return the commands in the blocks of a page as lists of words."""
    joined = [text.replace("\\\n", " ") for text in blocks(page) if "equistrata " in text]
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
    command.make_context(command.name, rest, parent=context)  # this raises an error if the command is wrong


@dataclass(frozen=True)
class Run:
    """Blocks of a page that are run one after the other.

    Attributes
    ----------
    page : str
        Path of the page.
    before : str
        Command lines that are run before the blocks.
    firsts : tuple of str
        First words of each block.
    given : tuple of (str, str)
        Words of the blocks and their replacements, for example the month that is shown on the page.
    files : tuple of (str, str)
        Name and text of each file that exists before the run.
    shown : tuple of str
        First words of the blocks that show the output.
    clone : bool
        If True, the blocks are run in a clone of this repository.
    """

    page: str
    before: str
    firsts: tuple[str, ...]
    given: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    shown: tuple[str, ...] = ()
    clone: bool = False


SAMPLE = "equistrata release --source sample --synthesizer mst --evaluate none --strata SEX"
CONFIG = "source: sample\nsynthesizer: mst\nevaluate: none\nstrata: SEX\n"
MONTH = """equistrata release --config people.yaml --series year --horizon 12 --epsilon 1 --delta 1e-9 \\
    --dataset people --ledger ledger.db --output releases/2026-11
"""
FIELDS = {"SEX": ["F", "M"], "GROUP": ["a", "b", "c"], "JOB": ["no", "yes"]}
BOOK = json.dumps({"fields": [{"name": name, "constraints": {"enum": each}} for name, each in FIELDS.items()]})
ROWS = [("FM"[place % 2], "abc"[place % 7 % 3], ("no", "yes")[place % 5 % 2]) for place in range(2000)]
PEOPLE = "SEX,GROUP,JOB\n" + "".join(",".join(row) + "\n" for row in ROWS)
TABLE = (("people.csv", PEOPLE), ("dictionary.json", BOOK))
HOLDERS = zip(("north", "south", "west", "east"), tables(4, 400), strict=True)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = str(free.getsockname()[1])
RUNS = (
    Run("docs/index.md", "", ("make release", "cat > codebook.csv", ".venv/bin/equistrata release"), clone=True),
    Run(
        "docs/ledger.md", "",
        ("export EQUISTRATA_LEDGER_URL=sqlite", "equistrata budget create sample-2", "equistrata budget key"),
        shown=("At ε = 0.5", "sample and sample-2"),
    ),
    Run(
        "docs/planning.md", "", ("equistrata plan --strata RAC1P", "equistrata plan --synthesizer mst"),
        shown=("proportion near", "synthesis by MST"),
    ),
    Run("docs/using-a-release.md", f"{SAMPLE} --output my-release", ("equistrata estimate my-release",)),
    Run("docs/guide.md", "", ("equistrata schema draft people.csv --codebook",), files=TABLE),
    Run(
        "docs/guide.md", "", ("equistrata budget create people",),
        given=((MONTH, MONTH + MONTH.replace("2026-11", "2026-12")),), files=(("people.yaml", CONFIG),),
    ),
    Run("docs/guide.md", "", ("dask scheduler",), given=(("8786", PORT), ("/srv/shared", "shared"))),
    Run("README.md", "", (".venv/bin/equistrata init",), files=TABLE),
    Run("README.md", f"{SAMPLE} --output ny2018", (".venv/bin/equistrata estimate ny2018",)),
    Run(
        "docs/federated.md", "", ("equistrata federate north.csv",),
        files=(("trial.yaml", SCHEMA_FILE), *((f"{name}.csv", each.to_csv(index=False)) for name, each in HOLDERS)),
    ),
)  # fmt: skip

# Blocks that are not run in this test, with the reason.
ELSEWHERE = {
    "equistrata schema draft people.csv --template": "tests/flows/cli/test_draft.py fills one in",
    "equistrata schema draft people.csv --look": "tests/flows/cli/test_draft.py looks and confirms",
    "make release    #": "index.md runs it; make docs and make test are what CI runs",
    ".venv/bin/equistrata release --task": "it downloads; tests/data/census/test_tasks.py reads such rows",
    "equistrata release --task": "the same",
    "$ python -m paper": "hours; tests/paper runs the program on small tables",
    "python -m paper": "hours; tests/paper runs the program on small tables",
    ".venv-flower/bin/python -I": "for a host name of hers; tests/inference/federated/test_flower.py makes such keys",
    "equistrata release --input people.csv --schema people.yaml --survey": "tests/flows/release/test_controls.py",
    "equistrata replicate my-release --weights": "tests/analysis/test_replicate_weights.py",
    "equistrata release --state NM --year 2018 --survey": "the Bureau's file is not here",
    "# R, survey": "R, Stata and SAS are not installed; tests/analysis/test_replicate_weights.py runs svy's lines",
    "equistrata export my-release": "needs pyreadstat; tests/analysis/test_exports.py",
    "equistrata release --synthesizer marginals.py": "tests/flows/release/test_named_class.py runs the page's class",
    "import numpy as np\nimport pandas as pd\n\n\nclass Marginals": "the same",
    "equistrata budget verify --card 2026-11/card.json": "the anchor is of the ledger that the page was written with",
    "export EQUISTRATA_LEDGER_URL=postgresql": "a placeholder; test_deploy_page.py runs with PostgreSQL",
}
FOLLOWED = ("docs/deploy.md", "docs/extending.md")  # tested by test_deploy_page.py and test_extending_page.py
OUTPUT = ("ny2018/", "DAYS, 4 of 4", "charged to sample", "error:", "At ε", "sample and sample-2", "proportion near",
          "synthesis by MST")  # fmt: skip


def known(page):
    """Return the first words of all known blocks of a page."""
    return [*(first for each in RUNS if each.page == page for first in each.firsts), *ELSEWHERE, *OUTPUT]


@pytest.mark.parametrize("page", [page for page in PAGES if str(page.relative_to(ROOT)) not in FOLLOWED], ids=str)
def test_every_block_runs_or_says_why_not(page):
    firsts = known(str(page.relative_to(ROOT)))
    unknown = [text[:60] for text in blocks(page) if not any(text.lstrip().startswith(first) for first in firsts)]
    assert unknown == []


@pytest.mark.slow
@pytest.mark.parametrize("each", RUNS, ids=lambda each: f"{each.page}: {each.firsts[0]}")
def test_the_blocks_of_a_page_run(each, tmp_path):
    where, hers = reader(each, tmp_path)
    texts = []
    for first in each.firsts:
        text = block(each.page, first)
        for words, instead in each.given:
            text = text.replace(words, instead)
        texts.append(text)
    assert all(words not in "\n".join(texts) or instead.startswith(words) for words, instead in each.given)
    if each.page == "docs/federated.md" and FLOWER.variable not in hers:
        texts = [text.replace("--aggregator flower", "--aggregator simulation") for text in texts]
    try:
        said = run("\n".join([each.before, *texts]), where, hers)
    finally:
        end_all(tmp_path)
    for first in each.shown:
        assert_printed(said, block(each.page, first))
    if each.page == "docs/index.md":
        assert (where / "first-expected" / "expected.html").is_file()
    if each.page == "docs/federated.md" and FLOWER.variable in hers:
        assert block(each.page, "DAYS, 4 of 4").splitlines()[0] in said


def reader(each, home):
    """Return the working directory and the environment of a reader."""
    flower = Path(os.environ.get(FLOWER.variable) or interpreter_in(ROOT / FLOWER.of_checkout))
    more = {FLOWER.variable: str(flower)} if flower.is_file() else {}
    where = checkout(home / "equistrata") if each.clone else home
    if each.clone:
        installed(where)
    else:
        (where / ".venv").mkdir()
        (where / ".venv" / "bin").symlink_to(SCRIPTS)
    (where / "shared").mkdir(exist_ok=True)
    for name, text in each.files:
        (where / name).write_text(text, "utf-8")
    code = where if each.clone else ROOT
    state = {"EQUISTRATA_STATE": str(home / "state"), "PREFECT_HOME": str(home / "prefect")}
    return where, variables(home, PATH=f"{SCRIPTS}:/usr/bin:/bin", PYTHONPATH=str(code), **state, **more)


def assert_printed(said, shown):
    """Check that the text on a page was printed, in the same order. Line breaks and parts marked with … are ignored."""
    words, rest = re.sub(r"[\s┏━┳┓┡╇┩└─┴┘]+", " ", said), 0
    for part in re.sub(r"[\s┏━┳┓┡╇┩└─┴┘]+", " ", shown).split("…"):
        place = words.find(part.strip(), rest)
        assert place >= 0, f"not printed: {part.strip()[:300]}"
        rest = place + len(part.strip())
