"""What is kept of a charged audit until its report is in place, so that an interruption costs nothing again.

A folder for each audit, mode 0700, in the state folder: the id of its charge, whether noise was begun, and the report,
once it is whole. It has no row, and nothing computed from rows without noise. The same command finds it again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equistrata.data.texts.json_documents import read_json
from equistrata.errors import InputError
from equistrata.flows.audit.account import AuditAccount
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.publication.released import Released
from equistrata.flows.run.claims import claim
from equistrata.flows.run.disk import sync, sync_tree, unusable, write_durably
from equistrata.flows.run.journal import STATE_VARIABLE, state_folder

AUDITS = ".audits"  # in the state folder; the point keeps it from what looks for releases there
RECORD, BEGUN, REPORT = "audit.json", "begun", "report"
_NOT_OF_IT = {"releases", "output", "pdf", "ledger"}  # settings that decide no number


@dataclass(frozen=True)
class AuditJournal:
    """One audit's folder, which need not be there.

    Attributes:
        release: the id of its charges in the ledger.
        key: secret, of this audit.
    """

    root: Path
    release: str
    key: str

    @classmethod
    def of(cls, config: AuditConfig, releases: Sequence[Released], account: AuditAccount) -> AuditJournal:
        """That of an audit of these releases with these settings, with the id that it was charged under, if it was."""
        about = config.model_dump(mode="json", exclude=_NOT_OF_IT)
        about |= {"of": [each.identity for each in releases], "books": [account.ledger.identity, account.dataset]}
        root = state_folder() / AUDITS / hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        if (root / RECORD).exists():
            kept: dict[str, Any] = read_json(root / RECORD, f"folder {str(root)!r}", {"release": str, "key": str})
            return cls(root, kept["release"], kept["key"])
        return cls(root, account.release, secrets.token_hex(32))

    @property
    def kept(self) -> bool:
        """Whether it was charged, or about to be, and is not in its place."""
        return (self.root / RECORD).exists()

    @property
    def saved(self) -> Path | None:
        """The report, once it is whole."""
        return self.root / REPORT if (self.root / REPORT).is_dir() else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the audit while the block runs. Raises InputError if another process does, or it cannot be kept."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unusable("what is kept of the audit", STATE_VARIABLE, error, str(state_folder())) from None
        lock = claim(self.root)
        if lock is None:
            raise InputError("this audit is running already; wait for it to end")
        try:
            yield
        finally:
            if not self.kept:  # nothing was charged
                shutil.rmtree(self.root, ignore_errors=True)
            os.close(lock)

    def due(self, account: AuditAccount, content: bytes | None = None) -> bool:
        """Whether noise has to be paid for: nothing was, or it may have been drawn and is not saved, or other rows are
        meant than those with this digest."""
        if not account.charges() or (self.saved is None and (self.root / BEGUN).exists()):
            return True
        return content is not None and not hmac.compare_digest(self._kept_rows, self._mark(content))

    def bind(self, content: bytes, again: bool) -> None:
        """Write down durably, before a charge, its id and its rows; nothing that was drawn `again`, for other rows or
        without being saved, is used any more."""
        if again:
            self.begin()  # until it is paid for
            shutil.rmtree(self.root / REPORT, ignore_errors=True)
        record = {"release": self.release, "key": self.key, "rows": self._mark(content)}
        write_durably(self.root / RECORD, json.dumps(record))

    def paid(self) -> None:
        """Write down durably that noise may be drawn once for what was charged."""
        (self.root / BEGUN).unlink(missing_ok=True)
        sync(self.root)

    def begin(self) -> None:
        """Write down durably, before noise is drawn, that it is."""
        write_durably(self.root / BEGUN, "")

    def save(self, report: Path) -> None:
        """Keep the report, durably and in one step."""
        unfinished = self.root / f".{REPORT}"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(report, unfinished)
        sync_tree(unfinished)
        unfinished.rename(self.root / REPORT)
        sync(self.root)

    def remove(self) -> None:
        """Remove the folder, its record first."""
        (self.root / RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def _kept_rows(self) -> str:
        kept: dict[str, str] = read_json(self.root / RECORD, f"folder {str(self.root)!r}", {"rows": str})
        return kept["rows"]

    def _mark(self, content: bytes) -> str:
        return hmac.digest(bytes.fromhex(self.key), content, "sha256").hex()
