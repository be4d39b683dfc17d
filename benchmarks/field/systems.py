"""The systems of the comparison: our synthesizers, and the peers with their environments, which are pinned here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmarks.rows import STRATA

CHILDREN = Path(__file__).with_name("children")
SMARTNOISE = Path(__file__).parents[2] / "synth/foreign/smartnoise_requirements.txt"


@dataclass(frozen=True)
class Environment:
    """The packages that a peer file requires, for a separate interpreter.

    Attributes
    ----------
    name : str
        The name of its folder in `.venv-peers`.
    requires : tuple of str
        The arguments for pip.
    alone : tuple of str
        The packages that are installed afterwards without their dependencies.
    by_hand : bool
        If True, the environment is not created, because pip cannot find the packages by their names. See
        docs/experiments/field.md.
    """

    name: str
    requires: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    by_hand: bool = False


@dataclass(frozen=True)
class Ours:
    """One of our mechanisms in its default form.

    If `rules` is False, impossible combinations are not declared, which is the same information that a peer has.
    """

    name: str
    shown: str
    mechanism: str
    strata: tuple[str, ...] = ()
    rules: bool = True

    slow: ClassVar[bool] = False


@dataclass(frozen=True)
class Peer:
    """A synthesizer of another project.

    Attributes
    ----------
    name : str
        The name for `--systems`.
    shown : str
        The name in tables.
    file : str
        The name of the file in `children` without its ending.
    synthesizer : str
        The key in the dictionary `FITS` of the file.
    environment : Environment
        The environment of the peer.
    slow : bool
        True if a fit takes minutes. The peer is then only included if it is named.
    """

    name: str
    shown: str
    file: str
    synthesizer: str
    environment: Environment
    slow: bool = False

    @property
    def path(self) -> Path:
        """The peer file."""
        return CHILDREN / f"{self.file}.py"


System = Ours | Peer

_DPMM = Environment("dpmm", ("dpmm==0.1.9",))
# dpsynth is not in a package index, and it requires unreleased versions of other projects.
_DPSYNTH = Environment("dpsynth", by_hand=True)
_OPENDP = Environment("opendp", ("opendp[mbi]==0.16.0", "mbi==1.1.0", "jax==0.10.2", "pandas==2.3.3"))
# The same as for our adapter (make smartnoise), which explains why the second package has no dependencies.
_SMARTNOISE = Environment("smartnoise", ("-r", str(SMARTNOISE)), ("smartnoise-synth==1.0.8",))

SYSTEMS: tuple[System, ...] = (
    Ours("mst", "ours: MST by stratum (default)", "mst", STRATA),
    Ours("aim", "ours: AIM by stratum", "aim", STRATA),
    Ours("gem", "ours: GEM by stratum", "gem", STRATA),
    Ours("aim-vanilla", "ours: AIM vanilla", "aim"),
    Ours("mst-unruled", "ours: MST by stratum, no rules", "mst", STRATA, rules=False),
    Ours("aim-unruled", "ours: AIM vanilla, no rules", "aim", rules=False),
    Peer("smartnoise-mst", "smartnoise-synth MST", "smartnoise", "mst", _SMARTNOISE),
    Peer("dpmm-mst", "dpmm MST", "dpmm", "mst", _DPMM),
    Peer("opendp-mst", "OpenDP MST", "opendp", "mst", _OPENDP),
    Peer("dpsynth-mst", "dpsynth MST", "dpsynth", "mst", _DPSYNTH),
    Peer("dpsynth-swift", "dpsynth SWIFT", "dpsynth", "swift", _DPSYNTH),
    Peer("dpsynth-aim", "dpsynth AIM", "dpsynth", "aim", _DPSYNTH, slow=True),
    Peer("opendp-aim", "OpenDP AIM", "opendp", "aim", _OPENDP, slow=True),
    Peer("dpmm-aim", "dpmm AIM", "dpmm", "aim", _DPMM, slow=True),
    Peer("smartnoise-aim", "smartnoise-synth AIM", "smartnoise", "aim", _SMARTNOISE, slow=True),
)


def named(names: Sequence[str]) -> list[System]:
    """Return the systems with the given names, in the order of `SYSTEMS`. Raises KeyError if a name is unknown."""
    known = {system.name: system for system in SYSTEMS}
    wanted = {known[name].name for name in names}
    return [system for system in SYSTEMS if system.name in wanted]
