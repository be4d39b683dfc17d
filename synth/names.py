"""The names of synthesizers that commands and configuration files accept.

To add a mechanism, write a module with its class in `synth/mechanisms/`, and add an entry to OURS. This module imports
nothing else from the package, so that commands start quickly.
"""

from typing import TYPE_CHECKING, Literal

# The name of each of our mechanisms → its module in `synth/mechanisms/`, and its class.
OURS = {
    "aim": "aim:AIM",
    "gem": "gem:GEM",
    "mst": "mst:MST",
}
if TYPE_CHECKING:
    Ours = str
    Synthesizer = str
else:
    Ours = Literal[tuple(OURS)]
    Synthesizer = Literal[Ours, "smartnoise-aim", "smartnoise-mst", "smartnoise-mwem"]

SMARTNOISE_PREFIX = "smartnoise-"
SNSYNTH = "snsynth"  # snsynth:NAME is a synthesizer from the factory of smartnoise-synth
NAMED_CLASS = r"^[^:]+(:[^:]+)*:[A-Za-z_][A-Za-z0-9_]*$"  # package.module:Class, file.py:Class, snsynth:NAME


def is_foreign(name: str) -> bool:
    """Return True if the synthesizer with this name belongs to another project.

    Parameters
    ----------
    name : str
        The name of a synthesizer.

    Examples
    --------
    >>> is_foreign("mst"), is_foreign("smartnoise-mst"), is_foreign("snsynth:PATECTGAN"), is_foreign("mine.py:Mine")
    (False, True, True, True)
    """
    return ":" in name or name.lower().startswith(SMARTNOISE_PREFIX)


def public_name(name: str) -> str:
    """Return the name of a synthesizer without the folder of its file.

    The folder is removed because it describes the computer of the data steward.

    Parameters
    ----------
    name : str
        The name of a synthesizer.

    Examples
    --------
    >>> public_name("/srv/mine.py:Mine"), public_name("package.module:Class")
    ('mine.py:Mine', 'package.module:Class')
    """
    where, _, called = name.rpartition(":")
    return f"{where.replace(chr(92), '/').rpartition('/')[2]}:{called}" if where.endswith(".py") else name
