"""Publishing a release as a folder or a zip file, which contains exactly the files of its manifest.

No other files in the release folder are copied. Each listed file must belong to the release or to an audit on its card,
so that the card accounts for its cost. The SHA-256 hash of each file is computed while it is copied. The published
files therefore match the manifest, even if the release changes in the meantime.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from equistrata.analysis.contents.card import parse_card
from equistrata.data.texts.manifest import MANIFEST, MEND, Entry, entries
from equistrata.errors import InputError
from equistrata.flows.publication.addition import finish_addition
from equistrata.flows.publication.audited_card import unaccounted
from equistrata.flows.run.claims import FolderInUse, remove, remove_dead, take, tried
from equistrata.flows.run.disk import sync_tree
from equistrata.flows.run.journal import Journal
from equistrata.flows.run.landing import rename_to_new

STAGING = ".equistrata-publish-", ".part"
MOST_IN_MEMORY = 64 << 20  # the largest size of a manifest or a card in bytes
CHUNK = 1 << 20  # bytes
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every file in a zip, so that the bytes only depend on the release


@dataclass(frozen=True)
class Published:
    """A published release.

    Attributes
    ----------
    place : Path
        The folder or the zip file.
    files : int
        The number of files, including the manifest.
    card : mapping
        The card.
    manifest : str
        The SHA-256 hash of the manifest.
    """

    place: Path
    files: int
    card: Mapping[str, Any]
    manifest: str


@dataclass(frozen=True)
class _Files:
    """The files of a release folder.

    A file must not be a link or be reached through a link, because it could be elsewhere.
    """

    folder: Path

    def __str__(self) -> str:
        return f"release {str(self.folder)!r}"

    def read(self, name: str) -> bytes:
        """Read a small file."""
        content = b"".join(self._chunks(name, MOST_IN_MEMORY + 1))
        if len(content) > MOST_IN_MEMORY:
            raise InputError(f"file {name!r} of {self} is too large for the {name} of a release; {MEND}")
        return content

    def copy(self, name: str, entry: Entry, target: IO[bytes]) -> None:
        """Copy a file. If it does not match the manifest, raise an InputError."""
        digest, left = hashlib.sha256(), entry["bytes"]
        for chunk in self._chunks(name, left + 1):
            digest.update(chunk)
            target.write(chunk)
            left -= len(chunk)
        if left > 0:
            raise InputError(f"file {name!r} of {self} is cut off; {MEND}")
        if left < 0 or digest.hexdigest() != entry["sha256"]:
            raise InputError(f"file {name!r} of {self} was edited after the release; {MEND}")

    def _chunks(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the first bytes of a file in pieces.

        A reading error is attributed to the release and not to the destination.
        """
        with self._opened(name) as source:
            while most > 0:
                try:
                    chunk = source.read(min(CHUNK, most))
                except OSError:
                    raise InputError(f"file {name!r} of {self} cannot be read; check its disk") from None
                if not chunk:
                    return
                most -= len(chunk)
                yield chunk

    def _opened(self, name: str) -> IO[bytes]:
        *folders, last = PurePosixPath(name).parts
        handle = -1
        try:
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            for part in folders:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            # The flag O_NONBLOCK prevents the program from waiting for a pipe.
            found = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else errno.ENOENT
            if number in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise InputError(
                    f"{name!r} of {self} is a link, or its path contains a link or a file; {MEND}"
                ) from None
            if number == errno.ENOENT:
                raise InputError(f"{self} lacks its file {name!r}, so it is incomplete; {MEND}") from None
            raise InputError(f"file {name!r} of {self} cannot be read; check its permissions") from None
        finally:
            if handle >= 0:
                os.close(handle)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise InputError(f"{name!r} of {self} is not a regular file; {MEND}")
        return os.fdopen(found, "rb")


def publish_release(release: Path, destination: Path) -> Published:
    """Copy the files in the manifest of a release to a new folder or, if the name ends in `.zip`, to a new zip file.

    Parameters
    ----------
    release : Path
        The folder of the release.
    destination : Path
        The folder or the zip file.

    Returns
    -------
    Published
        The published release.

    Raises
    ------
    InputError
        If the destination exists or cannot be created, or if the release is seeded, incomplete, edited, not yet
        committed, or contains links. In this case nothing is left at the destination.
    """
    _check_destination(release, destination)
    source = _Files(release)
    if not release.is_dir():
        raise InputError(f"{source} is not a folder; check the path")
    finish_addition(release)
    manifest = source.read(MANIFEST)
    files = entries(manifest, str(source))
    card = _checked_card(source, files)
    with _staging(destination) as made:
        try:
            (_zip if destination.suffix.lower() == ".zip" else _folder)(made, source, files, manifest)
            rename_to_new(made, destination)
        except FileExistsError:
            raise _taken(destination) from None
        except OSError as error:
            raise InputError(
                f"{str(destination)!r} cannot be made ({os.strerror(error.errno or 0).lower()}); nothing was published"
            ) from None
    return Published(destination, len(files) + 1, card, hashlib.sha256(manifest).hexdigest())


def _check_destination(release: Path, destination: Path) -> None:
    if "\0" in str(destination):
        raise InputError("the destination has a NUL byte in its name; choose another")
    if os.path.lexists(destination) or destination.name in ("", ".."):
        raise _taken(destination)
    parent = destination.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{str(destination)!r} cannot be made: {str(parent)!r} is not a folder in which you may write")
    if Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(release)):
        raise InputError(f"{str(destination)!r} is inside the release; choose a place outside it")


def _taken(destination: Path) -> InputError:
    return InputError(f"{str(destination)!r} exists already; choose another destination, or remove it")


def _checked_card(source: _Files, files: Mapping[str, Entry]) -> Mapping[str, Any]:
    """Return the card, if it allows the release to be published."""
    if "card.json" not in files:
        raise InputError(f"{MANIFEST} of {source} lists no card.json, so its privacy cost is unknown; {MEND}")
    content = source.read("card.json")
    if hashlib.sha256(content).hexdigest() != files["card.json"]["sha256"]:
        raise InputError(f"file 'card.json' of {source} was edited after the release; {MEND}")
    card = parse_card(content, str(source))
    ledger, strays = card.get("ledger"), unaccounted(card, files)
    if card.get("private") is not True:
        raise InputError(
            f"{source} was made with a seeded noise source, so it is not private; make it again without --seed"
        )
    if strays:
        raise InputError(f"the card of {source} does not account for {strays[0]!r}, so its cost is unknown; {MEND}")
    if isinstance(ledger, Mapping) and Journal.of(str(ledger.get("release_id"))) is not None:
        raise InputError(
            f"{source} is not committed in its ledger yet; run equistrata resume {ledger.get('release_id')} first"
        )
    found: Mapping[str, Any] = card
    return found


@contextmanager
def _staging(destination: Path) -> Iterator[Path]:
    """Yield a temporary path next to the destination. Temporary folders of killed processes are removed first."""
    parent, (prefix, suffix) = destination.absolute().parent, STAGING
    remove_dead(parent, f"{prefix}*{suffix}")

    def held() -> tuple[Path, int | None]:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent))
        try:
            return folder, take(folder)
        except FileNotFoundError:
            raise FolderInUse from None
        except OSError:
            return folder, None  # the file system may not support locks

    try:
        folder, lock = tried(held, FolderInUse)  # before the folder is locked, another process may remove it
    except (OSError, FolderInUse):
        raise InputError(f"{str(destination)!r} cannot be made; check that you may write beside it") from None
    try:
        yield folder / "made"
    finally:
        remove(folder)
        if lock is not None:
            os.close(lock)


def _folder(made: Path, source: _Files, files: Mapping[str, Entry], manifest: bytes) -> None:
    made.mkdir(mode=0o755)
    for name, entry in sorted(files.items()):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        with (made / name).open("xb") as file:
            source.copy(name, entry, file)
    (made / MANIFEST).write_bytes(manifest)
    sync_tree(made)


def _zip(made: Path, source: _Files, files: Mapping[str, Entry], manifest: bytes) -> None:
    """Write a zip file that has the same bytes on every machine.

    Names are sorted, and all files have the same time and mode.
    """
    with made.open("xb") as whole:
        with zipfile.ZipFile(whole, "w") as archive:
            for name in sorted([*files, MANIFEST]):
                about = zipfile.ZipInfo(name, EPOCH)
                about.compress_type, about.create_system, about.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
                # The archive needs the size of a large file before it is written.
                about.file_size = len(manifest) if name == MANIFEST else files[name]["bytes"]
                with archive.open(about, "w") as file:
                    if name == MANIFEST:
                        file.write(manifest)
                    else:
                        source.copy(name, files[name], file)
        whole.flush()
        os.fsync(whole.fileno())
