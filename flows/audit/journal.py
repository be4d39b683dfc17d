"""The journal of a charged audit, which is kept until the report is complete.

An audit that is interrupted can therefore be continued without an additional cost. Each audit has a folder with mode
0700 in the state folder. It contains the id of the charge, a mark that noise was started, and the complete report. It
does not contain rows or any result that was computed from rows without noise. The same command finds the folder again.
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

AUDITS = ".audits"  # a hidden folder in the state folder, so that it is not mistaken for a release
RECORD, BEGUN, REPORT = "audit.json", "begun", "report"
_NOT_OF_IT = {"releases", "output", "pdf", "ledger"}  # settings that do not have an effect on any number


@dataclass(frozen=True)
class AuditJournal:
    """The journal of one audit. Its folder may not exist.

    Attributes
    ----------
    root : Path
        The folder.
    release : str
        The id of the charges in the ledger.
    key : str
        A secret key of this audit.
    """

    root: Path
    release: str
    key: str

    @classmethod
    def of(cls, config: AuditConfig, releases: Sequence[Released], account: AuditAccount) -> AuditJournal:
        """Return the journal of an audit with these settings and releases.

        If it was charged before, the journal has the same id.
        """
        about = config.model_dump(mode="json", exclude=_NOT_OF_IT)
        about |= {"of": [each.identity for each in releases], "books": [account.ledger.identity, account.dataset]}
        root = state_folder() / AUDITS / hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        if (root / RECORD).exists():
            kept: dict[str, Any] = read_json(root / RECORD, f"folder {str(root)!r}", {"release": str, "key": str})
            return cls(root, kept["release"], kept["key"])
        return cls(root, account.release, secrets.token_hex(32))

    @property
    def kept(self) -> bool:
        """True if the audit was charged or is about to be charged, and its report is not yet in the output folder."""
        return (self.root / RECORD).exists()

    @property
    def saved(self) -> Path | None:
        """The folder of the complete report, or None."""
        return self.root / REPORT if (self.root / REPORT).is_dir() else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the audit while the block runs.

        Raises
        ------
        InputError
            If another process holds the audit, or if its folder cannot be created.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unusable("the saved state of the audit", STATE_VARIABLE, error, str(state_folder())) from None
        lock = claim(self.root)
        if lock is None:
            raise InputError("this audit is running already; wait for it to end")
        try:
            yield
        finally:
            if not self.kept:  # the audit was not charged
                shutil.rmtree(self.root, ignore_errors=True)
            os.close(lock)

    def due(self, account: AuditAccount, content: bytes | None = None) -> bool:
        """Check whether the audit must be charged.

        This is the case if it was not charged before, or if noise may have been drawn and the report was not saved. It
        is also the case if the rows are different.

        Parameters
        ----------
        account : AuditAccount
            The account.
        content : bytes or None, default=None
            The digest of the rows. If None, the rows are not compared.

        Returns
        -------
        bool
            True if the audit must be charged.
        """
        if not account.charges() or (self.saved is None and (self.root / BEGUN).exists()):
            return True
        return content is not None and not hmac.compare_digest(self._kept_rows, self._mark(content))

    def bind(self, content: bytes, again: bool) -> None:
        """Record durably the id and the rows of a charge before it is made.

        If the noise is drawn again, all earlier results are removed, because they belong to other rows or were not
        saved.
        """
        if again:
            self.begin()  # removed again by `paid`
            shutil.rmtree(self.root / REPORT, ignore_errors=True)
        record = {"release": self.release, "key": self.key, "rows": self._mark(content)}
        write_durably(self.root / RECORD, json.dumps(record))

    def paid(self) -> None:
        """Record durably that noise can be drawn once for the charge."""
        (self.root / BEGUN).unlink(missing_ok=True)
        sync(self.root)

    def begin(self) -> None:
        """Record durably that noise will be drawn."""
        write_durably(self.root / BEGUN, "")

    def save(self, report: Path) -> None:
        """Save the report in one durable step."""
        unfinished = self.root / f".{REPORT}"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(report, unfinished)
        sync_tree(unfinished)
        unfinished.rename(self.root / REPORT)
        sync(self.root)

    def remove(self) -> None:
        """Remove the folder. The record is removed first."""
        (self.root / RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def _kept_rows(self) -> str:
        kept: dict[str, str] = read_json(self.root / RECORD, f"folder {str(self.root)!r}", {"rows": str})
        return kept["rows"]

    def _mark(self, content: bytes) -> str:
        return hmac.digest(bytes.fromhex(self.key), content, "sha256").hex()
