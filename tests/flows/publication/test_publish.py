"""Tests of `equistrata publish`, which copies the files in the manifest or makes nothing."""

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from in_process import command
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release

from equistrata.data.texts.manifest import check_manifest, listed, write_manifest
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.publication import publish
from equistrata.flows.publication.publish import publish_release
from equistrata.flows.run.journal import Journal

PRICE = {"epsilon": 1.0, "delta": 1e-9, "rho": 0.01}
CHARGED = {
    "dataset": "people", "release_id": "monthly", "ledger": "it", "head": f"2:{'0' * 64}", "epsilon": 1.0, "rho": 0.01,
    "charges": [], "budget": PRICE, "left": PRICE,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("made")
    made_up_people(500).to_csv(home / "people.csv", index=False)
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    settings = {
        "source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"), "columns": "SEX,JOB",
        "workers": 1,
    }  # fmt: skip
    release(settings | {"output": str(home / "out")})
    release(settings | {"output": str(home / "seeded"), "seed": 1, "evaluate": "none"})
    return home


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "made")
    monkeypatch.chdir(tmp_path / "made")
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    return tmp_path / "made"


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def rewritten(folder, name, change):
    """Edit a file of a release and the entry of this file in the manifest."""
    document = json.loads((folder / name).read_text("utf-8"))
    change(document)
    (folder / name).write_text(json.dumps(document))
    names = set(listed(folder, "it"))
    shutil.copytree(
        folder, folder.parent / "again", ignore=lambda at, found: [n for n in found if n == "manifest.json"]
    )
    write_manifest(folder.parent / "again")
    assert set(listed(folder.parent / "again", "it")) == names
    shutil.copy(folder.parent / "again" / "manifest.json", folder / "manifest.json")
    shutil.rmtree(folder.parent / "again")


def left(place):
    """Return the names of the files that a publication has left in this folder."""
    return [path.name for path in place.iterdir() if path.name.startswith(".") or "public" in path.name]


def test_a_folder_holds_what_the_manifest_lists_and_nothing_else(place):
    release_folder = place / "out"
    (release_folder / "internal").mkdir()  # version 0.1 made this folder
    (release_folder / "internal" / "scores.json").write_text('{"exact": 0.123}')
    (release_folder / "notes.txt").write_text("1357 rows")
    made = publish_release(release_folder, place / "public")
    found = files(place / "public")
    assert set(found) == {*listed(release_folder, "it"), "manifest.json"}
    assert all((release_folder / name).read_bytes() == content for name, content in found.items())
    assert made.manifest == check_manifest(place / "public") == check_manifest(release_folder)
    assert made.files == len(found)
    assert left(place) == ["public"]
    assert stat.S_IMODE((place / "public").stat().st_mode) == 0o755
    assert (
        publish_release(place / "public", place / "public2").manifest == made.manifest
    )  # a copy can be published again


def test_a_zip_is_the_same_each_time_and_holds_the_same(place):
    publish_release(place / "out", place / "public.zip")
    os.utime(place / "out" / "card.md", (0, 0))
    (place / "out" / "card.md").chmod(0o600)
    shutil.copytree(place / "out", place / "elsewhere")
    publish_release(place / "elsewhere", place / "public2.ZIP")
    assert (place / "public.zip").read_bytes() == (place / "public2.ZIP").read_bytes()
    with zipfile.ZipFile(place / "public.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted([*listed(place / "out", "it"), "manifest.json"])
        archive.extractall(place / "public")
        assert {(about.date_time, about.external_attr >> 16, about.extra) for about in archive.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), 0o100644, b"")
        }
    assert check_manifest(place / "public") == check_manifest(place / "out")
    assert sorted(left(place)) == ["public", "public.zip", "public2.ZIP"]


def damaged(folder, kind):
    """Damage a release and return a pattern of the expected message."""
    if kind == "edited":
        content = bytearray((folder / "synthetic.csv").read_bytes())
        content[-2] ^= 1
        (folder / "synthetic.csv").write_bytes(bytes(content))
    elif kind == "longer":
        with (folder / "schema.json").open("a") as file:
            file.write("\n")
    elif kind == "cut off":
        os.truncate(folder / "synthetic.parquet", 100)
    elif kind == "lacks":
        (folder / "card.md").unlink()
    elif kind == "no manifest":
        (folder / "manifest.json").unlink()
    elif kind == "manifest cut":
        os.truncate(folder / "manifest.json", 100)
    elif kind == "card edited":
        text = (folder / "card.json").read_text("utf-8")
        (folder / "card.json").write_text(text.replace('"private": true', '"private": True'), "utf-8")
    elif kind == "link":
        shutil.copy(folder / "card.md", folder.parent / "private.md")
        (folder / "card.md").unlink()
        (folder / "card.md").symlink_to(folder.parent / "private.md")
    elif kind == "folder link":
        (folder / "measurements").rename(folder.parent / "elsewhere")
        (folder / "measurements").symlink_to(folder.parent / "elsewhere")
    elif kind == "manifest link":
        (folder / "manifest.json").rename(folder.parent / "manifest.json")
        (folder / "manifest.json").symlink_to(folder.parent / "manifest.json")
    elif kind == "pipe":
        (folder / "card.md").unlink()
        os.mkfifo(folder / "card.md")
    elif kind == "folder":
        (folder / "card.md").unlink()
        (folder / "card.md").mkdir()
    return {
        "edited": "'synthetic.csv' .* was edited", "longer": "'schema.json' .* was edited",
        "cut off": "'synthetic.parquet' .* is cut off", "lacks": "lacks its file 'card.md'",
        "no manifest": "lacks its file 'manifest.json'", "manifest cut": "manifest.json .* is damaged",
        "card edited": "'card.json' .* was edited", "link": "'card.md' .* a link",
        "folder link": "'measurements/.* a link", "manifest link": "'manifest.json' .* a link",
        "pipe": "'card.md' .* is not a regular file",
        "folder": "'card.md' .* is not a regular file",
    }[kind]  # fmt: skip


KINDS = (
    "edited", "longer", "cut off", "lacks", "no manifest", "manifest cut", "card edited", "link", "folder link",
    "manifest link", "pipe", "folder",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_whole_is_refused_and_leaves_nothing(place, kind):
    sentence = damaged(place / "out", kind)
    for destination in ("public", "public.zip"):
        with pytest.raises(InputError, match=sentence):
            publish_release(place / "out", place / destination)
    assert left(place) == []


def test_a_seeded_release_is_refused(place):
    with pytest.raises(InputError, match=r"'.*seeded' was made with a seeded noise source"):
        publish_release(place / "seeded", place / "public")
    assert left(place) == []


@pytest.mark.parametrize(
    "name",
    [
        "../people.csv",
        "/etc/hostname",
        "measurements/../../people.csv",
        "./card.md",
        "",
        ".",
        "measurements/a\0b",
        "measurements/\ud800",
    ],
)
def test_a_manifest_that_leads_out_is_refused(place, name):
    path = place / "out" / "manifest.json"
    document = json.loads(path.read_text())
    document["files"][name] = {"bytes": 1, "sha256": "0"}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"manifest.json .* (is damaged|is not UTF-8 text)"):
        publish_release(place / "out", place / "public")
    assert left(place) == []


@pytest.mark.parametrize("name", ["means.json", "series.json", "measurements/more.json"])
def test_a_file_of_a_release_s_own_that_is_not_listed_is_refused(place, name):
    """A reader would use this file as a part of the release."""
    (place / "out" / name).write_text("{}")
    with pytest.raises(InputError, match=rf"has a file '{name}' that its manifest does not list"):
        check_manifest(place / "out")


def test_documents_that_python_cannot_read_are_a_sentence(place):
    (place / "out" / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"manifest.json .* is nested more than 20 levels deep"):
        publish_release(place / "out", place / "public")


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"private": true, "ledger": null, "name": "x", "guarantee": {"epsilon": "1"}}']
)
def test_a_card_that_is_none_is_a_sentence(place, content):
    (place / "out" / "card.json").write_text(content)
    write_manifest(place / "out")
    with pytest.raises(InputError, match=r"card.json of release .*(is nested more than 20 levels|lacks|which is no)"):
        publish_release(place / "out", place / "public")
    assert left(place) == []


def test_what_the_card_does_not_account_for_is_refused(place):
    """In the first case the manifest lists exact results, and in the second case the files of an audit are missing."""
    (place / "out" / "internal").mkdir()
    (place / "out" / "internal" / "scores.json").write_text("{}")
    write_manifest(place / "out")
    with pytest.raises(InputError, match=r"does not account for 'internal/scores.json'"):
        publish_release(place / "out", place / "public")
    shutil.rmtree(place / "out" / "internal")
    write_manifest(place / "out")
    audit = {"folder": "audit", "report": "aa", "rho": 0.1, "epsilon": 1.0, "delta": 1e-9, "made": "", "private": True}
    audit |= {"charged_as": "", "compared": []}
    rewritten(place / "out", "card.json", lambda card: card.update(audits=[audit]))
    with pytest.raises(InputError, match="does not account for 'audit'"):
        publish_release(place / "out", place / "public")
    assert left(place) == []


@pytest.mark.parametrize(
    ("destination", "sentence"),
    [
        ("out", "exists already"),
        ("people.csv", "exists already"),
        ("dangling", "exists already"),
        ("dangling.zip", "exists already"),
        (".", "exists already"),
        ("nowhere/public", "is not a folder in which you may write"),
        ("people.csv/public", "is not a folder in which you may write"),
        ("out/public", "is inside the release"),
        ("x" * 300, "file name too long"),
        ("x" * 300 + ".zip", "file name too long"),
        ("a\0b", "NUL"),
    ],
)
def test_a_destination_that_cannot_be_made(place, destination, sentence):
    for name in ("dangling", "dangling.zip"):
        (place / name).symlink_to(place / "not there")
    before = sorted(place.rglob("*"))
    with pytest.raises(InputError, match=sentence):
        publish_release(place / "out", type(place)(destination))
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("destination", ["public", "public.zip"])
def test_of_many_at_once_one_publishes(place, destination):
    def one(_):
        try:
            return publish_release(place / "out", place / destination)
        except InputError as error:
            return str(error)

    with ThreadPoolExecutor(6) as pool:
        told = [str(each) for each in pool.map(one, range(6))]
    assert sum("exists already" in each for each in told) == 5, told
    assert left(place) == [destination]


KILLED = """
import os, sys
from pathlib import Path
from equistrata.flows.publication import publish
publish.rename_to_new = lambda *_: os._exit(9)
publish.publish_release(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("destination", ["public", "public.zip"])
def test_a_killed_one_leaves_no_half_and_the_next_one_removes_its_traces(place, destination):
    """The command is run in a new process, because a fork is not allowed if JAX is already imported."""
    killed = subprocess.run([sys.executable, "-c", KILLED, place / "out", place / destination], check=False)
    assert killed.returncode == 9
    assert len(left(place)) == 1
    assert left(place)[0].startswith(".equistrata-publish-")
    publish_release(place / "out", place / destination)
    assert left(place) == [destination]


def test_a_release_that_changes_while_it_is_copied_is_refused(place, monkeypatch):
    real = publish._checked_card

    def slow(*args):
        card = real(*args)
        (place / "out" / "card.json").write_text((place / "out" / "card.json").read_text().replace(": 0", ": 1"))
        return card

    monkeypatch.setattr(publish, "_checked_card", slow)
    with pytest.raises(InputError, match=r"'card.json' .* was edited"):
        publish_release(place / "out", place / "public")
    assert left(place) == []


def test_a_full_disk_is_told(place, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publish, "sync_tree", full)
    with pytest.raises(InputError, match=r"no space left on device.*nothing was published"):
        publish_release(place / "out", place / "public")
    assert left(place) == []


def test_a_charged_release_whose_ledger_was_not_told_is_refused(place, monkeypatch):
    rewritten(place / "out", "card.json", lambda card: card.update(ledger=CHARGED))
    config = ReleaseConfig.build(dataset="people", release_id="monthly", output=str(place / "out"))
    journal = Journal.open(config, "ledger")
    with pytest.raises(InputError, match="run equistrata resume monthly first"):
        publish_release(place / "out", place / "public")
    journal.remove()
    publish_release(place / "out", place / "public")


def test_the_command_says_what_was_published_and_its_price(place, monkeypatch, capsys):
    code, out, err = command(monkeypatch, capsys, "publish", "out", "public.zip")
    assert code == 0, err
    guarantee = json.loads((place / "out" / "card.json").read_text())["guarantee"]
    assert "published public.zip" in out
    assert f"ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g} (ρ = {guarantee['rho']:.6g})" in out
    assert check_manifest(place / "out") in out
    code, out, err = command(monkeypatch, capsys, "publish", "seeded", "public2.zip")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("error: release 'seeded' was made with a seeded")
    code, out, err = command(monkeypatch, capsys, "publish", "nothing", "public2")
    assert (code, out, err) == (2, "", "error: release 'nothing' is not a folder; check the path\n")
