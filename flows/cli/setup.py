"""The command `equistrata setup`, which creates environments for packages that cannot be installed with equistrata."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from equistrata.environments import FLOWER, SMARTNOISE, STAMP, Environment, interpreter_in
from equistrata.errors import InputError
from equistrata.flows.cli.console import err, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import Flag, Settings, setting

SMARTNOISE_VERSION = "1.0.8"
# The neural synthesizers of smartnoise-synth need these packages. The package torch alone takes 5 GB.
NEURAL = ("torch", "packaging")
PACKAGE = Path(str(resources.files("equistrata")))  # found without an import, so that commands start quickly
_FOREIGN, _FEDERATED = PACKAGE / "synth" / "foreign", PACKAGE / "inference" / "federated"


@dataclass(frozen=True)
class Contents:
    """The content of an environment.

    Attributes
    ----------
    requirements : Path
        A requirements file.
    worker : Path
        The program that uses the environment. It is also used to check the environment.
    more : tuple of str
        Additional packages that are installed with their dependencies.
    alone : tuple of str
        Packages that are installed without their dependencies.
    """

    requirements: Path
    worker: Path
    more: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The hash of the packages that are installed."""
        whole = self.requirements.read_bytes() + repr((self.more, self.alone)).encode()
        return hashlib.sha256(whole).hexdigest()


def smartnoise_contents(neural: bool = False) -> Contents:
    """Return the packages for smartnoise-synth, optionally with its neural synthesizers."""
    own = (f"smartnoise-synth=={SMARTNOISE_VERSION}", *(("opacus==0.14.0",) if neural else ()))
    requirements, worker = _FOREIGN / "smartnoise_requirements.txt", _FOREIGN / "_foreign_worker.py"
    return Contents(requirements, worker, NEURAL if neural else (), own)


def flower_contents() -> Contents:
    """Return the packages for Flower."""
    return Contents(_FEDERATED / "flower_requirements.txt", _FEDERATED / "_flower_worker.py")


class SetupSettings(Settings):
    folder: Path | None = setting(
        None,
        "Folder in which the environment is created. If not given, it is beside the packages of equistrata. If "
        "given, set the environment variable to its bin/python.",
    )


class SmartNoiseSettings(SetupSettings):
    neural: Flag = setting(False, "Also install PyTorch (5 GB), for snsynth:PATECTGAN, DPCTGAN, PATEGAN and DPGAN.")


@command("setup smartnoise", SmartNoiseSettings)
def setup_smartnoise(settings: SmartNoiseSettings) -> None:
    """Create the environment of smartnoise-synth, which is needed for release --synthesizer smartnoise-mst (1 GB)."""
    wanted = [smartnoise_contents(neural=True), *([] if settings.neural else [smartnoise_contents()])]
    _set_up(SMARTNOISE, wanted, settings.folder)


@command("setup flower", SetupSettings)
def setup_flower(settings: SetupSettings) -> None:
    """Create the environment of Flower, which is needed for federate --aggregator flower (150 MB)."""
    _set_up(FLOWER, [flower_contents()], settings.folder)


def _set_up(environment: Environment, wanted: Sequence[Contents], folder: Path | None) -> None:
    """Create an environment with the last of the contents, unless an environment with any of them exists."""
    place = environment.of_installation if folder is None else folder
    stamp = place / STAMP
    if stamp.exists() and stamp.read_text("utf-8") in {each.digest for each in wanted}:
        print_lines(f"{environment.project} is there already: {interpreter_in(place)}")
        return
    if place.exists() and any(place.iterdir()) and not (place / "pyvenv.cfg").exists():
        raise InputError(f"{str(place)!r} exists, but is not an environment; move it away, or name another --folder")
    print_lines(f"Installing {environment.project} into {place}; this takes a few minutes.", console=err)
    make_environment(place, wanted[-1])
    print_lines(f"{environment.project} is ready: {interpreter_in(place)}")


def make_environment(place: Path, contents: Contents) -> None:
    """Create an environment and replace an existing one.

    Raises
    ------
    InputError
        If a step fails. The message contains the output of the step.
    """
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"folder {str(place)!r} cannot be made ({error.strerror}); name another --folder") from None
    python = str(interpreter_in(place))
    install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    steps = [
        [sys.executable, "-m", "venv", str(place)],
        [*install, "-r", str(contents.requirements), *contents.more],
        *([[*install, "--no-deps", *contents.alone]] if contents.alone else []),
        [python, "-I", str(contents.worker), "--check"],
    ]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, check=False, env=_environment())
        except OSError as error:
            raise InputError(f"{step[0]!r} cannot be run ({error.strerror}); install Python's venv and pip") from None
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip()).splitlines()
            said = " ".join(words[-2:]) or "it said nothing"
            raise InputError(
                f"{' '.join(step[1:4])} … failed ({said}); check that packages can be downloaded, and try again"
            )
    (place / STAMP).write_text(contents.digest, "utf-8")


def _environment() -> dict[str, str]:
    """Return the environment variables for pip and venv. Paths that contain other packages are removed."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
