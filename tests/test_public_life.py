"""Test the files for a code host: workflows, issue forms, reviewers, and one version and set of requirements."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
HOST = ROOT / ".github"
WORKFLOWS = sorted((HOST / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (HOST / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CONDA_NAMES = {"matplotlib": "matplotlib-base"}  # the name on PyPI -> the name of the conda package

# The files that state the versions of Python in words.
PYTHON_PAGES = ["Makefile", "CONTRIBUTING.md", "RELEASING.md", "docs/deploy.md", "docs/index.md"]

needs_rooms = pytest.mark.skipif(not (ROOT / "privacy").is_dir(), reason="an sdist has no folders of rooms at its root")


def read_yaml(path):
    return yaml.load(path.read_text("utf-8"), yaml.BaseLoader)  # the key `on` is no boolean, and 3.10 no number


def jobs(workflow):
    return read_yaml(workflow)["jobs"]


def steps(workflow):
    return [step for job in jobs(workflow).values() for step in job.get("steps", ())]


def scripts(workflow):
    return "\n".join(step["run"] for step in steps(workflow) if "run" in step)


def supported_pythons():
    allowed = SpecifierSet(PROJECT["requires-python"])
    return [version for version in (f"3.{minor}" for minor in range(30)) if version in allowed]


def conda_requirement(text):
    requirement = Requirement(text)
    name = requirement.name.lower()
    return CONDA_NAMES.get(name, name), requirement.specifier


def conda_recipe():
    return read_yaml(ROOT / "packaging" / "conda" / "recipe.yaml")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
class TestWorkflows:
    def test_make_targets_exist(self, workflow):
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
        assert set(re.findall(r"\bmake ([a-z-]+)", scripts(workflow))) <= targets

    def test_files_exist(self, workflow):
        words = set(
            re.findall(r"(?<![\w./-])(?:\.\w+/[\w./-]+|\w[\w-]*\.(?:toml|md|py|yaml))(?![\w*])", scripts(workflow))
        )
        called = {job["uses"].removeprefix("./") for job in jobs(workflow).values() if "uses" in job}
        assert [name for name in (words | called) - {"notes.md"} if not (ROOT / name).is_file()] == []

    @needs_rooms
    def test_folders_of_bandit_exist(self, workflow):
        for command in re.findall(r"^bandit .* -r (.*)$", scripts(workflow), flags=re.MULTILINE):
            assert [name for name in command.split() if not (ROOT / name).is_dir()] == []

    def test_extras_exist(self, workflow):
        extras = {extra for found in re.findall(r"\.\[([\w,]+)\]", scripts(workflow)) for extra in found.split(",")}
        assert extras <= set(PROJECT["optional-dependencies"])

    def test_permissions_are_as_small_as_possible_and_there_are_no_secrets(self, workflow):
        assert read_yaml(workflow)["permissions"] == {"contents": "read"}
        assert "secrets." not in workflow.read_text("utf-8")
        wider = {name: job["permissions"] for name, job in jobs(workflow).items() if "permissions" in job}
        expected = {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
        assert wider == (expected if workflow.name == "release.yml" else {})

    def test_actions_are_pinned_and_steps_do_one_thing(self, workflow):
        for step in steps(workflow):
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", step.get("uses", "a/b@v1"))

    def test_each_job_ends(self, workflow):
        assert [
            name for name, job in jobs(workflow).items() if "uses" not in job and "timeout-minutes" not in job
        ] == []

    def test_no_script_contains_an_expression(self, workflow):
        """A value from outside could otherwise be executed; scripts read the environment instead."""
        assert "${{" not in scripts(workflow)


def test_all_versions_of_python_are_tested():
    (tested,) = (
        job["strategy"]["matrix"] for job in jobs(HOST / "workflows" / "tests.yml").values() if "strategy" in job
    )
    assert tested["python"] == supported_pythons()
    assert {name.split("-")[0] for name in tested["os"]} == {"ubuntu", "macos"}


def test_all_versions_of_python_are_stated():
    pythons = supported_pythons()
    stated = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if ":: Python :: 3." in each]
    assert stated == pythons
    for page in PYTHON_PAGES:
        assert f"Python {pythons[0]} to {pythons[-1]}" in " ".join((ROOT / page).read_text("utf-8").split()), page
    last = int(pythons[-1].partition(".")[2])
    assert f"(3, 11) <= sys.version_info < (3, {last + 1})" in (ROOT / "Makefile").read_text("utf-8")


def test_each_extra_of_users_has_a_smoke_test():
    extras = set(PROJECT["optional-dependencies"]) - {"dev", "docs"}
    matrix = jobs(HOST / "workflows" / "package.yml")["smoke"]["strategy"]["matrix"]
    assert set(matrix["extra"]) == extras | {""}
    script = (ROOT / ".ci" / "smoke").read_text("utf-8")
    cases = {
        name
        for found in re.findall(r"^ {4}([a-z][a-z |]*)\)", script, flags=re.MULTILINE)
        for name in found.split(" | ")
    }
    assert cases == extras


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
class TestIssueForms:
    def test_fields_are_named(self, form):
        document = read_yaml(form)
        assert all(document[key] for key in ("name", "description", "labels"))
        fields = [part for part in document["body"] if part["type"] != "markdown"]
        assert fields
        names = [part["id"] for part in fields]
        assert len(set(names)) == len(names)
        assert all(part["attributes"]["label"] for part in fields)

    def test_private_values_are_excluded(self, form):
        document = read_yaml(form)
        required = [
            option["required"]
            for part in document["body"]
            if part.get("id") == "nothing-private"
            for option in part["attributes"]["options"]
        ]
        assert required == ([] if document["name"] == "Feature" else ["true"])


def test_privacy_faults_are_reported_in_private():
    config = read_yaml(HOST / "ISSUE_TEMPLATE" / "config.yml")
    first = config["contact_links"][0]
    assert first["name"].startswith("Privacy fault")
    assert first["url"].endswith("/security/advisories/new")
    assert config["blank_issues_enabled"] == "false"
    assert "Report a vulnerability" in (ROOT / "SECURITY.md").read_text("utf-8")
    names = {read_yaml(form)["name"] for form in FORMS}
    assert "Privacy fault: ask for a private channel" in names
    assert "Privacy fault: ask for a private channel" in " ".join((ROOT / "SECURITY.md").read_text("utf-8").split())


@needs_rooms
def test_reviewed_folders_exist():
    lines = [line.split() for line in (HOST / "CODEOWNERS").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert all(len(line) > 1 and all(re.fullmatch(r"@OWNER/[a-z]+", owner) for owner in line[1:]) for line in lines)
    patterns = [line[0] for line in lines]
    assert [pattern for pattern in patterns[1:] if not any(ROOT.glob(pattern.strip("/")))] == []
    rooms = {path.name for path in (ROOT / "equistrata").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {f"/{room}/" for room in rooms} <= set(patterns)


def test_the_place_holder_is_only_where_the_release_page_says():
    text = (ROOT / "RELEASING.md").read_text("utf-8")
    found = {path for path in HOST.rglob("*") if path.is_file() and re.search(r"\bOWNER\b", path.read_text("utf-8"))}
    assert {path.relative_to(ROOT).as_posix() for path in found} == set(re.findall(r"`(\.github/[\w./]+)`", text))


def test_the_version_is_the_same_everywhere():
    version = PROJECT["version"]
    assert read_yaml(ROOT / "CITATION.cff")["version"] == version
    assert json.loads((ROOT / ".zenodo.json").read_text("utf-8"))["version"] == version
    assert conda_recipe()["context"]["version"] == version
    heading = re.search(
        r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M
    )
    assert heading is not None
    assert heading[1] == version
    minor = version.rpartition(".")[0]
    assert f"| {minor} | yes |" in (ROOT / "SECURITY.md").read_text("utf-8")
    assert f"placeholder: equistrata {version}" in (HOST / "ISSUE_TEMPLATE" / "2-bug.yml").read_text("utf-8")


def test_archives_describe_the_same_work():
    cited, archived = read_yaml(ROOT / "CITATION.cff"), json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
    assert archived["title"] == cited["title"]
    assert archived["license"] == cited["license"] == PROJECT["license"] == conda_recipe()["about"]["license"]
    assert archived["keywords"] == cited["keywords"] == PROJECT["keywords"]
    assert [each["name"] for each in archived["creators"]] == [each["name"] for each in cited["authors"]]


def test_the_conda_recipe_has_the_requirements_of_the_package():
    recipe = conda_recipe()
    run = dict(conda_requirement(text) for text in recipe["requirements"]["run"])
    assert run.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert run == dict(conda_requirement(text) for text in PROJECT["dependencies"])
    commands = [f"{name} = {where}" for name, where in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
