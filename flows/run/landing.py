"""Output folders, which are reserved before any work is paid for and filled in one step at the end.

An output is reserved by holding a hidden folder next to it (see `equistrata.flows.run.holdings`). The output is
prepared in this folder, which is the same for every spelling of the output's path. All operations that are needed at
the end are tried when the output is reserved. At the end, a single rename creates the output without replacing an
existing folder.
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
from equistrata.flows.run.claims import LOCK, FolderInUse, empty, remove_if_dead, tried
from equistrata.flows.run.disk import shortened, sync, sync_tree, unusable
from equistrata.flows.run.holdings import hold_folder, remove_dead_holdings
from equistrata.flows.run.workspace import Workspace

INSIDE = 700  # the number of bytes by which paths inside an output may be longer than its own path
PROBE = b"\0" * 65536


def check_output(output: Path) -> None:
    """Check that an output folder does not exist and can be created. Nothing is written.

    Parameters
    ----------
    output : Path
        The path of the output folder.

    Raises
    ------
    InputError
        If the folder exists or cannot be created.
    """
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
    """Reserve an output folder while the block runs.

    The function does not check whether the output exists (see `check_output`). Missing parent folders are created. They
    are removed again if they remain empty.

    Parameters
    ----------
    output : Path
        The path of the output folder.
    parent_mode : int, default=0o777
        The mode of the innermost parent folder that is created. It is reduced by the umask.

    Yields
    ------
    Path
        The hidden folder next to the output.

    Raises
    ------
    InputError
        If another run has reserved the output, or if the output could not be written. In this case nothing is left on
        disk.
    """
    remove_dead_holdings()
    with ExitStack() as stack:
        try:
            folder = tried(lambda: _take_place(output, parent_mode, stack), FileNotFoundError, FileExistsError)
        except FolderInUse as held:
            made = held.args[0] if held.args else output
            raise InputError(
                f"another run is making output folder {str(made)!r}; wait for it to end, or choose another --output"
            ) from None
        except (OSError, ValueError) as error:
            raise _refusal(output, error) from None
        yield folder


def land(work: Workspace, output: Path, mode: int | None = None, parent_mode: int = 0o777) -> Path:
    """Copy the prepared files to the output folder in one step.

    Parameters
    ----------
    work : Workspace
        The working folder of the run. If it has no reserved output, the output is reserved now.
    output : Path
        The path of the output folder.
    mode : int or None, default=None
        The mode of the output folder. If None, it is the mode of the prepared folder.
    parent_mode : int, default=0o777
        The mode of missing parent folders (see `claimed_output`).

    Returns
    -------
    Path
        The path of the output folder.

    Raises
    ------
    InputError
        If the folder exists or cannot be written. In this case no output folder is created.
    """
    with ExitStack() as stack:
        folder = work.landing or stack.enter_context(claimed_output(output, parent_mode))
        check_output(output)
        try:
            # This folder is not shared with other runs, even if the lock was lost.
            made = Path(tempfile.mkdtemp(prefix="output-", dir=folder))
            _copy(work.staging, made)
            if mode is not None:
                made.chmod(mode)
            sync_tree(made)
            rename_to_new(made, folder.parent / output.name)
        except FileExistsError:
            raise InputError(f"output folder {str(output)!r} was made meanwhile; choose another --output") from None
        except OSError as error:
            raise _refusal(output, error) from None
        with suppress(OSError):  # a folder cannot be synced on some file systems
            sync(folder.parent)
    return output


def rename_to_new(source: Path, target: Path) -> None:
    """Rename a folder or a file to a new name.

    If the name exists, even as an empty folder, a FileExistsError is raised.
    """
    number = _rename_exclusively(source, target)
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):  # not supported by the system or the file system
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
    """Call renameat2(2) with RENAME_NOREPLACE. Return its error number, which is 0 if there is no error."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return errno.ENOSYS
    here = -100  # AT_FDCWD
    done = call(here, os.fsencode(source.absolute()), here, os.fsencode(target.absolute()), 1)
    return 0 if done == 0 else ctypes.get_errno()


def _take_place(output: Path, parent_mode: int, stack: ExitStack) -> Path:
    """Hold the folder next to the output until the stack is closed, and try the operations that will be needed."""
    if output.name in ("", ".."):
        raise OSError(errno.EINVAL, "no name of its own")
    with ExitStack() as attempt:
        parent = output.absolute().parent
        missing = [each for each in (parent, *parent.parents) if not each.exists()]
        attempt.callback(_remove_empty, missing)
        _check_free(missing)
        parent.mkdir(mode=parent_mode, parents=True, exist_ok=True)
        beside = parent.resolve(strict=True) / _hidden_name(output.name)
        folder = attempt.enter_context(hold_folder(beside, exist_ok=True))
        empty(folder)  # it may contain files of a run that has died
        _try_out(folder, output)
        stack.enter_context(attempt.pop_all())
    return folder


def _check_free(missing: list[Path]) -> None:
    """Raise Held if another run has reserved the path of a missing parent.

    The output of the other run could not be created if its parent existed.
    """
    for folder in missing:
        beside = folder.with_name(_hidden_name(folder.name))
        if (beside / LOCK).exists() and not remove_if_dead(beside):
            raise FolderInUse(folder)


def _try_out(folder: Path, output: Path) -> None:
    """Raise an OSError if an output with this name could not be written to its folder."""
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
    """Return the name of the hidden folder. It is the same for all spellings that are equal on some file systems."""
    hidden = f".{name}.part"
    if len(os.fsencode(hidden)) <= 200:
        return hidden
    folded = unicodedata.normalize("NFC", name).casefold()
    return f".{hashlib.sha256(os.fsencode(folded)).hexdigest()[:32]}.part"


def _remove_empty(folders: list[Path]) -> None:
    """Remove empty folders, starting at the innermost one, until a folder is not empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _copy(source: Path, target: Path) -> None:
    """Copy the files and the modes of folders. No other attributes of the private files are copied."""
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
