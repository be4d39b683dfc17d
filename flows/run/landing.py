"""Output folders: the place is taken before any work is paid for, and filled in one step once the work is done.

The place is taken by holding a hidden folder beside it (`equistrata.flows.run.holdings`), in which the output takes
shape: it is the same folder for every spelling of the output's path. Everything that could keep the output from landing
is tried out at once. In the end one rename, which replaces nothing, makes the output appear.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from equistrata.errors import InputError
from equistrata.flows.run.claims import LOCK, Held, empty, remove_if_dead, tried
from equistrata.flows.run.disk import shortened, sync, sync_tree, unusable
from equistrata.flows.run.holdings import held_folder, remove_dead_holdings
from equistrata.flows.run.workspace import Workspace

INSIDE = 700  # bytes that paths inside an output may have on top of its own
PROBE = b"\0" * 65536


def check_output(output: Path) -> None:
    """Raise InputError if the folder is there already, or cannot be made. Nothing is written."""
    try:
        if output.name in ("", ".."):
            output = Path(os.path.realpath(output))
        os.lstat(output)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise _refusal(output, error) from None
    else:
        if output.exists():
            raise InputError(f"output folder {str(output)!r} exists already; choose another --output, or remove it")
        raise InputError(f"output folder {str(output)!r} is a link that leads nowhere; choose another --output")
    try:
        parent = next(folder for folder in output.absolute().parents if folder.exists())
    except OSError as error:
        raise _refusal(output, error) from None
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise _refusal(output, PermissionError())


@contextmanager
def claimed_output(output: Path, parent_mode: int = 0o777) -> Iterator[Path]:
    """Hold the place of an output folder while the block runs; gives the hidden folder beside it.

    Missing parents are made (the innermost of this mode, less the umask), and removed again if nothing lands in them.
    Raises InputError if another run holds it, or if an output could not be written there; then nothing is left. Whether
    the output exists is not checked: see `check_output`.
    """
    remove_dead_holdings()
    with ExitStack() as stack:
        try:
            folder = tried(lambda: _take_place(output, parent_mode, stack), FileNotFoundError, FileExistsError)
        except Held as held:
            made = held.args[0] if held.args else output
            raise InputError(
                f"another run is making output folder {str(made)!r}; wait for it to end, or choose another --output"
            ) from None
        except (OSError, ValueError) as error:
            raise _refusal(output, error) from None
        yield folder


def land(work: Workspace, output: Path, mode: int | None = None, parent_mode: int = 0o777) -> Path:
    """Copy what was staged to its place (`Workspace.landing`, or one that it takes now), all at once, or not at all.

    `mode` is the folder's, else the staged one's; `parent_mode` that of `claimed_output`. Raises InputError if the
    folder is there already, or cannot be written.
    """
    with ExitStack() as stack:
        folder = work.landing or stack.enter_context(claimed_output(output, parent_mode))
        check_output(output)
        try:
            made = Path(tempfile.mkdtemp(prefix="output-", dir=folder))  # of this run, even if its claim was lost
            _copy(work.staging, made)
            if mode is not None:
                made.chmod(mode)
            sync_tree(made)
            rename_to_new(made, folder.parent / output.name)
        except FileExistsError:
            raise InputError(f"output folder {str(output)!r} was made meanwhile; choose another --output") from None
        except OSError as error:
            raise _refusal(output, error) from None
        with suppress(OSError):  # some file systems cannot sync a folder
            sync(folder.parent)
    return output


def rename_to_new(source: Path, target: Path) -> None:
    """Rename a folder or file to a new name. Raises FileExistsError if anything has it, even an empty folder."""
    number = _rename_exclusively(source, target)
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):  # by this system, or on this file system
        if source.is_dir():
            target.mkdir(mode=0o700)
        else:
            target.touch(exist_ok=False)
        try:
            os.rename(source, target)
        except OSError:
            (target.rmdir if target.is_dir() else target.unlink)()
            raise
    elif number:
        raise OSError(number, os.strerror(number), str(target))


def _rename_exclusively(source: Path, target: Path) -> int:
    """renameat2(2) with RENAME_NOREPLACE; the number of its error, 0 for none."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return errno.ENOSYS
    here = -100  # AT_FDCWD
    done = call(here, os.fsencode(source.absolute()), here, os.fsencode(target.absolute()), 1)
    return 0 if done == 0 else ctypes.get_errno()


def _take_place(output: Path, parent_mode: int, stack: ExitStack) -> Path:
    """Hold the folder beside the output while the stack lives, and try out there what landing will need."""
    if output.name in ("", ".."):
        raise OSError(errno.EINVAL, "no name of its own")
    with ExitStack() as attempt:
        parent = output.absolute().parent
        missing = [each for each in (parent, *parent.parents) if not each.exists()]
        attempt.callback(_remove_empty, missing)
        _check_free(missing)
        parent.mkdir(mode=parent_mode, parents=True, exist_ok=True)
        beside = parent.resolve(strict=True) / _hidden_name(output.name)
        folder = attempt.enter_context(held_folder(beside, exist_ok=True))
        empty(folder)  # a dead run's
        _try_out(folder, output)
        stack.enter_context(attempt.pop_all())
    return folder


def _check_free(missing: list[Path]) -> None:
    """Raise Held if another run holds the place of a missing parent: its output could not land any more."""
    for folder in missing:
        beside = folder.with_name(_hidden_name(folder.name))
        if (beside / LOCK).exists() and not remove_if_dead(beside):
            raise Held(folder)


def _try_out(folder: Path, output: Path) -> None:
    """Raise OSError if an output of that name could not be written in its folder."""
    with suppress(FileNotFoundError):
        os.lstat(folder.parent / output.name)
    if len(os.fsencode(folder.parent / output.name)) + INSIDE > os.pathconf(folder, "PC_PATH_MAX"):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    made, called = Path(tempfile.mkdtemp(dir=folder)), folder / "tried"
    with (made / "file").open("wb") as file:
        file.write(PROBE)
        file.flush()
        os.fsync(file.fileno())
    made.chmod(0o700)
    sync(made)
    rename_to_new(made, called)
    shutil.rmtree(called)


def _hidden_name(name: str) -> str:
    """The name of the folder beside an output; the same for all spellings that a file system may not tell apart."""
    hidden = f".{name}.part"
    if len(os.fsencode(hidden)) <= 200:
        return hidden
    folded = unicodedata.normalize("NFC", name).casefold()
    return f".{hashlib.sha256(os.fsencode(folded)).hexdigest()[:32]}.part"


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, the innermost first, up to one in which there is something."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _copy(source: Path, target: Path) -> None:
    """Copy contents and the folders' modes, and no other attribute of private files."""
    for path in sorted(source.iterdir()):
        if path.is_dir():
            (target / path.name).mkdir(mode=0o700)
            _copy(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)
    target.chmod(stat.S_IMODE(source.stat().st_mode))


def _refusal(output: Path, error: Exception) -> InputError:
    if isinstance(error, FileExistsError) and error.filename and Path(error.filename).name.endswith(".part"):
        return InputError(f"{error.filename!r} is in the way of {str(output)!r}; remove it, or choose another --output")
    place = next(str(folder) for folder in output.absolute().parents if os.path.exists(folder))
    return unusable(f"output folder {shortened(str(output))!r}", "--output", error, place)
