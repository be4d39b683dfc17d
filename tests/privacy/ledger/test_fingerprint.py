"""Tests that fingerprints show only that two snapshots are equal."""

import hashlib
import stat
import threading

import pytest

from equistrata.privacy.ledger.fingerprint import Fingerprint, content_digest, ledger_key
from equistrata.privacy.ledger.ledger import LedgerError

CONTENT = hashlib.sha256(b"rows").digest()
SEEN = {"rows": "ab" * 32, "columns": {"SEX": "c1" * 32, "AGE": "c2" * 32, "JOB": "c3" * 32}}


def made(content=CONTENT, seen=SEEN, key=b"k" * 32, ledger="ledger"):
    return Fingerprint.of(content, seen, key, ledger)


def test_equal_rows_have_equal_fingerprints_within_one_ledger_only():
    one = made()
    assert made() == one == Fingerprint.parse(str(one))
    parts = [
        [each.key, each.file, each.rows, *each.columns] for each in (one, made(key=b"j" * 32), made(ledger="another"))
    ]
    assert len({part for each in parts for part in each}) == 3 * 6, "nothing is shared between keys or ledgers"
    for plain in (CONTENT.hex(), SEEN["rows"], *SEEN["columns"].values()):
        assert plain[:16] not in str(one)


def test_the_same_rows_are_known_by_their_file_or_as_a_multiset_and_the_same_people_by_three_columns():
    one = made()
    file, rows = made(seen={"rows": "x", "columns": {}}), made(b"other bytes")
    assert one.same_rows(file)
    assert one.same_rows(rows)
    for shared in range(4):
        columns = dict(list(SEEN["columns"].items())[:shared]) | {"PAY": "d" * 64}
        other = made(b"other bytes", {"rows": "other", "columns": columns})
        assert not one.same_rows(other)
        assert one.alike(other) == other.alike(one) == (shared >= 3)
    renamed = {f"{name}2": digest for name, digest in SEEN["columns"].items()}
    assert not one.alike(made(b"other bytes", {"rows": "other", "columns": renamed}))


def test_entries_of_an_earlier_version_are_known_by_their_file():
    old = Fingerprint.parse(made().file)
    assert (old.key, old.rows, old.columns) == ("", "", frozenset())
    assert made().alike(old)
    assert not made(b"other bytes").alike(old)
    assert not old.alike(Fingerprint.parse("0" * 64))
    assert Fingerprint.parse(None) is None


def test_content_counts_and_names_do_not(tmp_path):
    for name, content in {"a": b"12", "b": b"3", "c": b"1", "d": b"23", "e": b"12"}.items():
        (tmp_path / name).write_bytes(content)
    digests = {names: content_digest([tmp_path / name for name in names]) for names in ("ab", "cd", "ba", "eb")}
    assert digests["ab"] == digests["eb"]
    assert len({digests["ab"], digests["cd"], digests["ba"]}) == 3, "where one file ends and the next begins counts"


def test_a_key_is_made_once_beside_the_ledger_and_is_private(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
    keys = []
    threads = [threading.Thread(target=lambda: keys.append(ledger_key(tmp_path / "ledger.db"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db.key"]
    assert stat.S_IMODE((tmp_path / "ledger.db.key").stat().st_mode) == 0o600
    assert ledger_key(tmp_path / "other.db") not in keys


def test_the_environments_key_wins_and_is_never_quoted(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISTRATA_LEDGER_KEY", "a key from the environment")
    assert ledger_key(tmp_path / "ledger.db") == ledger_key(None) == b"a key from the environment"
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("EQUISTRATA_LEDGER_KEY", "canary")
    with pytest.raises(LedgerError, match="too short") as refused:
        ledger_key(None)
    assert "canary" not in str(refused.value)


def test_postgresql_without_a_key_has_no_fingerprints(monkeypatch):
    monkeypatch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
    assert ledger_key(None) is None


def test_a_spoiled_key_file_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUISTRATA_LEDGER_KEY", raising=False)
    (tmp_path / "ledger.db.key").write_text("canary, not hexadecimal")
    with pytest.raises(LedgerError, match="cannot be used") as refused:
        ledger_key(tmp_path / "ledger.db")
    assert "canary" not in str(refused.value)
