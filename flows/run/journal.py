"""Journals: what a charged release keeps on disk while it runs, so that a crash loses nothing that was paid for.

A folder per release, named by its id, mode 0700, in `$EQUISTRATA_STATE` (or the user's state folder): the settings,
what else the charge is bound to, which noise was begun in which run, and noisy measurements and means. It has no row,
and nothing computed from rows without noise. It is removed when the release is whole, or given up.
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
UNBOUND = "equistrata journal 1"  # of versions without a binding
RECORD = "release.json"
UNMADE = "."  # prefix of a folder until it is whole
MADE = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9._{}-]*-[a-z0-9_]{8}")  # that name, as `mkdtemp` makes it
PAID = "paid"
UNMADE_FILES = re.compile(r"release\.json|\.release\.json-.{8}")  # what is in it until then
LEFT = re.compile(r"paid|runs|snapshot|\.lock|\.(release\.json|runs|snapshot)-.{8}")  # in one without its record
MAKING_SECONDS = 600


def state_folder() -> Path:
    """The folder of journals: $EQUISTRATA_STATE, or equistrata in the user's state folder."""
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return Path(named).absolute()
    return in_home(os.environ.get("XDG_STATE_HOME") or "~/.local/state").absolute() / "equistrata"


@dataclass(frozen=True)
class Journal:
    """One release's folder; `folder` is where it was begun, for relative paths, and `key` is secret, of this one."""

    root: Path
    config: ReleaseConfig
    folder: Path
    ledger: str
    key: bytes

    @classmethod
    def begun(cls, config: ReleaseConfig, ledger: str) -> Journal | None:
        """The journal of config.release_id, if any. Raises InputError if its settings or ledger differ."""
        release = str(config.release_id)
        found = cls.of(release)
        if found is not None:
            if found.config.digest != config.digest or found.config.dataset != config.dataset:
                raise InputError(
                    f"release {release!r} was begun with other settings; run equistrata resume {release}, or choose "
                    "another id"
                )
            if found.ledger != ledger:
                raise InputError(f"release {release!r} was begun with another ledger; name that, or choose another id")
        return found

    @classmethod
    def open(cls, config: ReleaseConfig, ledger: str) -> Journal:
        """The journal of config.release_id, made if there is none. Raises InputError, as `begun`, or if none can be."""
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
            made = Path(tempfile.mkdtemp(prefix=f"{UNMADE}{release}-", dir=root.parent))  # mkdtemp makes it 0700
            try:
                write_durably(made / RECORD, json.dumps(record, indent=2))
                made.rename(root)
            except OSError:
                rmtree(made, ignore_errors=True)
                if not root.exists():  # else another process was first
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
        """The journal of the release with this id."""
        return next((journal for journal in cls.all() if release == journal.root.name), None)

    @classmethod
    def find(cls, release: str) -> Journal | None:
        """The journal of a release, by its id, or else by its output folder, as users name it."""
        wanted = Path(release).absolute()
        return cls.of(release) or next((journal for journal in cls.all() if wanted == journal.output), None)

    @classmethod
    def unreadable(cls, release: str) -> Path | None:
        """The folder of the release with this id, if this version cannot read it: damaged, or of another version."""
        root = state_folder() / release
        kept = Path(release).name == release and (root / RECORD).exists()
        return root if kept and cls._read(root) is None else None

    @classmethod
    def all(cls) -> list[Journal]:
        """Every release under way or to be resumed, by id. What killed runs left half-made or half-removed goes."""
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
        """Its mark in the ledger: only the journal has what a charged release has drawn."""
        return hmac.digest(self.key, b"mark", "sha256").hex()

    @property
    def binding(self) -> Mapping[str, Any] | None:
        """What the charge is bound to; None before it, and in a journal of an early version."""
        bound: Mapping[str, Any] | None = _record(self.root).get("binding")
        return bound

    def bind(self, binding: Mapping[str, Any]) -> None:
        """Write down, durably, what the charge to come is bound to. Only for the holder, before the charge."""
        record = _record(self.root) | {"format": JOURNAL_FORMAT, "binding": binding}
        write_durably(self.root / RECORD, json.dumps(record, indent=2))

    @property
    def output(self) -> Path:
        """The folder of the release to come."""
        return self.folder / self.config.output

    @property
    def paid(self) -> Path:
        """The folder of what was paid for."""
        folder = self.root / PAID
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def untouched(self) -> bool:
        """Whether no run has ever held it."""
        return not (self.root / "runs").exists()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the release while the block runs. Raises InputError if another process does."""
        lock = claim(self.root)
        if lock is None:
            raise InputError(f"release {self.root.name!r} is running already; wait for it to end")
        try:
            yield
        finally:
            os.close(lock)

    def next_run(self) -> int:
        """Count one more run, durably; its number, from 1. Only for the holder."""
        runs = self.root / "runs"
        number = int(runs.read_text("ascii")) + 1 if runs.exists() else 1
        write_durably(runs, str(number))
        return number

    def same_rows(self, digest: bytes, first: bool) -> bool:
        """Whether the rows are those of the run that was charged; kept, keyed by the journal's secret, if `first`.

        They are not where what was kept is gone: noise may have been drawn from others.
        """
        mark, told = self.root / "snapshot", hmac.digest(self.key, digest, "sha256").hex()
        if first:
            write_durably(mark, told)
        return mark.exists() and hmac.compare_digest(mark.read_text("ascii"), told)

    def moved_to(self, output: str) -> Journal:
        """The same release, with another output from now on, durably. Only for the holder."""
        place = os.path.abspath(output)
        if place == os.path.abspath(self.output):
            return self
        record = _record(self.root)
        record["config"]["output"] = place
        write_durably(self.root / RECORD, json.dumps(record, indent=2))
        return replace(self, config=ReleaseConfig.build(**record["config"]))

    def remove(self) -> None:
        """Remove the folder; its record first, so that half a removal is no release."""
        (self.root / RECORD).unlink(missing_ok=True)
        rmtree(self.root, ignore_errors=True)


def unreadable_sentence(release: str) -> str:
    """The message on a release whose folder this version cannot read."""
    return (
        f"what is kept of release {release!r} in {str(state_folder())!r} cannot be read: another version of equistrata "
        f"wrote it, or it is damaged; resume it with that version, or give it up (equistrata resume "
        f"--discard {release})"
    )


def _is_half(root: Path) -> bool:
    """Whether a folder is a journal that was cut off while it was made or removed."""
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
