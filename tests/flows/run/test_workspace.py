"""Tests of the private working folder of a release."""

import errno
import fcntl
import os
import platform
import stat
import tempfile
import time

import numpy as np
import pytest

from equistrata.data.schema import Column, Schema
from equistrata.errors import InputError
from equistrata.flows.run import claims
from equistrata.flows.run.claims import LEASE, LOCK
from equistrata.flows.run.workspace import Workspace, private_workspace, remove_dead_workspaces, unit_name
from equistrata.synth.measurements import Measurement
from equistrata.synth.storage import load_measurements

SCHEMA = Schema("two", (Column("x", values=tuple(range(300))), Column("y", values=(1, 2))))


def codes(rows, seed=0):
    return np.random.default_rng(seed).integers(0, [300, 2], (rows, 2)).astype(np.uint16)


def measured(value):
    return [Measurement((), np.array(float(value)), 1.0)]


@pytest.mark.parametrize("parts", [(0,), (0, 0, 3), (5, 0, 1, 0), (99_999, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_table_grows_batch_by_batch(tmp_path, parts, order):
    work, path = Workspace(tmp_path), tmp_path / "table.npy"
    for seed, rows in enumerate(parts):
        work.append(path, np.array(codes(rows, seed), order=order))
        assert len(np.load(path)) == sum(parts[: seed + 1])  # the file is valid after each batch
    table = work.load_table(path, SCHEMA)
    assert np.array_equal(table.codes, np.concatenate([codes(rows, seed) for seed, rows in enumerate(parts)]))
    assert table.codes.dtype == np.uint16
    assert isinstance(table.codes, np.memmap)


def test_values_grow_too(tmp_path):
    work, path = Workspace(tmp_path), tmp_path / "values.npy"
    for part in ([1.5, np.inf], [], [-2.0]):
        work.append(path, np.array(part, dtype=float))
    assert work.load(path).tolist() == [1.5, np.inf, -2.0]


def test_the_first_to_save_measurements_wins(tmp_path):
    work = Workspace(tmp_path)
    work.keep_fit(3, measured(1))
    work.keep_fit(3, measured(2))
    assert load_measurements(work.measurements(3))[0].values == 1
    assert [path.name for path in tmp_path.iterdir()] == ["fit_3"]


def test_measurements_that_cannot_be_saved_are_an_error(tmp_path):
    work = Workspace(tmp_path)
    work.fit(3).write_text("in the way")
    with pytest.raises(OSError):
        work.keep_fit(3, measured(1))


def test_starts_are_counted(tmp_path):
    work = Workspace(tmp_path)
    assert [work.count_start(0), work.count_start(1), work.count_start(0), work.count_start(0)] == [1, 1, 2, 3]
    resumed = Workspace(tmp_path, run=2)
    assert [resumed.count_start(0), resumed.starts(0)] == [1, ["1", "1", "1", "2"]]
    assert resumed.starts(7) == []


@pytest.mark.parametrize("fails", [False, True])
def test_the_folder_is_private_and_goes_however_the_run_ends(tmp_path, fails):
    def run():
        with private_workspace(str(tmp_path)) as work:
            work.append(work.stratum(0), codes(5))
            assert stat.S_IMODE(work.root.stat().st_mode) == 0o700
            assert work.root.parent == tmp_path
            if fails:
                raise KeyError("fault")

    if fails:
        with pytest.raises(KeyError):
            run()
    else:
        run()
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_folder_that_is_not_there_is_named(tmp_path):
    with (
        pytest.raises(InputError, match=r"private working folder cannot be made in '.*nowhere'"),
        private_workspace(str(tmp_path / "nowhere")),
    ):
        pass


def test_what_a_killed_run_left_in_the_scratch_folder_is_removed_unless_another_machine_may_hold_it(tmp_path):
    """The folder can be used by several machines, but the locks are only valid on one of them.

    A folder of another machine is not removed before the end of the lease.
    """
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with private_workspace(str(scratch)) as work:
        ours, now = work.root, time.time()
        dead, elsewhere, silent = (ours.with_name(f"{ours.name}-{name}") for name in ("dead", "elsewhere", "silent"))
        for folder, kernel, age in (
            (dead, None, 0),
            (elsewhere, b"another", LEASE - 60),
            (silent, b"another", LEASE + 1),
        ):
            folder.mkdir()
            (folder / "stratum0.npy").touch()
            (folder / LOCK).write_bytes((ours / LOCK).read_bytes() if kernel is None else kernel)
            os.utime(folder / LOCK, (now - age, now - age))
        with private_workspace(str(scratch)):
            assert not dead.exists()
            assert not silent.exists()
            assert ours.exists(), "its run is alive"
        assert elsewhere.exists()


def test_a_living_run_renews_its_lease(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.01)
    with private_workspace(str(tmp_path)) as work:
        os.utime(work.root / LOCK, (0, 0))
        deadline = time.monotonic() + 30
        while (work.root / LOCK).stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_the_next_run_finds_what_was_left_in_a_scratch_folder_that_it_does_not_name(tmp_path, racers, monkeypatch):
    """The path of the rows is in the state folder, so it does not depend on the scratch folder, the temporary folder or
    the host name.
    """
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    scratch, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    for folder in (scratch, elsewhere):
        folder.mkdir()
    assert racers("workspace", scratch) == 9
    assert len(list(scratch.glob("*/stratum0.npy"))) == 1
    monkeypatch.setattr(platform, "node", lambda: "another-name")
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    remove_dead_workspaces()
    assert list(scratch.iterdir()) == list((tmp_path / "state").iterdir()) == []


def test_a_scratch_folder_without_locks_is_refused(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(InputError, match="without file locks"), private_workspace(str(tmp_path)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_was_paid_for_lies_apart_from_the_rows(tmp_path):
    (tmp_path / "kept").mkdir()
    with private_workspace(str(tmp_path), tmp_path / "kept", run=3, units=("men",)) as work:
        work.count_start(0)
        work.keep_fit(0, measured(1))
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"started_men", "fit_men"}


def test_what_is_kept_is_filed_by_what_it_is_and_not_by_where_it_stands(tmp_path):
    men, women = (unit_name(["SEX"], [value]) for value in (1, 2))
    first = Workspace(tmp_path / "rows", tmp_path, 1, (men, women))
    assert first.count_start(0) == 1
    first.keep_fit(0, measured(1))
    turned = Workspace(tmp_path / "rows", tmp_path, 2, (women, men))
    assert [turned.measurements(position).exists() for position in range(2)] == [False, True]
    assert [turned.starts(position) for position in range(2)] == [[], ["1"]]
    with pytest.raises(ValueError, match="named after its units"):
        Workspace(tmp_path / "rows", tmp_path)


def test_units_that_differ_have_names_that_differ():
    keys = [(["A"], [1]), (["A"], ["1"]), (["A"], ["a"]), (["A"], ["\u00c4/.."]), (["A", "B"], [1, 1]), (["B"], [1])]
    keys += [(["A", "B"], ["x,B=y", "z"]), (["A", "B"], ["x", "y,B=z"])]  # these keys have the same label
    names = {unit_name(*key) for key in keys}
    assert len({name.lower() for name in names}) == len(keys)
    assert all(name.isalnum() for name in names)
