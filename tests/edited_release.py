"""A function that makes an edited copy of a release with a valid manifest, as in a forgery."""

import shutil

from equistrata.data.texts.manifest import MANIFEST, write_manifest


def edited_copy(folder, copy, change):
    """Apply a function to a copy of the release and return the folder of the copy."""
    shutil.copytree(folder, copy)
    change(copy)
    (copy / MANIFEST).unlink()
    write_manifest(copy)
    return copy
