"""Virtual environments for packages of other projects that cannot be installed together with equistrata.

The command `equistrata setup` creates them. An environment is searched for in the following order: the interpreter that
is given or named by the environment variable, the folder `.venv-NAME` in the working folder, and the folder
`equistrata-NAME` in the environment in which equistrata is installed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from equistrata.errors import InputError

STAMP = ".installed"  # written at the end of the installation, so it is missing if the installation was interrupted


@dataclass(frozen=True)
class Environment:
    """A virtual environment of another project.

    Attributes
    ----------
    name : str
        The name, which is the argument of `equistrata setup`.
    project : str
        The name of the project.
    variable : str
        The environment variable that can name another interpreter.
    """

    name: str
    project: str
    variable: str

    @property
    def of_checkout(self) -> Path:
        """The folder of the environment in a checkout, relative to the working folder."""
        return Path(f".venv-{self.name}")

    @property
    def of_installation(self) -> Path:
        """The folder of the environment next to the packages of the Python that runs equistrata."""
        return Path(sys.prefix) / f"equistrata-{self.name}"

    def interpreter(self, given: str | None = None) -> Path:
        """Return the path of the interpreter.

        Parameters
        ----------
        given : str or None, default=None
            The path of the interpreter. If None, the environment variable is used. If this is not set either, the
            environment that was created by `equistrata setup` is used.

        Returns
        -------
        Path
            The absolute path.

        Raises
        ------
        InputError
            If the interpreter does not exist.
        """
        named = given or os.environ.get(self.variable)
        # The interpreter is a link and finds its packages by its own path, so the path must not be resolved.
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
    """Return the path of the interpreter of a virtual environment."""
    return folder / "bin" / "python"


SMARTNOISE = Environment("smartnoise", "smartnoise-synth", "EQUISTRATA_SMARTNOISE_PYTHON")
FLOWER = Environment("flower", "Flower", "EQUISTRATA_FLOWER_PYTHON")
