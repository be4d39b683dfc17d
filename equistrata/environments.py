"""Where the environments of other projects' packages are, which cannot live beside ours; `equistrata setup` makes them.

An environment is looked for in this order: as given or in its variable; `.venv-NAME` in the working folder, as in a
checkout; `equistrata-NAME` in the environment that equistrata itself is installed in.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from equistrata.errors import InputError

STAMP = ".installed"  # written last: without it the installation was interrupted


@dataclass(frozen=True)
class Environment:
    """An environment of its own.

    Attributes:
        name: as `equistrata setup` takes it.
        project: what it is for, in words.
        variable: the environment variable that may name another interpreter.
    """

    name: str
    project: str
    variable: str

    @property
    def of_checkout(self) -> Path:
        """Its folder in a checkout, from the working folder."""
        return Path(f".venv-{self.name}")

    @property
    def of_installation(self) -> Path:
        """Its folder beside the packages of the Python that runs equistrata."""
        return Path(sys.prefix) / f"equistrata-{self.name}"

    def interpreter(self, given: str | None = None) -> Path:
        """Its interpreter: as given, else as its variable names it, else as it was set up.

        Raises InputError if it is not there.
        """
        named = given or os.environ.get(self.variable)
        # Not resolved: an environment's interpreter is a link, and only by its own path does it find its packages.
        folders = [folder for folder in (self.of_checkout, self.of_installation) if (folder / STAMP).exists()]
        found = named or next((str(interpreter_in(folder)) for folder in folders), None)
        if found is None or not os.path.isfile(found):
            where = f"no interpreter {found!r}" if found else "it was not set up here"
            raise InputError(
                f"{self.project}'s environment is not there ({where}); run equistrata setup {self.name} or set "
                f"{self.variable}"
            )
        return Path(os.path.abspath(found))


def interpreter_in(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / "bin" / "python"


SMARTNOISE = Environment("smartnoise", "smartnoise-synth", "EQUISTRATA_SMARTNOISE_PYTHON")
FLOWER = Environment("flower", "Flower", "EQUISTRATA_FLOWER_PYTHON")
