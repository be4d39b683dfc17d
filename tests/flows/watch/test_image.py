"""Tests of the image and the compose file in docs/deploy. Some tests require a running Docker daemon."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from image import DOCKERFILE, Image, context, stages
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pages import end_all

SERVICES = ("server", "worker")  # the services of this project


@pytest.fixture(scope="module")
def compose(repo_root):
    return yaml.safe_load((repo_root / "docs" / "deploy" / "compose.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def image():
    """Return the last stage, which is the image that is run."""
    return stages()[-1]


def program(name):
    """Return the path of a linter, or skip the test if it is not installed."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


def test_every_service_is_watched_and_heard_on_this_machine_only(compose, image):
    for service in compose["services"].values():
        assert "healthcheck" in service or (image.of("HEALTHCHECK") and service["image"] == "equistrata")
        assert service["restart"] == "unless-stopped"
        assert not {"privileged", "network_mode", "pid", "cap_add", "devices", "user"} & set(service)
        for other, when in service.get("depends_on", {}).items():
            assert other in compose["services"]
            assert when == {"condition": "service_healthy"}
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


def test_programs_and_modules_that_are_started_exist(compose, image):
    lines = compose["services"]["worker"]["command"][-1].splitlines()
    script = subprocess.run(["sh", "-n"], input="\n".join(lines), text=True, capture_output=True)
    assert script.returncode == 0, script.stderr
    for line in lines:
        words = [word for word in shlex.split(line) if word != "exec"]
        assert words[0] in ("python", "prefect")
        if words[0] == "python":
            assert find_spec(words[words.index("-m") + 1])
    assert shutil.which("prefect", path=str(sys.prefix) + "/bin")
    assert image.of("CMD") == ['["prefect", "server", "start"]']


def test_the_image_is_of_this_checkout_and_runs_as_no_root(image, repo_root):
    kept = context()
    assert {"pyproject.toml", "prefect.yaml", "README.md", "LICENSE", "equistrata/__init__.py"} <= set(kept)
    assert {name.split("/")[0] for name in kept} >= {path.name for path in rooms(repo_root)}
    assert not {"__pycache__", ".git", ".venv", "tests", "shared"} & {part for name in kept for part in name.split("/")}
    made = re.search(r"useradd .*--uid (\d+) (\w+)", " ".join(image.of("RUN")))
    assert image.of("USER") == [made[1]]
    assert int(made[1]) >= 1000
    last = [word for word, _ in image.instructions]
    assert last.index("USER") > max(place for place, word in enumerate(last) if word in ("RUN", "COPY"))


def test_the_image_has_bytecode(image):
    """The user of the image is not allowed to write bytecode, so each start used to compile 1,800 modules again
    (docs/performance.md).
    """
    assert not any("--no-compile" in rest for rest in image.of("RUN"))
    assert "PYTHONDONTWRITEBYTECODE" not in image.variables


def test_the_dockerfile_keeps_the_usual_rules(repo_root):
    """These are the relevant rules of hadolint, which may not be installed."""
    project = (repo_root / "pyproject.toml").read_text("utf-8")
    supported = SpecifierSet(re.search(r'requires-python = "(.*)"', project)[1])
    built = stages()
    assert len({stage.python for stage in built}) == 1
    for stage in built:
        assert Version(stage.python) in supported
        assert {word for word, _ in stage.instructions} <= {
            "WORKDIR", "COPY", "RUN", "USER", "ENV", "HEALTHCHECK", "CMD"
        }  # fmt: skip
        assert all(rest.startswith("/") for rest in stage.of("WORKDIR"))
        names = [other.name for other in built]
        for rest in stage.of("COPY"):
            of = re.search(r"--from=(\S+)", rest)
            assert of is None or of[1] in names
        for rest in stage.of("RUN"):
            assert subprocess.run(["sh", "-n", "-c", rest], capture_output=True).returncode == 0
            assert not re.search(r"\bsudo\b|\bapt(-get)?\b|curl|wget", rest)
            assert all("--no-cache-dir" in each for each in rest.split("&&") if "pip " in each)
        secret = re.compile("PASSWORD|SECRET|KEY|TOKEN|AUTH")
        assert not any(secret.search(name) for name in stage.variables)
    (command,), (check,) = built[-1].of("CMD"), built[-1].of("HEALTHCHECK")
    assert all(isinstance(word, str) for word in json.loads(command))
    assert all(isinstance(word, str) for word in json.loads(check.split("CMD ")[1]))


def test_hadolint_and_shellcheck_find_nothing(repo_root):
    done = subprocess.run([program("hadolint"), "--no-color", DOCKERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    scripts = sorted(path for path in (repo_root / "docs" / "deploy").glob("*.sh"))
    done = subprocess.run([program("shellcheck"), *scripts], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_is_kept_is_in_volumes_that_the_user_may_write(compose, image):
    """A new volume has the same owner as the folder in the image."""
    made = re.search(r"install -d -m 0700 -o equistrata ([^&]+)", " ".join(image.of("RUN")))[1].split()
    for name in SERVICES:
        service = compose["services"][name]
        places = [volume.split(":")[1] for volume in service["volumes"]]
        assert set(places) <= set(made)
        homes = {**image.variables, **service["environment"]}
        for variable in ("PREFECT_HOME", "EQUISTRATA_STATE"):
            assert any(homes[variable].startswith(f"{place}/") for place in places), (name, variable)
    worker = [volume.split(":")[1] for volume in compose["services"]["worker"]["volumes"]]
    assert f"{image.of('WORKDIR')[-1]}/releases" in worker
    database = compose["services"]["db"]
    version = int(database["image"].removeprefix("postgres:"))
    assert version < 18, "from 18 on the volume belongs to /var/lib/postgresql"
    assert [volume.split(":")[1] for volume in database["volumes"]] == ["/var/lib/postgresql/data"]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def settings_of(made, home, repo_root):
    """Return the settings that settings.sh writes for each service, with SQLite files instead of PostgreSQL."""
    script = repo_root / "docs" / "deploy" / "settings.sh"
    hers = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PGHOST": "db"}
    subprocess.run(["sh", script, made], env=hers, check=True, capture_output=True)
    found = {}
    for name in SERVICES:
        lines = (made / f"{name}.env").read_text("utf-8").splitlines()
        found[name] = dict(line.split("=", 1) for line in lines)
    del found["server"]["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
    found["worker"]["EQUISTRATA_LEDGER_URL"] = str(home / "ledger.db")
    return found


@pytest.mark.slow
def test_the_image_is_built_and_its_containers_get_healthy_without_docker(compose, tmp_path, repo_root):
    """All instructions are run, packages are installed from the index, and both commands run until the health check
    succeeds.
    """
    built = Image(tmp_path / "image")
    try:
        stage = built.build()
    except AssertionError as error:
        if "No matching distribution" in str(error) or "Connection" in str(error):
            pytest.skip("no package index can be reached")
        raise
    home = built.root / "home"
    home.mkdir()
    settings = settings_of(tmp_path / "settings", home, repo_root)
    port, other = free_port(), free_port()
    check = json.loads(stage.of("HEALTHCHECK")[0].split("CMD ")[1])
    asked = compose["services"]["worker"]["environment"]["HEALTH_URL"]
    commands = {"server": json.loads(stage.of("CMD")[0]), "worker": compose["services"]["worker"]["command"]}
    here = {
        "server": {"PREFECT_SERVER_API_HOST": "127.0.0.1", "PREFECT_SERVER_API_PORT": str(port),
                   "HEALTH_URL": stage.variables["HEALTH_URL"].replace("4200", str(port))},
        "worker": {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_WORKER_WEBSERVER_PORT": str(other),
                   "HEALTH_URL": asked.replace("8080", str(other))},
    }  # fmt: skip
    where = built.root / stage.of("WORKDIR")[-1].lstrip("/")
    running = []
    try:
        for name in SERVICES:
            told = stage.variables | settings[name] | compose["services"][name]["environment"]
            inside = {key: built.inside(value) if value.startswith("/var/") else value for key, value in told.items()}
            its = built.environment() | inside | here[name]
            with (tmp_path / f"{name}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(commands[name], cwd=where, env=its, stdout=log, stderr=log, start_new_session=True)
                )
            deadline = time.monotonic() + 300
            while subprocess.run(check, env=its, cwd=where, capture_output=True).returncode:
                said = (tmp_path / f"{name}.log").read_text("utf-8")
                assert running[-1].poll() is None, said[-3000:]
                assert time.monotonic() < deadline, said[-3000:]
                time.sleep(1)
        told = built.environment() | settings["worker"] | here["worker"]
        listed = subprocess.run(["prefect", "deployment", "ls"], env=told, capture_output=True, text=True, check=True)
        assert "sample-monthly" in listed.stdout
        version = subprocess.run(["equistrata", "--version"], env=told, capture_output=True, text=True, check=True)
        assert version.stdout.strip()
        assert (where / "releases").stat().st_mode & 0o077 == 0
    finally:
        end_all(home)
        for process in running:
            process.wait(timeout=60)


@pytest.fixture
def docker(repo_root):
    """Return the compose command for a separate project, or skip the test if there is no Docker daemon.

    All containers are removed at the end.
    """
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("no Docker daemon answers")
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker has no compose")
    file = repo_root / "docs" / "deploy" / "compose.yaml"
    command = ["docker", "compose", "-p", f"equistrata-test-{os.getpid()}", "-f", str(file)]
    yield command
    subprocess.run([*command, "down", "--volumes", "--rmi", "local"], capture_output=True, check=False)


@pytest.mark.slow
def test_compose_brings_up_all_three(docker, tmp_path, repo_root):
    """The steps of docs/deploy.md are run on port 4200 of this machine."""
    made = tmp_path / "settings"
    hers = os.environ | {"HOME": str(tmp_path), "PGHOST": "db", "EQUISTRATA_SETTINGS": str(made)}
    hers["POSTGRES_PASSWORD"] = os.urandom(24).hex()
    subprocess.run(["sh", repo_root / "docs" / "deploy" / "settings.sh", made], env=hers, check=True)

    def run(*words, **more):
        subprocess.run([*docker, *words], env=hers, check=True, timeout=1800, **more)

    run("up", "--build", "--detach", "--wait", "db")
    run("exec", "-T", "db", "psql", "-q", "-U", "postgres", input=(made / "databases.sql").read_bytes())
    steward = dict(line.split("=", 1) for line in (made / "steward.env").read_text("utf-8").splitlines())
    hers |= steward
    create = ("equistrata", "budget", "create", "sample", "--epsilon", "3", "--delta", "1e-9")
    run("run", "--rm", "--no-deps", "-e", "EQUISTRATA_LEDGER_URL", "worker", *create)
    run("up", "--build", "--detach", "--wait")


def rooms(root):
    return [link.resolve() for link in (root / "equistrata").iterdir() if link.is_symlink()]
