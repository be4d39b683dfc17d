"""Tests of the examples in docs/extending.md, which are applied to a copy of the repository."""

import re
import sys
from dataclasses import dataclass, field

import pytest
from pages import ROOT, SCRIPTS, checkout, run, variables

import equistrata

PAGE = ROOT / "docs" / "extending.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TASKS = ("Add a synthesizer", "Add a score", "Add a file format", "Add an estimator")


@dataclass(frozen=True)
class Example:
    """The blocks of a section: new files, edits of files, commands, and the output of the commands."""

    new: dict[str, str] = field(default_factory=dict)
    edits: dict[str, list[list[str]]] = field(default_factory=dict)  # file → hunks of lines, as in a diff
    commands: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    @property
    def touched(self):
        return [*self.new, *self.edits]

    @property
    def tests(self):
        return [name for name in self.touched if name.startswith("tests/")]

    def apply(self, folder):
        """Write the new files, and insert the added lines of each hunk after its other lines."""
        for name, text in self.new.items():
            assert not (folder / name).exists()
            (folder / name).write_text(text, "utf-8")
        for name, hunks in self.edits.items():
            text = (folder / name).read_text("utf-8")
            for hunk in hunks:
                before = "".join(f"{line[1:]}\n" for line in hunk if line[0] == " ")
                assert text.count(f"\n{before}") == 1, f"{name} has these lines not once: {before}"
                text = text.replace(f"\n{before}", "\n" + "".join(f"{line[1:]}\n" for line in hunk))
            (folder / name).write_text(text, "utf-8")


def example(section):
    found = Example()
    for kind, text in BLOCK.findall(section):
        if kind == "python":
            name, _, rest = text.partition("\n")
            found.new[name.removeprefix("# ")] = rest
        elif kind == "diff":
            for part in text.split("+++ ")[1:]:
                name, _, hunks = part.partition("\n")
                found.edits[name] = [hunk.splitlines() for hunk in hunks.split("@@\n")]
        else:
            {"bash": found.commands, "text": found.shown}[kind].append(text)
    return found


def examples():
    sections = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0]: example(section) for section in sections}


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """Create a copy of the repository with all examples."""
    home = tmp_path_factory.mktemp("extending")
    folder = checkout(home / "equistrata")
    for each in examples().values():
        each.apply(folder)
    return home, folder


def plain(text):
    """Remove the lines of tables from a text."""
    return " ".join(re.sub(r"[┃│]", " ", text).split())


def reader(home, folder):
    state = {"EQUISTRATA_STATE": str(home / "state"), "PREFECT_HOME": str(home / "prefect")}
    return variables(home, PATH=f"{SCRIPTS}:/usr/bin:/bin", PYTHONPATH=str(folder), **state)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_touches_at_most_four_files_and_one_is_its_test(task):
    touched = examples()[task].touched
    assert 3 <= len(touched) <= 4
    assert len(examples()[task].tests) == 1


def test_the_page_has_these_tasks_in_900_words():
    assert tuple(examples()) == TASKS
    assert len(PAGE.read_text("utf-8").split()) <= 900


def test_the_tests_of_the_examples_pass(changed):
    home, folder = changed
    names = [name for each in examples().values() for name in each.tests]
    names.append("tests/flows/release/test_inside.py::test_an_artifact_names_the_same_scores_whatever_the_rows_are")
    said = run(f"{sys.executable} -m pytest -q -n0 -p no:cacheprovider {' '.join(names)}", folder, reader(home, folder))
    assert f"{len(names)} passed" in said


def test_the_copy_keeps_the_rules_of_code(changed):
    """The examples pass ruff, which `make lint` runs."""
    if not (SCRIPTS / "ruff").exists():
        pytest.skip("ruff is not installed (extra 'dev')")
    home, folder = changed
    names = [name for each in examples().values() for name in each.touched if name.endswith(".py")]
    run(f"ruff check {' '.join(names)}\nruff format --check {' '.join(names)}", folder, reader(home, folder))


@pytest.mark.slow
@pytest.mark.parametrize("task", [task for task, each in examples().items() if each.commands])
def test_the_commands_of_an_example_print_what_the_page_shows(changed, task):
    home, folder = changed
    each = examples()[task]
    where = home / "reader" / task.split()[-1]
    where.mkdir(parents=True)
    said = plain(run("\n".join(each.commands), where, reader(home, folder)))
    for shown in each.shown:
        assert all(plain(line) in said for line in shown.splitlines())


def test_the_readme_has_every_public_name(repo_root):
    page = (repo_root / "README.md").read_text("utf-8")
    assert [name for name in equistrata.__all__ if f"`{name}`" not in page] == []
