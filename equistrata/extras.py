"""Packages that only some commands need, as extras of the installation: `pip install 'equistrata[audit]'`."""

from importlib.util import find_spec

from equistrata.errors import InputError

EXTRAS = {
    "acs": ("folktables",),
    "audit": ("matplotlib", "sklearn"),
}


def need(extra: str, what: str) -> None:
    """Raise InputError, with the way out, unless the packages of an extra are installed.

    Args:
        extra: one of EXTRAS.
        what: needs it, as the user named it.
    """
    if not all(find_spec(package) for package in EXTRAS[extra]):
        raise InputError(f"{what} needs packages that are not installed; install equistrata[{extra}]")
