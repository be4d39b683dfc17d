"""Tests of the release card and the manifest, which are checked with the folder alone."""

import hashlib
import json
import tempfile
import zipfile

import pytest
from edited_release import edited_copy
from in_process import command
from plain_release import release

from equistrata.analysis.release import Release
from equistrata.errors import InputError
from equistrata.flows.publication.audited_card import AddedAudit, with_audit
from equistrata.flows.publication.publish import publish_release
from equistrata.flows.publication.verified import release_faults, unchecked_release_properties


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verified") / "honest"
    release({"evaluate": "none", "output": str(folder), "columns": ("SEX", "MIL", "ESR"), "epsilon": 2.0})
    return folder


@pytest.fixture
def edited(honest, tmp_path):
    """Return a function that makes an edited copy of a release with a valid manifest."""

    def edit(change):
        return Release.open(edited_copy(honest, tmp_path / "copy", change))

    return edit


def _in_card(old, new):
    def change(copy):
        text = (copy / "card.md").read_text("utf-8")
        assert old in text
        (copy / "card.md").write_text(text.replace(old, new), "utf-8")

    return change


def test_an_honest_release_has_no_line_that_is_written_otherwise(honest):
    found = Release.open(honest)
    assert release_faults(found) == []
    assert not any("card.md" in each or "neighbouring" in each for each in unchecked_release_properties(found))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The unit is one row.", "The unit is one household of any size."),
        ("Ledger: none.", "Ledger: a lifetime budget."),
        ("## Keep in mind\n", "## Keep in mind\n\n- No one is in danger.\n"),
    ],
)
def test_a_line_of_the_card_for_people_that_is_not_of_its_numbers_is_shown(edited, monkeypatch, capsys, old, new):
    """This line is only a warning, because the card may be written by an earlier version."""
    found = edited(_in_card(old, new))
    assert any("this version would not write line" in each for each in unchecked_release_properties(found))
    code, shown, _ = command(monkeypatch, capsys, "verify", found.folder)
    assert (code, new.strip().splitlines()[-1][:20] in shown) == (0, True)


def test_words_on_neighbouring_tables_that_no_card_has_are_shown(edited):
    def change(copy):
        card = json.loads((copy / "card.json").read_text("utf-8"))
        card["guarantee"]["relation"] = "add-remove: neighbouring tables differ by all rows of a town"
        (copy / "card.json").write_text(json.dumps(card), "utf-8")

    assert "all rows of a town" in unchecked_release_properties(edited(change))[0]


@pytest.mark.parametrize("name", ["internal/scores.json", "exact.csv", "rows.parquet"])
def test_a_listed_file_that_no_part_of_a_release_has_is_found(edited, name):
    """The command `publish` refuses this file, and a recipient of the folder is warned."""

    def change(copy):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("{}")

    assert any(f"the manifest lists {name!r}" in fault for fault in release_faults(edited(change)))


@pytest.mark.parametrize("edit", [False, True])
def test_an_audit_that_is_not_the_one_on_the_card_is_found(edited, edit):
    """The numbers of the audit are edited, and the manifest is valid."""

    def change(copy):
        text = json.dumps({"made": "now", "worst": "nobody"})
        digest = hashlib.sha256(text.encode()).hexdigest()
        audit = AddedAudit("audit", "2026-11-27T00:00:00+00:00", 0.5, 1e-9, 0.001, "", True, digest)
        (copy / "audit").mkdir()
        (copy / "audit" / "audit.json").write_text(text.replace("nobody", "everybody") if edit else text)
        card = with_audit(json.loads((copy / "card.json").read_text("utf-8")), audit)
        (copy / "card.json").write_text(json.dumps(card), "utf-8")

    found = edited(change)
    assert any("the audit in 'audit' is not the one" in each for each in release_faults(found)) == edit
    assert "whether the pages and tables of audits agree with their audit.json" in unchecked_release_properties(found)


def test_a_zip_is_called_one_with_what_to_do(honest, tmp_path):
    """The zip is made by `publish`. Its recipient used to be asked to check the path."""
    place = tmp_path / "my release.zip"
    publish_release(honest, place)
    with pytest.raises(InputError, match=r"is a zip; unpack it \(unzip '.*my release.zip' -d '.*my release'\)"):
        Release.open(place)


def test_a_zip_is_verified_as_its_folder_is(honest, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = tmp_path / "public.zip"
    publish_release(honest, place)
    code, told, _ = command(monkeypatch, capsys, "verify", place)
    of_folder = command(monkeypatch, capsys, "verify", honest)[1]
    assert code == 0
    assert told.replace(str(place), "") == of_folder.replace(str(honest), "")

    content = place.read_bytes()
    place.write_bytes(content[: len(content) // 2] + content[len(content) // 2 + 9 :])
    code, _, error = command(monkeypatch, capsys, "verify", place)
    assert code == 2
    assert "is a zip that cannot be unpacked" in error
    place.write_bytes(content)
    with zipfile.ZipFile(place, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("card.md", "edited")
    code, _, error = command(monkeypatch, capsys, "verify", place)
    assert code == 2
    assert f"of release {str(place)!r}" in error
    assert not list(tmp_path.glob("equistrata-verify-*"))
