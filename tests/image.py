"""Functions that build docs/deploy/Dockerfile without Docker, where each stage is a folder with a Python environment.

The absolute paths in the instructions are replaced by paths in the folder of the stage. Commands that require root are
replaced by programs of the same name, which ignore users and owners.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = ROOT / "docs" / "deploy" / "Dockerfile"
_STAND_INS = {
    "useradd": "exit 0",
    "install": 'for word do shift; [ "$word" = -o ] && skip=1 && continue; [ "${skip-}" ] && skip= && continue; '
    'set -- "$@" "$word"; done; exec /usr/bin/install "$@"',
}


@dataclass(frozen=True)
class Stage:
    """A stage of the build, with its base image, its name and its instructions."""

    base: str
    name: str
    instructions: tuple[tuple[str, str], ...]

    def of(self, instruction: str) -> list[str]:
        """Return the arguments of each instruction of this type."""
        return [rest for word, rest in self.instructions if word == instruction]

    @property
    def python(self) -> str:
        """Return the Python version of the base image, such as 3.12."""
        found = re.fullmatch(r"python:(3\.\d+)-slim", self.base)
        assert found, f"the base image is {self.base}"
        return found[1]

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that are set by ENV."""
        return dict(word.split("=", 1) for rest in self.of("ENV") for word in rest.split())


def stages(path: Path = DOCKERFILE) -> list[Stage]:
    """Return the stages of the file, in which continued lines are joined."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    lines = [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found: list[Stage] = []
    for word, rest in lines:
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name, ()))
        else:
            found[-1] = Stage(found[-1].base, found[-1].name, (*found[-1].instructions, (word, rest)))
    return found


def context(root: Path = ROOT) -> list[str]:
    """Return the files in the build context, which .dockerignore lists with a "!" and does not exclude again."""
    lines = [line for line in (root / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert lines[0] == "*", "it keeps only what it names"
    kept = [line[1:] for line in lines if line.startswith("!")]
    dropped = [line.removeprefix("**/") for line in lines[1:] if not line.startswith("!")]
    files = []
    for name in kept:
        place = root / name
        assert place.exists(), f".dockerignore keeps {name}, which is not there"
        inside = place.rglob("*") if place.is_dir() else [place]
        files += [each for each in inside if each.is_symlink() or each.is_file()]
    names = [each.relative_to(root).as_posix() for each in files]
    return [name for name in names if not any(fnmatch.fnmatch(part, no) for part in name.split("/") for no in dropped)]


def python_of(version: str) -> str:
    """Return an interpreter of this version, or the current interpreter if there is none."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"), reverse=True)
    found = shutil.which(f"python{version}")
    works = found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
    return found if found and works else str(pyenv[0]) if pyenv else sys.executable


@dataclass
class Image:
    """An image in the form of folders."""

    folder: Path
    built: dict[str, Path] = field(default_factory=dict)
    workdir: str = "/"

    def build(self) -> Stage:
        """Run all instructions and return the last stage.

        If an instruction fails, an AssertionError with the output is raised.
        """
        for number, stage in enumerate(stages()):
            root = self.folder / (stage.name or f"stage{number}")
            root.mkdir(parents=True)
            self.built[stage.name or "final"] = root
            self.workdir = "/"
            subprocess.run([python_of(stage.python), "-m", "venv", root / "python"], check=True)
            stand_ins = root / "stand-ins"
            stand_ins.mkdir()
            for name, body in _STAND_INS.items():
                (stand_ins / name).write_text(f"#!/bin/sh\n{body}\n")
                (stand_ins / name).chmod(0o755)
            for word, rest in stage.instructions:
                self._do(word, rest, root)
        return stage

    @property
    def root(self) -> Path:
        """Return the folder of the last stage."""
        return self.built["final"]

    def inside(self, text: str, root: Path | None = None) -> str:
        """Replace the absolute paths of the image in a text by paths on this machine."""
        return re.sub(r"(?<![\w.:/-])/(?=[a-z])(?!usr/bin|bin/|dev/)", f"{root or self.root}/", text)

    def environment(self, root: Path | None = None) -> dict[str, str]:
        """Return the environment of the image, which has no variables for Python or Prefect of this machine."""
        place = root or self.root
        ours = ("PYTHON", "PREFECT", "EQUISTRATA", "VIRTUAL_ENV", "PG")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        programs = f"{place / 'stand-ins'}:{place / 'python' / 'bin'}:/usr/bin:/bin"
        return kept | {"PATH": programs, "HOME": str(place / "home")}

    def _do(self, word: str, rest: str, root: Path) -> None:
        if word == "WORKDIR":
            self.workdir = rest
            (root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            self._copy(rest, root)
        elif word == "RUN":
            done = subprocess.run(
                ["sh", "-ec", self.inside(rest, root)], cwd=root / self.workdir.lstrip("/"), env=self.environment(root),
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"RUN {rest}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"

    def _copy(self, rest: str, root: Path) -> None:
        flags = [word for word in rest.split() if word.startswith("--")]
        *sources, target = [word for word in rest.split() if not word.startswith("--")]
        of = next((flag.partition("=")[2] for flag in flags if flag.startswith("--from=")), None)
        place = root / (target if target.startswith("/") else f"{self.workdir}/{target}").lstrip("/")
        for source in sources:
            if of is not None:
                shutil.copytree(self.built[of] / source.lstrip("/"), place, dirs_exist_ok=True)
                continue
            chosen = [name for name in context() if source in (".", name) or name.startswith(f"{source}/")]
            assert chosen, f"COPY {rest}: {source} is not in what a build is sent"
            for name in chosen:
                to = place / name if source == "." else place / Path(name).name if target.endswith("/") else place
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, to, follow_symlinks=False)
