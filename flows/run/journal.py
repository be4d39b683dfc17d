"""Journals of charged releases, which preserve everything that was paid for if a run crashes.

Each release has a folder with mode 0700, which is named by the release id. It is stored in `$EQUISTRATA_STATE` or in
the state folder of the user. It contains the settings, the binding of the charge, the runs in which noise was drawn,
and the noisy measurements and means. It does not contain any row, or any result that was computed from rows without
noise. The folder is removed when the release is complete or given up.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from equistrata.errors import InputError
from equistrata.flows.config.places import in_home
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.run.claims import HELD_NAMES, claim
from equistrata.flows.run.disk import disk_full, write_durably

STATE_VARIABLE = "EQUISTRATA_STATE"
JOURNAL_FORMAT = "equistrata journal 2"
UNBOUND = "equistrata journal 1"  # the format of versions that did not store a binding
RECORD = "release.json"
UNMADE = "."  # the prefix of a folder that is not yet complete
MADE = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9._{}-]*-[a-z0-9_]{8}")  # the name of this folder from `mkdtemp`
PAID = "paid"
UNMADE_FILES = re.compile(r"release\.json|\.release\.json-.{8}")  # the files in a folder that is not complete
# The files in a folder without a record.
LEFT = re.compile(r"paid|runs|snapshot|\.lock|\.(release\.json|runs|snapshot)-.{8}")
MAKING_SECONDS = 600


def state_folder() -> Path:
    """Return the folder of all journals, which is $EQUISTRATA_STATE or `equistrata` in the state folder of the user."""
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return Path(named).absolute()
    return in_home(os.environ.get("XDG_STATE_HOME") or "~/.local/state").absolute() / "equistrata"


@dataclass(frozen=True)
class Journal:
    """The journal of one release.

    Attributes
    ----------
    root : Path
        The folder of the journal.
    config : ReleaseConfig
        The settings of the release.
    folder : Path
        The working folder in which the release was started. Relative paths refer to it.
    ledger : str
        The identity of the ledger.
    key : bytes
        A secret key of this journal.
    """

    root: Path
    config: ReleaseConfig
    folder: Path
    ledger: str
    key: bytes

    @classmethod
    def begun(cls, config: ReleaseConfig, ledger: str) -> Journal | None:
        """Return the journal of a release that was started before.

        Parameters
        ----------
        config : ReleaseConfig
            The settings of the release.
        ledger : str
            The identity of the ledger.

        Returns
        -------
        Journal or None
            The journal. If None, there is no journal with this release id.

        Raises
        ------
        InputError
            If the journal has other settings or another ledger.
        """
        release = str(config.release_id)
        found = cls.of(release)
        if found is not None:
            if found.config.digest != config.digest or found.config.dataset != config.dataset:
                raise InputError(
                    f"release {release!r} was started with other settings; run equistrata resume {release}, or choose "
                    "another id"
                )
            if found.ledger != ledger:
                raise InputError(
                    f"release {release!r} was started with another ledger; name that ledger, or choose another id"
                )
        return found

    @classmethod
    def open(cls, config: ReleaseConfig, ledger: str) -> Journal:
        """Return the journal of a release. If it does not exist, it is created.

        Parameters
        ----------
        config : ReleaseConfig
            The settings of the release.
        ledger : str
            The identity of the ledger.

        Returns
        -------
        Journal
            The journal.

        Raises
        ------
        InputError
            If the journal has other settings or another ledger, or if it cannot be created.
        """
        found = cls.begun(config, ledger)
        if found is not None:
            return found
        release = str(config.release_id)
        record = {
            "format": JOURNAL_FORMAT,
            "config": config.public(),
            "folder": os.getcwd(),
            "ledger": ledger,
            "key": secrets.token_hex(32),
        }
        root = state_folder() / release
        try:
            root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix=f"{UNMADE}{release}-", dir=root.parent))  # created with mode 0700
            try:
                write_durably(made / RECORD, json.dumps(record, indent=2))
                made.rename(root)
            except OSError:
                rmtree(made, ignore_errors=True)
                if not root.exists():  # otherwise another process has created it
                    raise
        except OSError as error:
            raise disk_full(error, state_folder()) or InputError(
                f"the state folder {str(root.parent)!r} cannot be written; name another in {STATE_VARIABLE}"
            ) from None
        opened = cls._read(root)
        if opened is None:
            raise InputError(f"release {release!r} has a state folder that this version cannot read; choose another id")
        return opened

    @classmethod
    def of(cls, release: str) -> Journal | None:
        """Return the journal with this release id, or None if there is none."""
        return next((journal for journal in cls.all() if release == journal.root.name), None)

    @classmethod
    def find(cls, release: str) -> Journal | None:
        """Return the journal with this release id or, if there is none, with this output folder."""
        wanted = Path(release).absolute()
        return cls.of(release) or next((journal for journal in cls.all() if wanted == journal.output), None)

    @classmethod
    def unreadable(cls, release: str) -> Path | None:
        """Return the folder of a journal that this version cannot read.

        If the journal is readable or does not exist, return None.

        A journal is not readable if it is damaged or was written by another version.
        """
        root = state_folder() / release
        kept = Path(release).name == release and (root / RECORD).exists()
        return root if kept and cls._read(root) is None else None

    @classmethod
    def all(cls) -> list[Journal]:
        """Return the journals of all releases that are running or can be resumed, sorted by release id.

        Folders that killed runs have created or removed only partly are removed.
        """
        journals = []
        for root in sorted(path for path in state_folder().glob("*") if path.is_dir()):
            journal = None if root.name.startswith(UNMADE) else cls._read(root)
            if journal is not None:
                journals.append(journal)
            elif _is_half(root):
                rmtree(root, ignore_errors=True)
        return journals

    @classmethod
    def _read(cls, root: Path) -> Journal | None:
        try:
            record = _record(root)
            if record["format"] not in (JOURNAL_FORMAT, UNBOUND):
                return None
            config = ReleaseConfig.build(**record["config"])
            return cls(root, config, Path(record["folder"]), str(record["ledger"]), bytes.fromhex(record["key"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def mark(self) -> str:
        """The mark of the journal in the ledger.

        Only this journal contains the noise that the charged release has drawn.
        """
        return hmac.digest(self.key, b"mark", "sha256").hex()

    @property
    def binding(self) -> Mapping[str, Any] | None:
        """The values to which the charge is bound. If there is no charge, or in an early version, this is None."""
        bound: Mapping[str, Any] | None = _record(self.root).get("binding")
        return bound

    def bind(self, binding: Mapping[str, Any]) -> None:
        """Store durably the values to which the charge will be bound.

        The caller must hold the journal and call this before the charge.
        """
        record = _record(self.root) | {"format": JOURNAL_FORMAT, "binding": binding}
        write_durably(self.root / RECORD, json.dumps(record, indent=2))

    @property
    def output(self) -> Path:
        """The output folder of the release."""
        return self.folder / self.config.output

    @property
    def paid(self) -> Path:
        """The folder of the results that were paid for. It is created if it does not exist."""
        folder = self.root / PAID
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def untouched(self) -> bool:
        """True if the journal was never held by a run."""
        return not (self.root / "runs").exists()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the release while the block runs.

        Raises
        ------
        InputError
            If another process holds the release.
        """
        lock = claim(self.root)
        if lock is None:
            raise InputError(f"release {self.root.name!r} is running already; wait for it to end")
        try:
            yield
        finally:
            os.close(lock)

    def next_run(self) -> int:
        """Increase the number of runs durably and return it.

        The first run has the number 1. The caller must hold the journal.
        """
        runs = self.root / "runs"
        number = int(runs.read_text("ascii")) + 1 if runs.exists() else 1
        write_durably(runs, str(number))
        return number

    def same_rows(self, digest: bytes, first: bool) -> bool:
        """Check whether the rows are the same as in the run that was charged.

        If the stored digest is missing, the result is False, because the noise may have been drawn from other rows.

        Parameters
        ----------
        digest : bytes
            The digest of the rows.
        first : bool
            If True, store the digest first. It is stored as a keyed hash with the secret of the journal.

        Returns
        -------
        bool
            True if the rows are the same.
        """
        mark, told = self.root / "snapshot", hmac.digest(self.key, digest, "sha256").hex()
        if first:
            write_durably(mark, told)
        return mark.exists() and hmac.compare_digest(mark.read_text("ascii"), told)

    def moved_to(self, output: str) -> Journal:
        """Change the output of the release durably and return the new journal. The caller must hold the journal."""
        place = os.path.abspath(output)
        if place == os.path.abspath(self.output):
            return self
        record = _record(self.root)
        record["config"]["output"] = place
        write_durably(self.root / RECORD, json.dumps(record, indent=2))
        return replace(self, config=ReleaseConfig.build(**record["config"]))

    def remove(self) -> None:
        """Remove the journal. The record is removed first, so that an incomplete removal does not leave a release."""
        (self.root / RECORD).unlink(missing_ok=True)
        rmtree(self.root, ignore_errors=True)


def unreadable_sentence(release: str) -> str:
    """Return the error message for a release with a journal that this version cannot read."""
    return (
        f"the saved state of release {release!r} in {str(state_folder())!r} cannot be read, because another version of "
        f"equistrata wrote it, or it is damaged; resume it with that version, or give it up (equistrata resume "
        f"--discard {release})"
    )


def _is_half(root: Path) -> bool:
    """Return True if the folder is a journal that was not completely created or removed."""
    try:
        status = root.lstat()
        if not stat.S_ISDIR(status.st_mode) or stat.S_IMODE(status.st_mode) != 0o700 or HELD_NAMES.fullmatch(root.name):
            return False
        unmade = root.name.startswith(UNMADE)
        if unmade and (time.time() - status.st_mtime <= MAKING_SECONDS or not MADE.fullmatch(root.name)):
            return False
        names = UNMADE_FILES if unmade else LEFT
        return all(
            names.fullmatch(path.name) and stat.S_ISDIR(path.lstat().st_mode) == (path.name == PAID)
            for path in root.iterdir()
        )
    except OSError:
        return False


def _record(root: Path) -> dict[str, Any]:
    return dict(json.loads((root / RECORD).read_text("utf-8")))
