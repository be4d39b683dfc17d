"""The image and the compose file of docs/deploy, as far as no Docker is needed."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
import yaml


@pytest.fixture(scope="module")
def compose(repo_root):
    return yaml.safe_load((repo_root / "docs" / "deploy" / "compose.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def instructions(repo_root):
    """(instruction, the rest), with continued lines joined."""
    text = (repo_root / "docs" / "deploy" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line and not line.startswith("#")]


def test_every_service_is_watched_and_heard_on_this_machine_only(compose, instructions):
    watched = "HEALTHCHECK" in [word for word, _ in instructions]
    for service in compose["services"].values():
        assert "healthcheck" in service or (watched and service["image"] == "equistrata")
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        named = {volume.split(":")[0] for volume in service["volumes"]}
        assert named <= set(compose["volumes"])


def test_settings_come_from_the_files_that_settings_sh_writes(compose, tmp_path, repo_root):
    script = repo_root / "docs" / "deploy" / "settings.sh"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PGHOST": "db"}
    subprocess.run(["sh", str(script), str(tmp_path / "settings")], env=environment, check=True, capture_output=True)
    for name in ("server", "worker"):
        (place,) = compose["services"][name]["env_file"]
        file = tmp_path / "settings" / place.rpartition("/")[2]
        given = dict(line.split("=", 1) for line in file.read_text("utf-8").splitlines())
        assert any("@db:5432/" in value for value in given.values())
        overridden = set(compose["services"][name]["environment"]) - {"HEALTH_URL"}
        assert overridden <= {*given, "PREFECT_HOME"}
        assert not any("password" in value.lower() for value in compose["services"][name]["environment"].values())


def test_programs_and_modules_that_are_started_exist(compose, instructions):
    lines = compose["services"]["worker"]["command"][-1].splitlines()
    script = subprocess.run(["sh", "-n"], input="\n".join(lines), text=True, capture_output=True)
    assert script.returncode == 0, script.stderr
    for line in lines:
        words = [word for word in shlex.split(line) if word != "exec"]
        assert words[0] in ("python", "prefect")
        if words[0] == "python":
            assert find_spec(words[words.index("-m") + 1])
    assert shutil.which("prefect", path=str(sys.prefix) + "/bin")
    assert dict(instructions)["CMD"] == '["prefect", "server", "start"]'


def test_the_image_is_of_this_checkout_and_runs_as_no_root(instructions, repo_root):
    copied = [rest for word, rest in instructions if word == "COPY" and "--from" not in rest]
    for rest in copied:
        for source in [part for part in rest.split() if not part.startswith("--")][:-1]:
            assert (repo_root / source).exists()
    kept = re.findall(r"^!(\S+)$", (repo_root / ".dockerignore").read_text("utf-8"), flags=re.MULTILINE)
    assert all((repo_root / name).exists() for name in kept)
    assert {"pyproject.toml", "prefect.yaml", "equistrata", *(p.name for p in rooms(repo_root))} <= set(kept)
    assert dict(instructions)["USER"] == "equistrata"


def rooms(root):
    return [link.resolve() for link in (root / "equistrata").iterdir() if link.is_symlink()]
