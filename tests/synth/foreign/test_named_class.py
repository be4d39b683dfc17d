"""Tests of the use of any synthesizer class in the strata: its arguments, its results, and that no rows are leaked."""

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equistrata.data.schema import Schema
from equistrata.data.table import CodedTable
from equistrata.data.units.unit import Unit
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.privacy.budget import ADD_REMOVE, BudgetExceeded, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.foreign import child
from equistrata.synth.foreign.child import ForeignFailed
from equistrata.synth.foreign.named_class import NamedClass
from equistrata.synth.foreign.promise import Promise
from equistrata.synth.registry import mechanism
from equistrata.synth.synthesizer import StratifiedSynthesizer

SCHEMA = Schema.load("acs_employment").select(["SEX", "MAR", "ESR"])
HALF = Rho(0.5)
REAL = 500  # in addition to the added row. The trials have other numbers

# The class adds a line to the file `{told}` for each instance. `real` is True if the rows are real.
CLASS = """
import json, os, sys
import numpy as np, pandas as pd

class Mine:
    {attributes}
    def __init__(self, {made_with}):
        self.told = dict({noted})
        self.rng = np.random.default_rng()

    def fit(self, frame{fitted_with}):
        real = len(frame) > 200
        self.frame = frame
        self.told |= dict(rows=len(frame), columns=list(frame.columns), kinds=sorted({{str(t) for t in frame.dtypes}}))
        self.told |= dict({note})
        with open({told!r}, "a") as log:
            log.write(json.dumps(self.told) + "\\n")
        {fit}

    def sample(self, rows):
        frame, real = self.frame, len(self.frame) > 200
        drawn = frame.iloc[self.rng.integers(0, len(frame), rows)]
        {sample}
        return drawn
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a class to a file and returns its name and a reader of its arguments."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def make(
        fit="pass",
        sample="pass",
        made_with="epsilon, delta",
        fitted_with="",
        attributes="pass",
        name="mine.py",
        note="",
    ):
        path, log = tmp_path / name, tmp_path / "told"
        noted = ", ".join(f"{each}={each}" for each in made_with.split(", "))
        path.write_text(
            CLASS.format(
                told=str(log), fit=fit, sample=sample, made_with=made_with, noted=noted, fitted_with=fitted_with,
                attributes=attributes, note=note,
            )
        )  # fmt: skip
        child.describe.cache_clear()
        return f"{path}:Mine", lambda: [json.loads(line) for line in log.read_text().splitlines()]

    yield make
    assert list(temporary.iterdir()) == []  # no rows are left, also after an error


def table(rows=REAL, schema=SCHEMA):
    codes = np.random.default_rng(1).integers(0, schema.sizes, (rows, len(schema.sizes)))
    return CodedTable(codes.astype(np.uint8), schema)


def fitted(name, rows=REAL, rho=HALF, **settings):
    return NamedClass(name, **settings).fit_table(table(rows), rho, SeededNoise(0))


def test_it_is_told_epsilon_and_delta_and_gets_whole_codes_of_named_columns(written):
    name, told = written(fitted_with=", categorical_columns, domain", note="domain=domain, named=categorical_columns")
    fit = fitted(name, delta=1e-6)
    (seen,) = told()
    assert seen["columns"] == seen["named"] == ["SEX", "MAR", "ESR"]
    assert seen["domain"] == dict(zip(SCHEMA.names, SCHEMA.sizes, strict=True))
    assert (seen["kinds"], seen["rows"], seen["delta"]) == (["int64"], REAL + 1, 1e-6)
    assert Rho.of_pure(seen["epsilon"]) < Rho(0.5)
    count = fit.measurements[0]
    # Laplace noise costs ε²/2.
    assert float(Rho.of_pure(seen["epsilon"])) + 1 / count.sigma**2 == pytest.approx(0.5, rel=1e-6)
    assert fit.model.total == pytest.approx(REAL, abs=600)


@pytest.mark.parametrize(("made_with", "pure"), [("epsilon", True), ("epsilon, delta", False)])
def test_a_class_that_takes_no_delta_promises_pure_epsilon(written, made_with, pure):
    name, told = written(made_with=made_with)
    assert NamedClass(name).pure is pure
    fitted(name)
    assert ("delta" in told()[0]) is not pure


@pytest.mark.parametrize("domain", [True, False])
def test_the_card_warns_of_a_class_that_reads_the_domain_off_the_rows(written, domain):
    name, _ = written(fitted_with=", domain" if domain else "")
    warned = [caveat for caveat in NamedClass(name).caveats if "declared" in caveat and "noise hides" in caveat]
    assert len(warned) == (not domain)


def test_whose_guarantee_it_is_is_said(written):
    name, _ = written()
    own = NamedClass(name)
    assert own.name == "Mine"
    assert own.software.startswith("mine.py, SHA-256 ")
    assert own.relation == ADD_REMOVE
    assert f"The guarantee is the claim of Mine ({own.software})" in own.caveats[0]
    assert not own.keeps_measurements
    with pytest.raises(InputError, match="stores no measurements"):
        own.model(SCHEMA, [])


def test_a_class_that_converts_into_rho_gets_the_epsilon_of_its_rho(written):
    name, told = written(attributes="zcdp = True")
    rho = Rho.from_epsilon_delta(1, 1e-6)
    fitted(name, rho=rho, delta=1e-6)
    spent = Rho.from_epsilon_delta(told()[0]["epsilon"], 1e-6)
    assert float(spent) == pytest.approx(0.98 * float(rho), rel=1e-6)
    assert "to ρ" in NamedClass(name).caveats[0]


WORKER = runpy.run_path(str(child.WORKER), run_name="worker")
ROWS = pd.DataFrame({"SEX": [0, 1], "MAR": [4, 0], "ESR": [1, 0]})


@pytest.mark.parametrize(
    ("drawn", "sentence"),
    [
        (ROWS[:1], "does not have the 2 rows"),
        (ROWS.astype(float).where(ROWS["SEX"] == 0), "missing values.* in column 'SEX'"),
        (ROWS.assign(ESR="x"), "that are not numbers, in column 'ESR'"),
        (ROWS.assign(MAR=99), r"other than the codes 0 to 4 in column 'MAR'"),
        (ROWS.assign(MAR=-1), r"other than the codes 0 to 4 in column 'MAR'"),
        (ROWS.assign(MAR=0.5), r"other than the codes 0 to 4 in column 'MAR'"),
        (ROWS.assign(MAR=np.inf), r"other than the codes 0 to 4 in column 'MAR'"),
        (ROWS.drop(columns="MAR"), "other columns than SEX, MAR, ESR"),
        (ROWS.rename(columns={"MAR": "AGE"}), "other columns than SEX, MAR, ESR"),
        (ROWS.to_numpy()[:, :2], "2 columns instead of 3"),
        (None, "0 columns instead of 3"),
    ],
)
def test_what_is_no_row_of_the_schema_is_refused(drawn, sentence):
    settings = {"names": list(SCHEMA.names), "sizes": SCHEMA.sizes, "draw": 2}
    with pytest.raises(WORKER["ContractError"], match=sentence):
        WORKER["codes_of"](drawn, settings)


@pytest.mark.parametrize(
    "drawn", [ROWS, ROWS.to_numpy(), ROWS[["ESR", "MAR", "SEX"]], ROWS.astype(float), [*map(tuple, ROWS.to_numpy())]]
)
def test_codes_may_come_as_an_array_in_another_order_or_as_floats(drawn):
    settings = {"names": list(SCHEMA.names), "sizes": SCHEMA.sizes, "draw": 2}
    found = WORKER["codes_of"](drawn, settings)
    assert found.dtype == np.uint32
    assert found.tolist() == ROWS.to_numpy().tolist()


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        ("drawn = frame if real else drawn", "the sample of Mine does not have the 10000 rows"),
        ("drawn = drawn.assign(MAR=99) if real else drawn", r"has values other than the codes 0 to 4 in column 'MAR'"),
    ],
)
def test_the_refusal_is_a_sentence_without_the_number_of_rows(written, sample, sentence):
    name, _ = written(sample=sample)
    with pytest.raises(ForeignFailed, match=sentence) as caught:
        fitted(name)
    assert "\n" not in str(caught.value)
    assert str(REAL) not in str(caught.value)  # the number of rows is private


@pytest.mark.parametrize(
    ("fit", "kind"),
    [
        (
            "print('secret', frame.iloc[0]); sys.stderr.write('secret'); raise ValueError(str(frame.iloc[0]))",
            "ValueError",
        ),
        ("os.write(1, b'secret'); os._exit(7)", "exit status 7"),
        ("os.kill(os.getpid(), 9)", "exit status -9"),
        ("raise type('secret 1 2', (Exception,), {})()", "exit status 1"),
        ("sys.exit(frame.to_string())", "SystemExit"),
    ],
)
def test_nothing_that_a_class_says_of_rows_gets_out(written, capfd, fit, kind):
    name, _ = written(fit=fit)
    with pytest.raises(ForeignFailed, match=rf"Mine failed on a stratum \({kind}\)") as caught:
        fitted(name)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert capfd.readouterr() == ("", "")


def test_what_it_leaves_lies_in_the_folder_that_goes_and_it_sees_no_secret_of_ours(written, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISTRATA_LEDGER_URL", "postgresql://secret@host/ledger")
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    seen = tmp_path / "seen"
    name, _ = written(
        fit="import tempfile; frame.to_csv(tempfile.mkstemp()[1]); frame.to_csv('left.csv'); "
        f"open({str(seen)!r}, 'w').write(json.dumps([dict(os.environ), os.getcwd(), os.stat('.').st_mode & 0o777]))"
    )
    private = tmp_path / "private"
    private.mkdir()
    NamedClass(name).working_in(private).fit_table(table(), Rho(0.5), SeededNoise(0))
    variables, folder, mode = json.loads(seen.read_text())
    assert Path(folder).parent == private
    assert mode == 0o700
    assert list(private.iterdir()) == []
    assert not any(text in variables for text in ("EQUISTRATA_LEDGER_URL", "PREFECT_API_KEY"))


def test_rows_of_a_unit_and_survey_weights_are_refused(written):
    name, told = written()
    weighed = Schema.from_dict({"columns": {"A": {"values": [0, 1]}, "W": {"lower": 0, "upper": 9}}})
    for schema in (replace(SCHEMA, unit=Unit("HOME", at_most=3)), weighed.with_survey_weight("W")):
        codes = np.zeros((9, len(schema.sizes)), dtype=np.uint8)
        with pytest.raises(InputError, match="only protects one row"):
            NamedClass(name).fit_table(CodedTable(codes, schema), HALF, SeededNoise(0))
    with pytest.raises(FileNotFoundError):
        told()


def test_an_empty_stratum_is_fitted_to_one_made_up_row(written):
    name, told = written()
    pool = fitted(name, rows=0).model.pool
    assert told()[0]["rows"] == 1
    assert len(pool) == 10_000


def test_it_is_tried_on_made_up_rows_whose_errors_are_told_in_full(written):
    name, told = written(fit="raise KeyError('domain is what I wanted')")
    with pytest.raises(InputError, match=r"before any real row was read \(KeyError\)") as caught:
        NamedClass(name).try_out(SCHEMA)
    assert "domain is what I wanted" in str(caught.value)
    assert "line " in str(caught.value)  # a line of the traceback
    assert [each["rows"] for each in told()] == [100]


def test_a_class_that_seeds_itself_is_found(written):
    name, _ = written(sample="np.random.seed(0); drawn = frame.iloc[:0].reindex(range(rows)).apply("
                      "lambda column: np.random.randint(0, 2, rows))")  # fmt: skip
    with pytest.raises(InputError, match="drew the same 100 rows twice"):
        NamedClass(name).try_out(SCHEMA)
    honest, _ = written(name="other.py")
    NamedClass(honest).try_out(SCHEMA)


def test_it_is_tried_out_before_a_library_fit(written):
    name, told = written()
    StratifiedSynthesizer(name, ["SEX"], epsilon=1).fit(table())
    assert [each["rows"] for each in told()][:2] == [100, 100]
    assert len(told()) == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", "has no class 'Mine'"),
        ("class Mine:\n    def fit(self, frame): pass", "has no method sample; a synthesizer is a class"),
        ("class Mine:\n    def __init__(self): pass\n    def fit(self, f): pass\n    def sample(self, n): pass",
         "has no parameter epsilon"),
        ("import nothing_of_the_kind", "ModuleNotFoundError"),
        ("print('noise'); raise SystemExit(3)", "SystemExit"),
        ("def Mine(): pass", "has no class 'Mine'"),
    ],
)  # fmt: skip
def test_what_is_no_synthesizer_is_refused_before_anything_is_read(tmp_path, text, sentence):
    path = tmp_path / "mine.py"
    path.write_text(text)
    child.describe.cache_clear()
    with pytest.raises(InputError, match=sentence) as caught:
        mechanism(f"{path}:Mine")
    assert "--synthesizer-python" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_interpreter_that_is_not_there_or_no_python(tmp_path, written):
    name, _ = written()
    with pytest.raises(InputError, match="does not exist; correct --synthesizer-python"):
        mechanism(name, python=str(tmp_path / "none"))
    with pytest.raises(InputError, match="could not load synthesizer"):
        mechanism(name, python="/bin/true")
    with pytest.raises(InputError, match="runs in this Python"):
        mechanism("mst", python=sys.executable)


def test_a_module_is_found_in_the_working_folder_and_on_pythonpath_after_installed_ones(written, tmp_path, monkeypatch):
    written(name="my_synthesizers.py")
    written(name="numpy.py")  # this file does not replace NumPy
    monkeypatch.chdir(tmp_path)
    child.describe.cache_clear()
    assert mechanism("my_synthesizers:Mine").software.startswith("my_synthesizers.py")
    monkeypatch.chdir("/")
    child.describe.cache_clear()
    with pytest.raises(InputError, match="ModuleNotFoundError"):
        mechanism("my_synthesizers:Mine")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert mechanism("my_synthesizers:Mine").name == "Mine"
    NamedClass("my_synthesizers:Mine").fit_table(table(), Rho(0.5), SeededNoise(0))


def test_strata_in_parallel_each_get_the_whole_budget_and_public_weights_hold(written):
    name, told = written(fitted_with=", domain")
    public = PublicWeights({(1,): 0.3, (2,): 0.7}, "file 'w.csv'")
    synthesizer = StratifiedSynthesizer(name, ["SEX"], epsilon=1, delta=1e-6, weights=public).fit(table(4000))
    real = [each for each in told() if each["rows"] > 200]
    assert [(each["epsilon"], each["delta"]) for each in real] == [(0.98, 1e-6)] * 2
    assert all(each["columns"] == ["MAR", "ESR"] for each in real)
    assert synthesizer.rho_ == Promise(0.98, 1e-6, 0.02).rho
    drawn = synthesizer.sample(1000)
    assert (drawn["SEX"] == 1).sum() == 300
    shares = CodedTable.encode(drawn, SCHEMA).marginal(["MAR"]) / 1000
    np.testing.assert_allclose(shares, table(4000).marginal(["MAR"]) / 4000, atol=0.08)


def test_a_promise_that_costs_more_than_is_there_is_refused(written):
    name, told = written()
    own = NamedClass(name).promised(2.0, 1e-6, Rho(0))
    with pytest.raises(BudgetExceeded):
        own.fit_table(table(), Rho(0.5), SeededNoise(0))
    with pytest.raises(FileNotFoundError):
        told()


@pytest.mark.slow
def test_what_it_started_ends_with_it_and_it_ends_with_its_parent(written, tmp_path):
    """The class has started another process, and the parent process is killed."""
    pids = tmp_path / "pids"
    name, _ = written(
        fit="import subprocess, time; other = subprocess.Popen(['sleep', '600']); "
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{other.pid}}'); time.sleep(600)"
    )
    code = (
        "import numpy as np\nfrom equistrata.synth.foreign.named_class import NamedClass\n"
        "from equistrata.data.schema import Schema\nfrom equistrata.data.table import CodedTable\n"
        "from equistrata.privacy.budget import Rho\nfrom equistrata.privacy.noise import SeededNoise\n"
        "schema = Schema.load('acs_employment').select(['SEX', 'MAR'])\n"
        f"NamedClass({name!r}).fit_table(CodedTable(np.zeros((5, 2), np.uint8), schema), Rho(1), SeededNoise(0))"
    )
    for number in (signal.SIGINT, signal.SIGKILL):
        pids.unlink(missing_ok=True)
        environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
        parent = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while not pids.exists() or not pids.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        parent.send_signal(number)
        parent.wait(timeout=60)
        for pid in map(int, pids.read_text().split()):
            while alive(pid):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        left = list((tmp_path / "tmp").iterdir())
        # A killed process removes no files, and the next release removes them.
        assert len(left) == (number == signal.SIGKILL)
        for folder in left:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
