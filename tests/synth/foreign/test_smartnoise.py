"""Tests of the adapter for smartnoise-synth, with a fake interpreter and with a real run."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from small_tables import fit

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.environments import SMARTNOISE
from equistrata.errors import InputError
from equistrata.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.counting import measure_marginal
from equistrata.synth.foreign import child, smartnoise
from equistrata.synth.foreign.base import SMALLEST_POOL
from equistrata.synth.foreign.child import ForeignFailed
from equistrata.synth.foreign.smartnoise import SmartNoise
from equistrata.synth.measurements import Measurement
from equistrata.synth.registry import mechanism
from equistrata.synth.synthesizer import StratifiedSynthesizer

SCHEMA = Schema.load("acs_employment").select(["SEX", "MAR", "ESR"])
RHO = Rho.from_epsilon_delta(1, 1e-9)

# The fake interpreter. With `--describe`, it returns the versions. Otherwise, argv[-1] is the folder.
FAKE = """#!{python}
import json, os, sys, time
from pathlib import Path
import numpy as np
if "--describe" in sys.argv:
    print(json.dumps(dict(software="smartnoise-synth 1.0.8", delta=True, domain=True, zcdp=True)))
    sys.exit(0)
folder = Path(sys.argv[-1])
rows = np.load(folder / "rows.npy", allow_pickle=False)
settings = json.loads((folder / "settings.json").read_text())
seen = settings | dict(argv=sys.argv[1:], rows=len(rows), columns=rows.shape[1], folder=str(folder),
                       mode=os.stat(folder).st_mode & 0o777, inside=bool((rows < settings["sizes"]).all()))
Path({log!r}).write_text(json.dumps(seen))
{body}
"""
DRAWS_ITS_ROWS = """
rng = np.random.default_rng(0)
np.save(folder / "synthetic.npy", rows[rng.integers(0, len(rows), settings["draw"])].astype(np.uint32))
"""
FAILS_TELLING_ROWS = """
print("a secret row: ", rows[0]); print(rows[0], file=sys.stderr)
(folder / "error.json").write_text(json.dumps(dict(type="ValueError", text="secret")))
sys.exit(1)
"""


def table(rows=500, schema=SCHEMA):
    codes = np.random.default_rng(1).integers(0, schema.sizes, (rows, len(schema.sizes)))
    codes[:, 0] = 0  # one of the declared values does not occur
    return CodedTable(codes.astype(np.uint8), schema)


@pytest.fixture
def plays(tmp_path, monkeypatch):
    """Return a function that makes a fake interpreter and returns its path and a reader of its input."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def make(body):
        path, log = tmp_path / "python", tmp_path / "seen.json"
        path.write_text(FAKE.format(python=sys.executable, log=str(log), body=body))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        child.describe.cache_clear()
        return str(path), lambda: json.loads(log.read_text())

    yield make
    assert list(temporary.iterdir()) == []  # no files are left, also after an error


def test_what_the_child_is_told(plays):
    python, seen = plays(DRAWS_ITS_ROWS)
    fitted = SmartNoise("mst", python).fit_table(table(500), RHO, SeededNoise(0))
    told = seen()
    assert told["sizes"] == list(SCHEMA.sizes)  # all declared codes, although a value of SEX does not occur
    assert (told["rows"], told["columns"], told["inside"]) == (501, 3, True)  # including the added row
    assert told["mode"] == 0o700
    assert "-I" in told["argv"]
    assert told["draw"] == SMALLEST_POOL
    assert len(fitted.model.pool) == SMALLEST_POOL
    assert fitted.model.total == pytest.approx(500, abs=250)  # the noisy number and not the exact number of rows


def test_the_price_told_is_what_is_left_after_the_count(plays):
    python, seen = plays(DRAWS_ITS_ROWS)
    fitted = SmartNoise("mst", python).fit_table(table(), RHO, SeededNoise(0))
    told = seen()
    (count,) = fitted.measurements
    spent = Rho.from_epsilon_delta(told["epsilon"], told["delta"])
    assert float(spent) == pytest.approx(0.98 * float(RHO), rel=1e-6)
    assert float(spent) + 1 / (2 * count.sigma**2) <= float(RHO)


def test_a_count_that_was_paid_for_is_not_paid_again(plays):
    python, seen = plays(DRAWS_ITS_ROWS)
    known = [measure_marginal(table(), (), Rho(0.1), Budget(Rho(0.1)), SeededNoise(0))]
    fitted = fit(SmartNoise("aim", python), table(), RHO, SeededNoise(0), known)
    assert list(fitted.measurements) == known
    assert float(Rho.from_epsilon_delta(seen()["epsilon"], 1e-9)) == pytest.approx(float(RHO), rel=1e-6)


def test_the_pool_grows_with_the_noisy_count(plays):
    python, seen = plays(DRAWS_ITS_ROWS)
    SmartNoise("mst", python).fit_table(table(), RHO, SeededNoise(0), [Measurement((), np.array(30_000.0), 1.0)])
    assert seen()["draw"] == 60_000


def test_rows_pass_through_the_folder_that_it_is_given(plays, tmp_path):
    python, seen = plays(DRAWS_ITS_ROWS)
    private = tmp_path / "private"
    private.mkdir()
    SmartNoise("mst", python).working_in(private).fit_table(table(), RHO, SeededNoise(0))
    assert Path(seen()["folder"]).parent == private
    assert list(private.iterdir()) == []


def test_the_worker_ends_when_its_parent_is_gone(tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps({"synthesizer": "mst"}))
    os.mkfifo(tmp_path / "rows.npy")  # a read from this file does not return
    worker = subprocess.Popen([sys.executable, "-I", str(child.WORKER), str(tmp_path)], stdin=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(timeout=1)
    worker.stdin.close()
    assert worker.wait(timeout=30) == 3


def test_the_worker_names_the_exception_and_ends_though_its_parent_lives(tmp_path):
    (tmp_path / "settings.json").write_text("not JSON")
    worker = subprocess.Popen([sys.executable, "-I", str(child.WORKER), str(tmp_path)], stdin=subprocess.PIPE)
    assert worker.wait(timeout=60) == 1
    worker.stdin.close()
    assert json.loads((tmp_path / "error.json").read_text()) == {"type": "JSONDecodeError"}


def test_nothing_that_the_child_says_gets_out(plays, capfd):
    python, _ = plays(FAILS_TELLING_ROWS)
    with pytest.raises(ForeignFailed, match=r"SmartNoiseMST failed on a stratum \(ValueError\)") as caught:
        SmartNoise("mst", python).fit_table(table(), RHO, SeededNoise(0))
    assert caught.value.__cause__ is None
    assert "secret" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("sys.exit(7)", r"\(exit status 7\)"),
        ("os.kill(os.getpid(), 9)", r"\(exit status -9\)"),
        ('(folder / "error.json").write_text(json.dumps(dict(type="row [1 2]"))); sys.exit(1)', r"\(exit status 1\)"),
        ("pass", "did not return rows that fit schema"),
        ('(folder / "synthetic.npy").write_bytes(b"nonsense")', "did not return rows that fit schema"),
        (
            'np.save(folder / "synthetic.npy", np.full((9, 3), 200, dtype=np.uint32))',
            "did not return rows that fit schema",
        ),
        ('np.save(folder / "synthetic.npy", np.zeros((9, 2), dtype=np.uint32))', "did not return rows that fit schema"),
        ('np.save(folder / "synthetic.npy", np.zeros((0, 3), dtype=np.uint32))', "did not return rows that fit schema"),
        ('np.save(folder / "synthetic.npy", np.zeros((9, 3)))', "did not return rows that fit schema"),
        (
            'np.save(folder / "synthetic.npy", np.array([["a"]], dtype=object), allow_pickle=True)',
            "did not return rows",
        ),
    ],
)
def test_a_child_that_breaks_the_contract(plays, body, sentence):
    python, _ = plays(body)
    with pytest.raises(ForeignFailed, match=sentence):
        SmartNoise("mst", python).fit_table(table(), RHO, SeededNoise(0))


IMPOSSIBLE = Schema.from_dict(
    {"columns": {"A": {"values": [0, 1]}, "B": {"values": [0, 1]}}, "impossible": [{"A": 0, "B": [0]}]}
)


@pytest.mark.parametrize("drawn", [[[0, 0], [0, 1], [1, 1]], [[0, 0]]])
def test_rows_that_the_schema_declares_impossible_are_left_out(plays, drawn):
    python, _ = plays(f'np.save(folder / "synthetic.npy", np.array({drawn}, dtype=np.uint32))')
    empty = CodedTable(np.zeros((0, 2), dtype=np.uint8), IMPOSSIBLE)
    pool = SmartNoise("mst", python).fit_table(empty, RHO, SeededNoise(0)).model.pool
    assert len(pool) > 0
    assert pool.marginal(["A", "B"])[0, 0] == 0
    assert (pool.marginal(["A", "B"]).ravel()[[1, 3]] > 0).all()


def test_it_runs_through_the_stratified_synthesizer(plays, monkeypatch):
    python, _ = plays(DRAWS_ITS_ROWS)
    monkeypatch.setenv(SMARTNOISE.variable, python)
    rows = table(4000)
    synthesizer = StratifiedSynthesizer("smartnoise-mst", ["ESR"], epsilon=1, seed=0).fit(rows)
    assert synthesizer.name == "SmartNoiseMST_ESR"
    drawn = CodedTable.encode(synthesizer.sample(4000), SCHEMA)
    shares = drawn.marginal(["MAR", "ESR"]) / len(drawn)
    np.testing.assert_allclose(shares, rows.marginal(["MAR", "ESR"]) / len(rows), atol=0.02)
    whole = StratifiedSynthesizer("smartnoise-mst", epsilon=1, seed=0).fit(rows)
    assert len(whole.sample()) == pytest.approx(4000, abs=300)


def test_it_says_how_to_get_the_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SMARTNOISE.variable, raising=False)
    with pytest.raises(InputError, match="run equistrata setup smartnoise") as caught:
        mechanism("smartnoise-mst")
    assert "\n" not in str(caught.value)
    monkeypatch.setenv(SMARTNOISE.variable, sys.executable)  # an interpreter without smartnoise-synth
    child.describe.cache_clear()
    with pytest.raises(InputError, match="cannot be used"):
        mechanism("smartnoise-mst")


@pytest.mark.parametrize("name", ["smartnoise-", "smartnoise-gem", "SMARTNOISE-dpctgan"])
def test_an_unknown_synthesizer(name):
    with pytest.raises(InputError, match="choose smartnoise-aim or smartnoise-mst or smartnoise-mwem"):
        mechanism(name)


def test_other_names_of_its_factory(plays, monkeypatch):
    python, seen = plays(DRAWS_ITS_ROWS)
    own = mechanism("snsynth:PATECTGAN", python=python)
    assert (own.name, own.relation, own.converts, own.pure) == ("SmartNoisePATECTGAN", REPLACE_ONE, False, False)
    promised = own.promised(3.0, 1e-6, Rho(0))
    promised.fit_table(table(), promised.promise.rho, SeededNoise(0))
    told = seen()
    assert (told["synthesizer"], told["epsilon"], told["delta"]) == ("patectgan", 0.98 * 3.0, 1e-6)
    assert mechanism("snsynth:MST", python=python) == mechanism("smartnoise-mst", python=python)
    with pytest.raises(InputError, match="draws rows with empty cells"):
        mechanism("snsynth:PACSYNTH", python=python)


def test_mwem_refuses_large_domains(plays):
    python, _ = plays(DRAWS_ITS_ROWS)
    schema = Schema.load("acs_employment").selected()
    rows = CodedTable(np.zeros((5, len(schema.sizes)), dtype=np.uint8), schema)
    with pytest.raises(InputError, match="limit 100,000"):
        SmartNoise("mwem", python).fit_table(rows, RHO, SeededNoise(0))


def test_it_is_foreign_and_ours_is_not(plays):
    python, _ = plays(DRAWS_ITS_ROWS)
    adapter = SmartNoise("mst", python)
    assert not adapter.keeps_measurements
    assert mechanism("mst").keeps_measurements
    assert adapter.software == "smartnoise-synth 1.0.8"
    relations = {name: SmartNoise(name, python).relation for name in smartnoise.SYNTHESIZERS}
    assert relations == {"aim": ADD_REMOVE, "mst": REPLACE_ONE, "mwem": REPLACE_ONE}  # the last two use exact sizes
    assert all(caveat.endswith(".") and "\n" not in caveat for caveat in adapter.caveats)
    with pytest.raises(InputError, match="stores no measurements"):
        adapter.model(SCHEMA, [])


@pytest.mark.slow
@pytest.mark.parametrize(("synthesizer", "rows"), [("mst", 3000), ("mst", 0), ("aim", 3000), ("mwem", 3000)])
def test_smartnoise_itself(synthesizer, rows, smartnoise_python):
    child.describe.cache_clear()
    real = table(rows)
    fitted = SmartNoise(synthesizer, smartnoise_python).fit_table(real, Rho.from_epsilon_delta(5, 1e-9), SeededNoise(0))
    assert fitted.model.schema == SCHEMA
    if rows:
        shares = fitted.model.marginal(["MAR"]) / fitted.model.total
        np.testing.assert_allclose(shares, real.marginal(["MAR"]) / rows, atol=0.05)
