"""The names of synthesizers, as commands and configuration take them. Without imports, since these start quickly."""

from typing import Literal

Ours = Literal["aim", "gem", "mst"]
Synthesizer = Literal[Ours, "smartnoise-aim", "smartnoise-mst", "smartnoise-mwem"]

SMARTNOISE_PREFIX = "smartnoise-"
SNSYNTH = "snsynth"  # snsynth:NAME is a synthesizer that smartnoise-synth's factory makes
NAMED_CLASS = r"^[^:]+(:[^:]+)*:[A-Za-z_][A-Za-z0-9_]*$"  # package.module:Class, file.py:Class, snsynth:NAME


def is_foreign(name: str) -> bool:
    """Whether a synthesizer of this name is another project's.

    >>> is_foreign("mst"), is_foreign("smartnoise-mst"), is_foreign("snsynth:PATECTGAN"), is_foreign("mine.py:Mine")
    (False, True, True, True)
    """
    return ":" in name or name.lower().startswith(SMARTNOISE_PREFIX)


def public_name(name: str) -> str:
    """The name of a synthesizer without the folder of its file, which is the steward's own.

    >>> public_name("/home/me/mine.py:Mine"), public_name("package.module:Class")
    ('mine.py:Mine', 'package.module:Class')
    """
    where, _, called = name.rpartition(":")
    return f"{where.replace(chr(92), '/').rpartition('/')[2]}:{called}" if where.endswith(".py") else name
