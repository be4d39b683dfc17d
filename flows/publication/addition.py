"""A public audit is added to the folder of a release: its files, a card with the total cost, and a manifest of all.

Three files of the folder change, and no file system renames three at once. So the addition is first made whole and
durable in a folder `.next` in the release's, which appears by one rename. From then on it counts: each of its parts is
moved to its place, the manifest last, by the process that adds it or, if that was killed, by the next one that opens
the release. This may be interrupted and repeated anywhere. `check_manifest` takes a file of the old manifest or of the
coming one, so it passes at every moment. The folder itself is not replaced: shells and mounts in it would not survive
that. One process at a time may add; the others wait.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from equistrata.analysis.contents.card import read_card, read_means
from equistrata.data.texts.manifest import MANIFEST, NEXT, check_manifest, listed, write_manifest
from equistrata.errors import InputError
from equistrata.flows.release.card.page import card_markdown
from equistrata.flows.run.claims import LOCK, claim
from equistrata.flows.run.disk import sync, sync_tree

ADDING = ".adding-"
PATIENCE = 60.0  # seconds that an addition waits for another one; each takes a moment

Card = Mapping[str, Any]


def add(release: Path, name: str, made: Path, priced: Callable[[Card, str], Card]) -> Path:
    """Copy a finished folder into a release, under this name, or one with a number if that is taken meanwhile.

    `priced` makes the new card from the present one and the folder's name. Raises InputError if the release is damaged
    or cannot be written; then it is as it was.
    """
    with held(release):
        _finish(release)
        check_manifest(release)
        name = free_name(release, name)
        try:
            _lay_out(release, name, made, priced)
        except OSError as error:
            raise InputError(
                f"nothing can be added to release {str(release)!r} ({os.strerror(error.errno or 0).lower()}); mend "
                "that, or give the audit a folder of its own with --output"
            ) from None
        _finish(release)
    return release / name


def free_name(release: Path, name: str) -> str:
    """The name, or the first of `name-2`, `name-3` … that is free in the folder."""
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, 1_000_000))
    return next(each for each in names if not os.path.lexists(release / each))


def finish_addition(release: Path) -> None:
    """Finish an addition that was killed after it was made. Raises InputError if it cannot be finished."""
    if os.path.lexists(release / NEXT):
        with held(release):
            _finish(release)


def _finish(release: Path) -> None:
    """Move the parts of an addition to their places, and remove what was never made whole. The release is held."""
    try:
        for path in release.glob(f"{ADDING}*"):
            shutil.rmtree(path, ignore_errors=True)
        coming = release / NEXT
        if not coming.is_dir():
            return
        for path in sorted(coming.iterdir(), key=lambda path: path.name == MANIFEST):  # the manifest last
            sync(release)
            os.rename(path, release / path.name)
        coming.rmdir()
        sync(release)
    except OSError as error:
        raise InputError(
            f"an audit that was being added to release {str(release)!r} cannot be moved to its place "
            f"({os.strerror(error.errno or 0).lower()}); mend that, and try again as the release's owner"
        ) from None


@contextmanager
def held(release: Path) -> Iterator[None]:
    """Hold a release, so that no other process changes it. Raises InputError if that cannot be had."""
    if not os.access(release, os.W_OK):
        raise InputError(f"release {str(release)!r} cannot be written; mend its permissions, or work as its owner")
    waited = time.monotonic() + PATIENCE
    while (lock := claim(release)) is None:
        if time.monotonic() > waited:
            raise InputError(f"release {str(release)!r} is held by another process; try again when that has ended")
        time.sleep(0.05)
    try:
        yield
    finally:
        try:
            with suppress(OSError):
                (release / LOCK).unlink()
        finally:
            os.close(lock)


def _lay_out(release: Path, name: str, made: Path, priced: Callable[[Card, str], Card]) -> None:
    """Make `.next` in one step, durably."""
    card = priced(read_card(release), name)
    page = card_markdown(card, read_means(release))
    coming = Path(tempfile.mkdtemp(prefix=ADDING, dir=release))
    try:
        (coming / name).mkdir()
        shutil.copytree(made, coming / name, copy_function=shutil.copyfile, dirs_exist_ok=True)
        (coming / name).chmod(0o755)
        (coming / "card.json").write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (coming / "card.md").write_text(page, "utf-8")
        write_manifest(coming, listed(release, f"release {str(release)!r}"))
        coming.chmod(0o755)
        sync_tree(coming)
        os.rename(coming, release / NEXT)
        sync(release)
    finally:
        shutil.rmtree(coming, ignore_errors=True)
