"""Tests of docs/deploy.md, in which the commands are run from an empty home folder to a release.

The package manager, the superuser of PostgreSQL, the ports and the repository are replaced.
"""

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pages import ROOT, block, blocks, checkout, end_all, installed, run, variables
from postgres import NoPostgres, postgres_server

PAGE = "docs/deploy.md"
SUDO = r"""#!/bin/sh
# Stands in for sudo: packages are there, and PostgreSQL's superuser is the one of the test's server.
case "$1 $2 $3" in
"apt-get install -y") exit 0 ;;
"-u postgres psql") shift 2; PGUSER=$SUPERUSER PGPASSWORD=$SUPERUSERS_PASSWORD exec "$@" -d postgres ;;
*) echo "sudo $*: not expected" >&2; exit 1 ;;
esac
"""


@pytest.fixture(params=["postgresql", "sqlite"])
def reader(request, tmp_path):
    """Return a home folder, an environment, and True if PostgreSQL is available. All processes are ended after the
    test.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "sudo").write_text(SUDO)
    (home / "bin" / "sudo").chmod(0o755)
    hers = variables(home, PREFECT_PORT=str(port), PATH=f"{home / 'bin'}:{os.environ['PATH']}")
    hers |= {"PYTHONPATH": str(home / "equistrata"), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    try:
        if request.param == "sqlite":
            yield home, hers, False
            return
        pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'postgres')")
        if shutil.which("psql") is None:
            pytest.skip("there is no psql")
        try:
            with postgres_server(extension="pg_trgm") as url:
                parts = urlsplit(url)
                hers |= {"PGHOST": parts.hostname, "PGPORT": str(parts.port)}
                hers |= {"SUPERUSER": parts.username, "SUPERUSERS_PASSWORD": parts.password}
                try:
                    yield home, hers, True
                finally:
                    end_all(home)
        except NoPostgres as reason:
            pytest.skip(str(reason))
    finally:
        end_all(home)


def repository(folder):
    """Make a repository from this working tree."""
    checkout(folder)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return folder


def commands(text):
    """Return the commands of a block, with continued lines."""
    return re.split(r"(?<!\\)\n", text)


def without_postgres(lines):
    """Change the commands as described on the page, so that the ledger is a file and command 5 is not needed."""
    (place,) = [place for place, line in enumerate(lines) if line.startswith("sudo -u postgres psql")]
    settings = "~/.config/equistrata"
    mended = f"sed -i /PREFECT_SERVER_DATABASE_CONNECTION_URL/d {settings}/server.env"
    file = "s|^EQUISTRATA_LEDGER_URL=.*|EQUISTRATA_LEDGER_URL=$HOME/ledger.db|"
    return [
        *lines[:place],
        mended,
        f'sed -i "{file}" {settings}/worker.env {settings}/steward.env',
        *lines[place + 1 :],
    ]


@pytest.mark.slow
def test_the_page_from_nothing_to_a_release(reader, tmp_path):
    """The ten commands and the commands that show a release are run with and without PostgreSQL."""
    home, hers, has_postgres = reader
    lines = commands(block(PAGE, "sudo apt-get install"))
    assert len(lines) == 10, "the page says how many"
    if not has_postgres:
        lines = without_postgres(lines)
    source = repository(tmp_path / "repository")
    (clone,) = [place for place, line in enumerate(lines) if "git clone REPOSITORY" in line]
    lines[clone] = lines[clone].replace("REPOSITORY", str(source))
    run("\n".join(lines[: clone + 1]), home, hers)
    where = home / "equistrata"
    installed(where)
    after = lines[clone + 1 :]
    assert after[0] == "make install"
    read = "set -a; . ~/.config/equistrata/worker.env; set +a"
    assert read in after, "later blocks run in the same shell"
    run("\n".join(after), where, hers, timeout=900)
    kept = home / ".config" / "equistrata"
    assert {path.name for path in kept.iterdir()} == {"server.env", "worker.env", "steward.env", "databases.sql"}

    shown = run(f"{read}\n{block(PAGE, '.venv/bin/prefect deployment run')}", where, hers, timeout=900)
    (release,) = [path for path in (where / "releases" / "sample").iterdir() if not path.name.endswith(".internal")]
    card = json.loads((release / "card.json").read_text("utf-8"))
    assert card["ledger"]["release_id"] == f"sample-{release.name}"
    history, rest = shown.split("charges of sample")[1].split("head ", 1)
    assert f"sample-{release.name} " in history
    assert "committed" in history
    assert "'key': 'release-card'" in rest
    assert "The ledger is whole" in rest.split("'key': 'budget-sample'")[1]
    asked = f"{read}\n.venv/bin/equistrata budget verify --card releases/sample/{release.name}/card.json"
    run(asked, where, hers)

    audit = f"releases/sample/{release.name}.internal/audit"
    run(f"until [ -d {audit} ]; do sleep 1; done", where, hers, timeout=300)  # the deployment `sample-audit`

    # The URL and the key of the ledger as a Prefect block.
    run(f"{read}\n{block(PAGE, '.venv/bin/python -c')}", where, hers)
    forget = "unset EQUISTRATA_LEDGER_URL EQUISTRATA_LEDGER_KEY"
    told = run(f"{read}\n{forget}\n.venv/bin/equistrata budget history --ledger block:equistrata-ledger", where, hers)
    assert f"sample-{release.name} " in told


@pytest.mark.slow
def test_the_units_of_systemd_are_whole(tmp_path):
    home = tmp_path / "home"
    where = checkout(home / "equistrata")
    installed(where)
    (home / "bin").mkdir()
    for name in ("systemctl", "sudo"):
        (home / "bin" / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"$HOME/asked"\n')
        (home / "bin" / name).chmod(0o755)
    hers = variables(home, USER="someone", PATH=f"{home / 'bin'}:{os.environ['PATH']}")
    run("sh docs/deploy/settings.sh", where, hers)
    run(block(PAGE, "mkdir -p ~/.config/systemd/user"), where, hers)
    units = sorted((home / ".config" / "systemd" / "user").glob("*.service"))
    asked = (home / "asked").read_text()
    assert all(unit.stem in asked for unit in units)
    assert len(units) == 2
    for unit in units:
        told = dict(line.split("=", 1) for line in unit.read_text("utf-8").splitlines() if "=" in line)
        at = {key: value.replace("%h", str(home)) for key, value in told.items()}
        assert Path(at["EnvironmentFile"]).is_file()
        assert Path(at["WorkingDirectory"]).samefile(where)
        program, *words = at["ExecStart"].split()
        assert os.access(program, os.X_OK)
        assert f"prefect {' '.join(words)}" in block(PAGE, "sudo apt-get install"), "as the ten commands start it"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    for unit in units:  # %h is the home folder of the user and does not depend on HOME
        unit.write_text(unit.read_text("utf-8").replace("%h", str(home)), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", *map(str, units)], env=hers | {"XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "Failed to" in done.stderr and "initialize" in done.stderr:
        pytest.skip("systemd-analyze cannot start here")
    said = [line for line in done.stderr.splitlines() if "equistrata" in line]
    assert (done.returncode, said) == (0, [])


def test_every_key_of_the_deployment_table_is_a_setting():
    from equistrata.flows.config.release import ReleaseConfig

    table = (ROOT / PAGE).read_text("utf-8").split("| setting | on a schedule |")[1].split("\n\n")[0]
    named = re.findall(
        r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    )
    keys = {field.alias or name for name, field in ReleaseConfig.model_fields.items()}
    assert len(named) >= 9
    assert set(named) <= keys


RUN = ("sudo apt-get install", ".venv/bin/prefect deployment run", "mkdir -p ~/.config/systemd", ".venv/bin/python -c")


def test_every_block_runs_or_says_why_not():
    cron = "0 6 1 * *"  # the command is run by tests/flows/cli/test_cli.py
    docker = "PGHOST=db"  # the image is tested by test_compose_brings_up_all_three and tests/flows/watch/test_image.py
    assert [text for text in blocks(PAGE) if not text.startswith((*RUN, cron, docker))] == []
