"""Fingerprints tell equal snapshots apart from others, and nothing else."""

import hashlib
import stat
import threading

import pytest

from privacy.fingerprint import content_digest, ledger_key
from privacy.ledger import LedgerError

DIGEST = hashlib.sha256(b"rows").digest()


def test_equal_rows_have_equal_fingerprints_within_one_ledger_only():
    one = fingerprint(DIGEST, b"k" * 32, "ledger")
    assert one == fingerprint(DIGEST, b"k" * 32, "ledger")
    others = [
        fingerprint(hashlib.sha256(b"other rows").digest(), b"k" * 32, "ledger"),
        fingerprint(DIGEST, b"j" * 32, "ledger"),
        fingerprint(DIGEST, b"k" * 32, "another"),
        DIGEST.hex(),
    ]
    assert len({one, *others}) == 5
    assert len(one) == 64


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
