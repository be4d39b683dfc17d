"""Tests of the files in the wheel and in the sdist."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from equistrata.flows.cli.setup import PACKAGE, flower_contents, smartnoise_contents

pytestmark = pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed (extra 'dev')")

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("data", "privacy", "stats", "synth", "inference", "eval", "analysis", "flows")
SCRIPT = "import sys; from hatchling.cli import hatchling; sys.exit(hatchling())"


def build(folder, to, *targets):
    kinds = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-c", SCRIPT, "build", *kinds, "-d", str(to)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder with the wheel and the sdist of this checkout, in which the sdist is also unpacked."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder, "sdist", "wheel")
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        links = [member.name for member in archive if not (member.isfile() or member.isdir())]
        assert links == []
        plain = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # this filter was added in Python 3.11.4
        archive.extractall(folder / "unpacked", **plain)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """Return the names of the files in the wheel."""
    (path,) = built.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


def test_the_wheel_installs_one_name(wheel):
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"equistrata"}


def test_the_wheel_holds_every_file_of_every_room(wheel):
    files = {path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file()}
    kept = {path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"}
    assert len(kept) > 200
    assert {f"equistrata/{name}" for name in kept} <= wheel
    assert {"equistrata/__init__.py", "equistrata/api.py", "equistrata/py.typed"} <= wheel


def test_the_sdist_makes_the_same_wheel(built, wheel):
    (unpacked,) = (built / "unpacked").iterdir()
    again = built / "again"
    build(unpacked, again, "wheel")
    (path,) = again.glob("*.whl")
    assert set(zipfile.ZipFile(path).namelist()) == wheel
    for name in ("prefect.yaml", "Makefile", "docs/guide.md", "paper/__main__.py", "benchmarks/__main__.py", "tests"):
        assert (unpacked / name).exists(), name


def test_what_an_image_is_built_of_makes_the_same_wheel(built, wheel):
    kept = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"), flags=re.MULTILINE)
    context = built / "context"
    context.mkdir()
    for name in kept:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, context / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, context / name)
    build(context, context / "out", "wheel")
    (path,) = (context / "out").glob("*.whl")
    assert set(zipfile.ZipFile(path).namelist()) == wheel


@pytest.mark.skipif(find_spec("twine") is None, reason="twine is not installed (extra 'dev')")
def test_an_index_would_take_the_wheel_and_the_sdist(built):
    files = sorted(map(str, [*built.glob("*.whl"), *built.glob("*.tar.gz")]))
    assert len(files) == 2
    run = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("PASSED") == 2


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(built, tmp_path):
    """The requirements are installed from the default package index.

    A release of the sample is then made, read and verified.
    """
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    scripts = tmp_path / "clean" / ("Scripts" if sys.platform == "win32" else "bin")
    (wheel,) = built.glob("*.whl")
    install = [scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    installed = subprocess.run(install, capture_output=True, text=True)
    if "No matching distribution" in installed.stderr or "Connection" in installed.stderr:
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("EQUISTRATA", "PREFECT", "PYTHON"))
    }
    environment |= {"HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path / "prefect")}

    def run(*words):
        ran = subprocess.run(
            [scripts / "equistrata", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert run("--version").split()[-1] == version
    run("release", "--source", "sample", "--strata", "SEX", "--evaluate", "none", "--output", "made")
    assert "verified made" in run("verify", "made")
    assert "measured" in run("estimate", "made", "proportion", "ESR=1", "--by", "SEX")


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])


def test_the_files_that_set_up_needs_are_where_it_looks(built):
    """The files must be found in a checkout and in an unpacked sdist, where the packages are in a different folder."""
    (unpacked,) = (built / "unpacked").iterdir()
    contents = smartnoise_contents(), flower_contents()
    needed = [path.relative_to(PACKAGE.parent) for each in contents for path in (each.requirements, each.worker)]
    assert len(set(needed)) == 4
    for root in (ROOT, unpacked):
        assert [name for name in needed if not (root / name).is_file()] == []
