"""Tests of a public audit that is added to the folder of a release.

The price is the total of all parts. If the process is killed, the folder has either the old files or the new files.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from unittest import mock

import pytest
from plain_release import release

from equistrata.data.texts.manifest import NEXT, check_manifest, listed
from equistrata.errors import InputError
from equistrata.flows.publication import addition
from equistrata.flows.publication.addition import add, finish_addition
from equistrata.flows.publication.audited_card import (
    AddedAudit,
    audits_of,
    identity_of,
    own_price,
    prices,
    unaccounted,
    with_audit,
)
from equistrata.flows.publication.publish import publish_release
from equistrata.privacy.budget import Rho

OTHER = {"name": "MST_vanilla", "identity": "aa", "rho": 0.0025, "private": True, "caveats": ("it is weaker",)}


def audit_of(folder, report="bb", rho=0.01, compared=(), **changes):
    settings = {"made": "2026-11-22", "epsilon": 0.8, "delta": 1e-6, "charged_as": "", "private": True} | changes
    return AddedAudit(folder=folder, report=report, rho=rho, compared=tuple(compared), **settings)


def priced(card, name, **changes):
    return with_audit(card, audit_of(name, report=f"sha of {name}", **changes))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a small release and a report that can be added to the release."""
    home = tmp_path_factory.mktemp("made")
    from made_up_people import PEOPLE_SCHEMA, made_up_people

    made_up_people(500).to_csv(home / "people.csv", index=False)
    (home / "people.yaml").write_text(PEOPLE_SCHEMA)
    release(
        {
            "source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"),
            "columns": "SEX,JOB", "workers": 1, "evaluate": "none", "output": str(home / "out"),
        }
    )  # fmt: skip
    (home / "report" / "tables").mkdir(parents=True)
    (home / "report" / "audit.json").write_text("{}")
    (home / "report" / "tables" / "sizes.csv").write_text("group,size\n")
    return home


@pytest.fixture
def place(made, tmp_path):
    """Return the release and the report in a copy of the folder."""
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made" / "out", tmp_path / "made" / "report"


def card_of(folder):
    return json.loads((folder / "card.json").read_text("utf-8"))


def everything(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_price_on_the_card_is_the_sum_of_all_that_the_manifest_lists(place):
    folder, report = place
    own = card_of(folder)["guarantee"]
    identity = identity_of(listed(folder, "it"))
    for number, name in enumerate(("audit", "audit-2"), start=1):
        assert add(folder, "audit", report, priced) == folder / name
        card = card_of(folder)
        guarantee = card["guarantee"]
        total = Rho(own["rho"]) + Rho(0.01) * number
        assert guarantee["rho"] == float(total)
        assert total.epsilon(own["delta"]) <= guarantee["epsilon"] < total.epsilon(own["delta"]) * 1.0002
        assert float(f"{guarantee['epsilon']:g}") == guarantee["epsilon"], "as it is printed it is not lower"
        assert (guarantee["delta"], dict(own_price(card))) == (
            own["delta"],
            {k: own[k] for k in ("epsilon", "delta", "rho")},
        )
        assert sum(guarantee["split_of_rho"].values()) == pytest.approx(guarantee["rho"])
        assert [each["folder"] for each in audits_of(card)] == ["audit", "audit-2"][:number]
        assert card["groups"][0]["rho"] == guarantee["rho"]
        page = (folder / "card.md").read_text("utf-8")
        assert f"**ε = {guarantee['epsilon']:g}, δ" in page
        assert f"- `{name}/`: ε = 0.8, δ = 1e-06, ρ = 0.01, charged to no ledger." in page
        check_manifest(folder)
        files = listed(folder, "it")
        assert {f"{name}/audit.json", f"{name}/tables/sizes.csv", "synthetic.csv", "card.json"} <= files.keys()
        assert set(everything(folder)) == {*files, "manifest.json"}
        assert unaccounted(card, files) == []
        assert identity_of(files) == identity, "what is added does not make it another release"


def test_a_release_that_is_compared_is_paid_for_once(place):
    folder, report = place
    own = Rho(card_of(folder)["guarantee"]["rho"])
    add(folder, "comparison", report, lambda card, name: priced(card, name, compared=[OTHER]))
    add(folder, "comparison", report, lambda card, name: priced(card, name, compared=[OTHER]))
    card = card_of(folder)
    assert card["guarantee"]["rho"] == float(own + Rho(0.01) + Rho(0.01) + Rho(0.0025))
    assert sum(card["guarantee"]["split_of_rho"].values()) == pytest.approx(card["guarantee"]["rho"])
    parts = prices(card, "me") | prices(card, "me")  # two copies still count each part once
    assert sum(parts.values(), start=Rho(0)) == own + Rho(0.01) + Rho(0.01) + Rho(0.0025)
    page = (folder / "card.md").read_text("utf-8")
    assert "It also shows MST_vanilla: ρ = 0.0025, counted once." in page
    assert "MST_vanilla: it is weaker" in page
    assert "The guarantee is weaker" not in page, "the release itself is no foreign one"


@pytest.mark.parametrize("changes", [{"private": False}, {"compared": [OTHER | {"identity": "cc", "private": False}]}])
def test_what_is_seeded_makes_the_whole_not_private(place, changes):
    assert with_audit(card_of(place[0]), audit_of("audit", **changes))["private"] is False


def test_a_sum_that_is_no_price_any_more_is_refused(place):
    with pytest.raises(InputError, match="no longer have an ε at δ"):
        with_audit(card_of(place[0]), audit_of("audit", rho=1e6))


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = [".", "tests", "tests/flows/publication"]
from equistrata.flows.publication import addition
from test_addition import priced

folder, report, call, number = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
real, calls = getattr(os, call), []
def deadly(*args, **kwargs):
    calls.append(None)
    if len(calls) == number:
        os._exit(9)
    return real(*args, **kwargs)
setattr(os, call, deadly)
addition.add(folder, "audit", report, priced)
"""


class Killed(BaseException):
    """An exception that simulates a kill. After this exception, the disk cannot be changed (see `dying`)."""


def dying(number):
    """Count every call that changes the disk, and disable these calls from the given number on."""
    calls = []

    def deadly(real):
        def call(*args, **kwargs):
            calls.append(real)
            if len(calls) >= number:
                raise Killed
            return real(*args, **kwargs)

        return call

    names = ("rename", "rmdir", "unlink", "mkdir", "chmod")
    patches = mock.patch.multiple(os, **{name: deadly(getattr(os, name)) for name in names})
    return patches, calls


def test_a_kill_at_any_moment_leaves_the_old_set_or_the_new_and_the_next_one_ends_it(place, tmp_path):
    folder, report = place
    old = everything(folder)
    outcomes = []
    for number in range(1, 200):
        here = tmp_path / f"try{number}"
        shutil.copytree(folder, here)
        patches, calls = dying(number)
        with patches, suppress(Killed, InputError):
            add(here, "audit", report, priced)
        ended = len(calls) < number
        digest = check_manifest(here)
        published = tmp_path / f"published{number}"
        publish_release(here, published)  # this completes an addition that was interrupted
        assert check_manifest(published) == check_manifest(here) != ""
        seen = everything(published)
        new = "audit/audit.json" in seen
        card = card_of(published)
        assert [each["folder"] for each in audits_of(card)] == ["audit"] * new
        assert new or seen == old
        assert set(seen) == {*listed(published, "it"), "manifest.json"}
        assert not (here / NEXT).exists()
        assert digest in (check_manifest(here), check_manifest(folder))
        outcomes.append(new)
        if ended:
            break
        assert add(here, "audit", report, priced).name == ("audit-2" if new else "audit")
        left = {path.split("/")[0] for path in everything(here)} - {name.split("/")[0] for name in listed(here, "it")}
        assert left <= {"manifest.json"}, "what was left half made is gone"
    assert ended
    assert outcomes == sorted(outcomes), "first the old set, then the new"
    assert outcomes.count(False) > 5
    assert outcomes.count(True) > 5


def test_the_next_addition_ends_what_a_killed_one_began(place, tmp_path):
    folder, report = place
    for number in range(1, 50):
        here = tmp_path / f"try{number}"
        shutil.copytree(folder, here)
        patches, _ = dying(number)
        with patches, suppress(Killed, InputError):
            add(here, "audit", report, priced)
        if (here / NEXT / "audit").exists():
            break
    assert (here / NEXT).is_dir()
    assert add(here, "audit", report, priced) == here / "audit-2"
    assert [each["folder"] for each in audits_of(card_of(here))] == ["audit", "audit-2"]
    assert {"audit/audit.json", "audit-2/audit.json"} <= listed(here, "it").keys()


@pytest.mark.slow
@pytest.mark.parametrize(("call", "number"), [("rename", 1), ("rename", 2), ("rename", 4), ("rename", 5), ("fsync", 3)])
def test_a_process_that_is_gone_leaves_the_old_set_or_the_new(place, repo_root, call, number):
    folder, report = place
    program = [sys.executable, "-c", KILLED, str(folder), str(report), call, str(number)]
    killed = subprocess.run(program, cwd=repo_root, capture_output=True, text=True, check=False)
    assert killed.returncode == 9, killed.stderr
    check_manifest(folder)
    finish_addition(folder)
    add(folder, "audit", report, priced)
    check_manifest(folder)
    assert len(audits_of(card_of(folder))) == 1 + (call == "rename" and number > 1)


def test_two_at_once_are_added_one_after_the_other(place):
    folder, report = place
    together = threading.Barrier(4)

    def one():
        together.wait()
        add(folder, "audit", report, priced)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_manifest(folder)
    card = card_of(folder)
    assert {each["folder"] for each in audits_of(card)} == {"audit", "audit-2", "audit-3", "audit-4"}
    assert unaccounted(card, listed(folder, "it")) == []
    assert not list(folder.glob(".*"))


def test_who_waits_too_long_is_told(place, monkeypatch):
    monkeypatch.setattr(addition, "PATIENCE", 0.1)
    folder, report = place
    with addition.held(folder), pytest.raises(InputError, match="held by another process"):
        add(folder, "audit", report, priced)
    assert "audit" not in os.listdir(folder)


@pytest.mark.parametrize("name", ["synthetic.csv", "card.json", "manifest.json"])
def test_nothing_is_added_to_a_damaged_release(place, name):
    folder, report = place
    with (folder / name).open("ab") as file:
        file.write(b"x")
    before = everything(folder)
    with pytest.raises(InputError, match=r"edited|damaged"):
        add(folder, "audit", report, priced)
    assert everything(folder) == before


def test_a_full_disk_leaves_the_release_as_it_was(place, monkeypatch):
    folder, report = place
    before = everything(folder)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(addition, "sync_tree", full)
    with pytest.raises(InputError, match="no space left on device"):
        add(folder, "audit", report, priced)
    assert everything(folder) == before
