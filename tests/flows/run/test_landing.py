"""Tests of the output folders. An output folder is made by a single process, and it is complete or does not exist.

Any reason that prevents an output is reported before the charge.
"""

import errno
import os
import resource
import shutil
import stat
from pathlib import Path

import pytest

from equistrata.errors import InputError
from equistrata.flows.run import landing
from equistrata.flows.run.claims import LOCK
from equistrata.flows.run.disk import DiskFull
from equistrata.flows.run.landing import check_output, claimed_output, land, rename_to_new
from equistrata.flows.run.workspace import Workspace, private_workspace, remove_dead_workspaces


@pytest.fixture
def work(tmp_path):
    """Return a working folder with staged files, of which one folder is private."""
    made = Workspace(tmp_path / "work")
    (made.staging / "internal").mkdir(parents=True)
    (made.staging / "internal").chmod(0o700)
    for name in ("card.json", "internal/scores.json"):
        (made.staging / name).write_text(name)
    return made


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return an empty working folder for outputs, with a separate state folder."""
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    return made


def race(racers, folder, number, deadly):
    races = [racers("race", folder / f"race{i}", deadly=deadly, seed=i) for i in range(number)]
    for each in races:
        assert each["files"] in (0, 12), each
        assert len(each["owners"]) == bool(each["files"]) == each["there"], each
        winners = [str(runner) for runner, code in enumerate(each["codes"]) if code == 0]
        assert winners in ([], each["owners"]), each
        assert set(each["codes"]) <= {0, 2, -9}, each
        # A process that is killed may have printed its message before
        refused, killed = map(each["codes"].count, (2, -9))
        assert refused <= len(each["sentences"]) <= refused + killed, each
        assert all("choose another --output" in sentence for sentence in each["sentences"]), each
        assert not any("in the way" in sentence for sentence in each["sentences"]), each
        assert each["beside"] == [], each
    return races


def test_of_those_who_race_for_one_output_one_wins_and_the_others_are_told(home, racers):
    races = race(racers, home, 8, deadly=False)
    assert all(sorted(each["codes"]) == [0, 2, 2, 2] for each in races)


def test_a_race_in_which_some_are_stopped_or_killed_ends_whole_or_with_nothing(home, racers):
    race(racers, home, 8, deadly=True)


@pytest.mark.slow
def test_many_races(home, racers):
    races = race(racers, home, 80, deadly=True)
    assert any(-9 in each["codes"] and 0 in each["codes"] for each in races)


@pytest.mark.parametrize("spelling", ["out", "./out/", "link/out", "sub/../out", "absolute"])
def test_a_place_that_is_held_is_not_had_under_another_spelling_or_state_folder(home, monkeypatch, tmp_path, spelling):
    (home / "sub").mkdir()
    (home / "link").symlink_to(home)
    output = home / "out" if spelling == "absolute" else Path(spelling)
    with claimed_output(Path("out")):
        monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "other-state"))
        with pytest.raises(InputError, match="another run is making output folder"), claimed_output(output):
            pass
    with claimed_output(output):
        pass
    assert sorted(os.listdir(home)) == ["link", "sub"]


def test_who_does_not_land_leaves_nothing(home):
    with claimed_output(Path("a/b/out")) as place:
        assert place == home / "a" / "b" / ".out.part"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert list(home.iterdir()) == []
    assert list((home.parent / "state").iterdir()) == []


def test_what_is_landed_is_whole_and_keeps_its_modes(home, work):
    with claimed_output(Path("a/out")) as place:
        assert land(Workspace(work.root, landing=place), Path("a/out"), mode=0o755) == Path("a/out")
    assert (home / "a/out/internal/scores.json").read_text() == "internal/scores.json"
    assert [stat.S_IMODE((home / name).stat().st_mode) for name in ("a/out", "a/out/internal")] == [0o755, 0o700]
    assert os.listdir(home / "a") == ["out"]
    with pytest.raises(InputError, match="exists already"):
        land(work, Path("a/out"))


@pytest.mark.parametrize("length", [200, 251, 255])
def test_a_long_name_is_no_hindrance(home, work, length):
    land(work, Path("x" * length))
    assert os.listdir(home) == ["x" * length]


UNUSABLE = {
    "x" * 256: "too long",
    "ü" * 150: "too long",
    "new/" + "x" * 300: "too long",
    "x" * 300 + "/out": "too long",
    "/".join(["x" * 250] * 15): "too long",
    "/proc/x": "cannot be made in '/proc'",
    "dangling": "is a link that leads nowhere",
    "dangling/out": "cannot be made",
    "file/out": "cannot be made in '.*/file'",
    "loop/out": "cannot be made",
    "a\0b": "cannot be made",
    "new/..": "exists already",
    "..": "exists already",
    ".": "exists already",
    "mine": "'.*/.mine.part' is in the way",
}


@pytest.mark.parametrize("output", UNUSABLE, ids=lambda name: name.replace("\0", "0")[:12])
def test_where_nothing_can_land_is_said_at_once_and_leaves_nothing(home, output):
    (home / "dangling").symlink_to(home / "nowhere")
    (home / "loop").symlink_to(home / "loop")
    (home / "file").write_text("a file")
    (home / ".mine.part").mkdir()
    (home / ".mine.part" / "thesis").write_text("not ours")
    before = sorted(path.name for path in home.rglob("*"))

    def refused():
        check_output(Path(output))
        with claimed_output(Path(output)):
            check_output(Path(output))

    with pytest.raises(InputError, match=UNUSABLE[output]) as told:
        refused()
    assert len(str(told.value)) < 600
    assert sorted(path.name for path in home.rglob("*")) == before


def test_a_folder_that_cannot_be_written_is_said_at_once(home, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="cannot be made in"):
        check_output(Path("out"))


def test_what_was_made_meanwhile_is_not_replaced(home, work):
    with claimed_output(Path("out")) as place:
        (home / "out").mkdir()  # rename(2) would replace an empty folder
        with pytest.raises(InputError, match="exists already"):
            land(Workspace(work.root, landing=place), Path("out"))
    assert [path.name for path in home.rglob("*")] == ["out"]


@pytest.mark.parametrize("number", [0, errno.ENOSYS, errno.EINVAL])
@pytest.mark.parametrize("there", ["folder", "file", "link", "nothing"])
def test_a_rename_replaces_nothing(home, monkeypatch, number, there):
    """This is also tested for systems without this system call."""
    if number:
        monkeypatch.setattr(landing, "_rename_exclusively", lambda *_: number)
    (home / "made").mkdir()
    (home / "made" / "card.json").touch()
    target = home / "target"
    {"folder": target.mkdir, "file": target.touch, "link": lambda: target.symlink_to("nowhere"), "nothing": str}[
        there
    ]()
    if there == "nothing":
        rename_to_new(home / "made", target)
        assert (target / "card.json").exists()
        return
    with pytest.raises(FileExistsError):
        rename_to_new(home / "made", target)
    assert (home / "made" / "card.json").exists()
    assert not (target / "card.json").exists()


def test_a_rename_that_fails_leaves_the_name_free(home, monkeypatch):
    monkeypatch.setattr(landing, "_rename_exclusively", lambda *_: errno.ENOSYS)
    with pytest.raises(FileNotFoundError):
        rename_to_new(home / "not there", home / "target")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("when", ["claim", "land"])
def test_a_full_disk_is_called_that(home, work, monkeypatch, when):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def no_space(*_):
        raise full

    monkeypatch.setattr(*{"claim": (os, "fsync", no_space), "land": (shutil, "copyfile", no_space)}[when])
    with pytest.raises(DiskFull, match=f"no space is left on the disk of '{home}"):
        land(work, Path("new/out"))
    monkeypatch.undo()
    assert list(home.iterdir()) == []


def test_a_limit_on_the_size_of_files_is_called_that(home, work):
    """The message used to recommend another --output, which does not help in this case."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))  # enough for a lock
    try:
        with pytest.raises(DiskFull, match=r"larger than files may be .* raise that limit \(ulimit -f\)"):
            land(work, Path("out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(home.iterdir()) == []


def test_what_a_killed_run_left_half_made_goes_with_the_next_run(home, racers):
    assert racers("claim", home / "new" / "out") == 9
    assert (home / "new/.out.part/half/synthetic.csv").exists()
    remove_dead_workspaces()
    assert [path.name for path in home.rglob("*")] == ["new"]
    assert list((home.parent / "state").iterdir()) == []


def test_the_place_of_a_killed_run_is_free_for_one_that_knows_nothing_of_it(home, racers, monkeypatch):
    assert racers("claim", home / "out") == 9
    with monkeypatch.context() as patch:
        patch.setenv("EQUISTRATA_STATE", str(home.parent / "other-state"))
        with claimed_output(home / "out") as place:
            assert os.listdir(place) == [".lock"]
    assert list(home.iterdir()) == []
    remove_dead_workspaces()
    assert list((home.parent / "state").iterdir()) == []


def test_the_place_of_a_living_run_is_left_alone(home):
    with claimed_output(Path("out")) as place, private_workspace(landing=place):
        (place / "half").touch()
        remove_dead_workspaces()
        assert (place / "half").exists()


def test_a_folder_out_of_sight_is_not_taken_for_gone(home, racers):
    """In a container, another disk may be mounted at the same path."""
    assert racers("workspace", home) == 9
    home.rename(home.with_name("unmounted"))
    home.mkdir()
    remove_dead_workspaces()
    assert len(list((home.parent / "state").iterdir())) == 1
    home.rmdir()
    home.with_name("unmounted").rename(home)
    remove_dead_workspaces()
    assert list(home.iterdir()) == list((home.parent / "state").iterdir()) == []


def test_a_folder_that_another_run_makes_is_not_made_as_a_parent(tmp_path):
    """Otherwise the other run would be charged without an output."""
    with claimed_output(tmp_path / "out"):
        for inner in ("out/sub", "out/more/sub"):
            with (
                pytest.raises(InputError, match=r"another run is making output folder '.*/out'"),
                claimed_output(tmp_path / inner),
            ):
                pass
        assert os.listdir(tmp_path) == [".out.part"]
    with claimed_output(tmp_path / "out" / "sub"):
        assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path) == []
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part" / LOCK).touch()  # the run of this lock is dead
    with claimed_output(tmp_path / "out" / "sub"):
        assert os.listdir(tmp_path) == ["out"]
