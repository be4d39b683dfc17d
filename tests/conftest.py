"""What every room's tests share: reproducible Hypothesis runs, a PostgreSQL server, and the optional real ACS rows."""

import gc
import os
import secrets
import sys
from pathlib import Path

# Before NumPy is loaded: where each of pytest's workers starts as many threads as there are cores, they wait for one
# another, and a fit of three seconds takes a minute. Processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from foreign_environments import interpreter_or_skip
from hypothesis import settings
from postgres import NoPostgres, postgres_server
from unsynced import no_power_cut

from equistrata.environments import FLOWER, SMARTNOISE

ROOT = Path(__file__).resolve().parent.parent

# Tests start many processes. Where no bytecode may be written, each of them compiles every library anew, so there it is
# kept beside pytest's own cache, for them and for pytest's workers.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

no_power_cut()

_OBJECTS = 20_000  # new ones at which garbage is looked for: at Python's 700 it takes a twentieth of all time

# Examples follow from the test alone, so a run on another machine sees the same ones.
# `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("fixed")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays to the end: no look for garbage goes through it, now or later."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    gc.enable()
    return found


FOREIGN = {"flower_python", "smartnoise_python"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs in an environment of another project: `make test` leaves it to `make test-foreign`."""
    for item in items:
        if FOREIGN & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.foreign)


@pytest.fixture(scope="session")
def flower_python() -> str:
    """The interpreter of Flower's environment; skips where there is none."""
    return interpreter_or_skip(FLOWER, ROOT)


@pytest.fixture(scope="session")
def smartnoise_python() -> str:
    """The interpreter of smartnoise-synth's environment; skips where there is none."""
    return interpreter_or_skip(SMARTNOISE, ROOT)


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def acs_root() -> str:
    """The folder with real ACS person files in folktables' layout, beside the repository; skips where there is none."""
    root = ROOT.parent / "shared" / "acs"
    if not (root / "2024" / "1-Year" / "psam_p50.csv").is_file():
        pytest.skip("optional ACS person files are not in ../shared/acs")
    return str(root)


@pytest.fixture(scope="session")
def postgres():
    """The URL of a real server for the session; skips, with the reason, where none can be started."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'postgres')")
    try:
        server = postgres_server("fsync=off", "max_connections=100")
        url = server.__enter__()
    except NoPostgres as reason:
        pytest.skip(str(reason))
    yield url
    server.__exit__(None, None, None)


@pytest.fixture
def new_database(postgres):
    """Makes an empty database on the session's server, for one test, and gives its URL."""
    import psycopg

    def make():
        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return postgres.rsplit("/", 1)[0] + f"/{name}"

    return make
