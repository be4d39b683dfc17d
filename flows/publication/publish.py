"""A release is published: exactly the files that its manifest lists, each held against its SHA-256, as a folder or a zip.

Nothing else that lies in the release's folder goes along, and nothing that the card's price does not cover: a listed file is the
release's own or of an audit that is on the card. Each file's bytes are hashed as they are copied, so what is published is what the
manifest says, whatever happens to the release meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from equistrata.errors import InputError
from equistrata.flows.publication.addition import settled
from equistrata.flows.publication.audited_card import unaccounted
from equistrata.flows.release.manifest import MANIFEST, MEND, Entry, entries
from equistrata.flows.run.claims import claim, remove, remove_dead
from equistrata.flows.run.journal import Journal
from equistrata.flows.run.landing import rename_to_new
from equistrata.flows.run.workspace import sync_tree

STAGING = ".equistrata-publish-", ".part"
LONGEST = 64 << 20  # bytes of a manifest or a card
CHUNK = 1 << 20
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in a zip: the same release gives the same bytes


@dataclass(frozen=True)
class Published:
    """What was published: where, how many files (the manifest too), the card, and the SHA-256 of the manifest."""

    place: Path
    files: int
    card: Mapping[str, Any]
    manifest: str


def publish_release(release: Path, destination: Path) -> Published:
    """Copy what a release's manifest lists, and the manifest, into a new folder, or into a zip if it is called `*.zip`.

    Args:
        release: its folder.
        destination: must not be there; the folder above it must.

    Raises InputError if the destination cannot be made, or if the release is seeded, incomplete, edited, under way, or leads
    out of its folder. Then there is nothing at the destination.
    """
    _check_destination(release, destination)
    if not release.is_dir():
        raise InputError(f"release {str(release)!r} is not a folder; check the path")
    settled(release)
    where = f"release {str(release)!r}"
    manifest = _content(release, MANIFEST, where)
    files = entries(manifest, where)
    card = _checked_card(release, files, where)
    with _staging(destination) as made:
        copy = _zip if destination.suffix.lower() == ".zip" else _folder
        try:
            copy(made, release, files, manifest, where)
            _put(made, destination)
        except FileExistsError:
            raise _taken(destination) from None
        except OSError as error:
            raise InputError(
                f"{str(destination)!r} cannot be written ({os.strerror(error.errno or 0).lower()}); nothing was published"
            ) from None
    return Published(destination, len(files) + 1, card, hashlib.sha256(manifest).hexdigest())


def _check_destination(release: Path, destination: Path) -> None:
    if "\0" in str(destination):
        raise InputError("the destination has a NUL byte in its name; choose another")
    if os.path.lexists(destination) or destination.name in ("", ".."):
        raise _taken(destination)
    parent = destination.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{str(destination)!r} cannot be made: {str(parent)!r} is no folder that you may write to")
    if Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(release)):
        raise InputError(f"{str(destination)!r} lies in the release itself; choose a place outside it")


def _taken(destination: Path) -> InputError:
    return InputError(f"{str(destination)!r} exists already; choose another destination, or remove it")


def _checked_card(release: Path, files: Mapping[str, Entry], where: str) -> Mapping[str, Any]:
    """The card, if the release may be published by it."""
    if "card.json" not in files:
        raise InputError(f"{MANIFEST} of {where} lists no card.json, so nothing tells its price; {MEND}")
    content = _content(release, "card.json", where)
    if hashlib.sha256(content).hexdigest() != files["card.json"]["sha256"]:
        raise InputError(f"file 'card.json' of {where} was edited after the release; {MEND}")
    try:
        card = json.loads(content)
        private, ledger = card["private"], card["ledger"]
        _ = [f"{card['guarantee'][name]:g}" for name in ("epsilon", "delta", "rho")], card["name"]
        strays = unaccounted(card, files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"card.json of {where} is not the card of a release; {MEND}") from None
    if private is not True:
        raise InputError(
            f"{where} was made with a seeded noise source, for tests: it is not private, and is not published; make it again "
            "without --seed"
        )
    if strays:
        raise InputError(f"the card of {where} does not account for {strays[0]!r}, so its price is not told; {MEND}")
    if isinstance(ledger, Mapping) and Journal.of(str(ledger.get("release_id"))) is not None:
        raise InputError(
            f"{where} is under way still, and its ledger does not know that it is whole; run equistrata resume "
            f"{ledger.get('release_id')} first"
        )
    return dict(card)


@contextmanager
def _staging(destination: Path) -> Iterator[Path]:
    """A place beside the destination, of this process, that goes in the end; those that killed ones have left go first."""
    parent, (prefix, suffix) = destination.absolute().parent, STAGING
    remove_dead(parent, f"{prefix}*{suffix}")
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent))
        except OSError:
            raise InputError(f"{str(destination)!r} cannot be made; check that you may write beside it") from None
        lock = claim(folder)
        if folder.exists():  # else another one took it for a dead one's in the moment before it was held
            break
    try:
        yield folder / "made"
    finally:
        remove(folder)
        if lock is not None:  # a file system may have no locks
            os.close(lock)


def _folder(made: Path, release: Path, files: Mapping[str, Entry], manifest: bytes, where: str) -> None:
    made.mkdir(mode=0o755)
    for name, entry in sorted(files.items()):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        with (made / name).open("xb") as file:
            _copy(release, name, entry, file, where)
    (made / MANIFEST).write_bytes(manifest)
    sync_tree(made)


def _zip(made: Path, release: Path, files: Mapping[str, Entry], manifest: bytes, where: str) -> None:
    """Sorted names, one time and one mode for all: nothing of this machine, and the same bytes each time."""
    with made.open("xb") as whole:
        with zipfile.ZipFile(whole, "w") as archive:
            for name in sorted([*files, MANIFEST]):
                about = zipfile.ZipInfo(name, EPOCH)
                about.compress_type, about.create_system, about.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
                about.file_size = (
                    len(manifest) if name == MANIFEST else files[name]["bytes"]
                )  # for it to know a large file
                with archive.open(about, "w") as file:
                    if name == MANIFEST:
                        file.write(manifest)
                    else:
                        _copy(release, name, files[name], file, where)
        whole.flush()
        os.fsync(whole.fileno())


def _copy(release: Path, name: str, entry: Entry, target: IO[bytes], where: str) -> None:
    """Copy one file. Raises InputError unless what was copied is what the manifest lists."""
    digest, left = hashlib.sha256(), entry["bytes"] + 1
    with _opened(release, name, where) as source:
        while left > 0 and (chunk := _read(lambda: source.read(min(CHUNK, left)), name, where)):  # noqa: B023
            digest.update(chunk)
            target.write(chunk)
            left -= len(chunk)
    if left > 1:
        raise InputError(f"file {name!r} of {where} is cut off; {MEND}")
    if left < 1 or digest.hexdigest() != entry["sha256"]:
        raise InputError(f"file {name!r} of {where} was edited after the release; {MEND}")


def _content(release: Path, name: str, where: str) -> bytes:
    """A small file of the release."""
    with _opened(release, name, where) as file:
        content = _read(lambda: file.read(LONGEST + 1), name, where)
    if len(content) > LONGEST:
        raise InputError(f"file {name!r} of {where} is no {name} of a release: it is too large; {MEND}")
    return content


def _opened(release: Path, name: str, where: str) -> IO[bytes]:
    """A file of the release, opened without following a link: one that leads elsewhere would carry another file away."""
    *folders, last = PurePosixPath(name).parts
    handle = -1
    try:
        handle = os.open(release, os.O_RDONLY | os.O_DIRECTORY)
        for part in folders:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        found = os.open(
            last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle
        )  # a pipe must not make us wait
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else errno.ENOENT
        if number in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise InputError(f"{name!r} of {where} is, or lies behind, a link or another file; {MEND}") from None
        if number == errno.ENOENT:
            raise InputError(f"{where} lacks its file {name!r}, so it is incomplete; {MEND}") from None
        raise InputError(f"file {name!r} of {where} cannot be read; check its permissions") from None
    finally:
        if handle >= 0:
            os.close(handle)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise InputError(f"{name!r} of {where} is no plain file; {MEND}")
    return os.fdopen(found, "rb")


def _read(read: Callable[[], bytes], name: str, where: str) -> bytes:
    """What is read; an error in reading is the release's, not the destination's."""
    try:
        return read()
    except OSError:
        raise InputError(f"file {name!r} of {where} cannot be read; check its disk") from None


def _put(made: Path, destination: Path) -> None:
    """Give what was made its name, if nothing has that yet. Raises FileExistsError if something has."""
    if made.is_dir():
        rename_to_new(made, destination)
    else:
        try:
            os.link(made, destination)
        except FileExistsError:
            raise
        except OSError:  # no links on this file system
            os.close(os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            os.replace(made, destination)
