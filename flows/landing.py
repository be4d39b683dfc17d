"""A folder of output: looked at before any work is done, and made in one step once the work is done."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from data.errors import InputError
from flows.workspace import Workspace, sync_tree


def check_output(output: Path) -> None:
    """Raise InputError if the folder is there already, or cannot be made. Nothing is written."""
    if output.exists():
        raise InputError(f"output folder {str(output)!r} exists already; choose another with --output, or remove it")
    parent = next(folder for folder in output.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(
            f"output folder {str(output)!r} cannot be made in {str(parent)!r}; choose a folder you may write to with --output"
        )


def land(work: Workspace, output: Path, mode: int | None = None, parent_mode: int = 0o777) -> Path:
    """Move what was staged to its place: nobody sees half of it there, and a run that fails leaves nothing.

    Args:
        work: what is staged in it is copied.
        mode: of the folder; None for the staged one's.
        parent_mode: of the folder it is made in, if that is made too; the umask applies.

    Raises InputError if the folder is there already, or cannot be written.
    """
    check_output(output)
    landing = output.with_name(f".{output.name}.part")  # beside its place, so that a rename is enough
    try:
        output.parent.mkdir(mode=parent_mode, parents=True, exist_ok=True)
        shutil.rmtree(landing, ignore_errors=True)
        work.land(landing)  # before it exists: if this run is killed, the next one removes it
        if mode is not None:
            work.staging.chmod(mode)  # copytree hands it on
        landing.mkdir(mode=0o700)  # what is not whole is nobody else's
        # Contents, and no more: modes and times of files in a private folder have no meaning outside.
        shutil.copytree(work.staging, landing, copy_function=shutil.copyfile, dirs_exist_ok=True)
        sync_tree(landing)
        os.rename(landing, output)
    except OSError:
        raise InputError(f"output folder {str(output)!r} cannot be written; check its parent's permissions") from None
    finally:
        shutil.rmtree(landing, ignore_errors=True)  # gone already, if all went well
    return output
