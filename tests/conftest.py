"""Fixtures for all tests, such as reproducible Hypothesis runs, a PostgreSQL server and the optional ACS data."""

import gc
import os
import secrets
import sys
from pathlib import Path

# This must be set before NumPy is imported. If each pytest worker starts one thread per core, the threads wait for each
# other and a fit of three seconds takes a minute. The variable is inherited by all processes of the tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from foreign_environments import interpreter_or_skip
from hypothesis import settings
from postgres import NoPostgres, postgres_server
from unsynced import no_power_cut

from equistrata.environments import FLOWER, SMARTNOISE

ROOT = Path(__file__).resolve().parent.parent

# The tests start many processes. If Python is not allowed to write bytecode, each process compiles every library again.
# In this case the bytecode is stored in the cache of pytest.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

no_power_cut()

# The number of new objects before a garbage collection. The default of 700 takes 5% of the total time.
_OBJECTS = 20_000

# The examples depend only on the test, so they are the same on each machine. Use `pytest --hypothesis-profile=explore`
# to search for new examples.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("fixed")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exclude all imported and collected objects from garbage collection, because they are used until the end."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    gc.enable()
    return found


FOREIGN = {"flower_python", "smartnoise_python"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use an environment of another project, which are run by `make test-foreign` and not by `make
    test`.
    """
    for item in items:
        if FOREIGN & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.foreign)


@pytest.fixture(scope="session")
def flower_python() -> str:
    """Return the interpreter of the Flower environment, or skip the test if there is none."""
    return interpreter_or_skip(FLOWER, ROOT)


@pytest.fixture(scope="session")
def smartnoise_python() -> str:
    """Return the interpreter of the smartnoise-synth environment, or skip the test if there is none."""
    return interpreter_or_skip(SMARTNOISE, ROOT)


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """Return the root folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def acs_root() -> str:
    """Return the folder of the ACS person files in the layout of folktables, or skip the test if there is none."""
    root = ROOT.parent / "shared" / "acs"
    if not (root / "2024" / "1-Year" / "psam_p50.csv").is_file():
        pytest.skip("optional ACS person files are not in ../shared/acs")
    return str(root)


@pytest.fixture(scope="session")
def postgres():
    """Return the URL of a PostgreSQL server for the session, or skip the test if no server can be started."""
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
    """Return a function that creates an empty database on the server of the session and returns its URL."""
    import psycopg

    def make():
        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return postgres.rsplit("/", 1)[0] + f"/{name}"

    return make
