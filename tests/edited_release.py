"""A copy of a release that a function has changed, with a manifest that fits: as a forger leaves it."""

import shutil

from equistrata.data.texts.manifest import MANIFEST, write_manifest


def edited_copy(folder, copy, change):
    """The folder of the copy."""
    shutil.copytree(folder, copy)
    change(copy)
    (copy / MANIFEST).unlink()
    write_manifest(copy)
    return copy
