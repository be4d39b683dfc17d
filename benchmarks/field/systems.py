"""Who takes part: ours, and the peers with their environments, each pinned here and nowhere else."""

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
    """Packages that a peer file needs, for an interpreter of its own.

    Attributes:
        name: of its folder under `.venv-peers`.
        requires: what pip is given.
        alone: what pip is given next, without its dependencies.
    """

    name: str
    requires: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ours:
    """One of our mechanisms in its default form; without `rules`, as a peer: impossible combinations undeclared."""

    name: str
    shown: str
    mechanism: str
    strata: tuple[str, ...] = ()
    rules: bool = True

    slow: ClassVar[bool] = False


@dataclass(frozen=True)
class Peer:
    """Another synthesizer.

    Attributes:
        name: as `--systems` has it.
        shown: as tables have it.
        file: of `children`, without its ending.
        synthesizer: its key in the file's `FITS`.
        slow: a fit takes minutes, so it takes part only if it is named.
    """

    name: str
    shown: str
    file: str
    synthesizer: str
    environment: Environment
    slow: bool = False

    @property
    def path(self) -> Path:
        """Its peer file."""
        return CHILDREN / f"{self.file}.py"


System = Ours | Peer

_DPMM = Environment("dpmm", ("dpmm==0.1.9",))
_OPENDP = Environment("opendp", ("opendp[mbi]==0.16.0", "mbi==1.1.0", "jax==0.10.2", "pandas==2.3.3"))
# As for our adapter (make smartnoise), which says why the second comes without its dependencies.
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
    Peer("opendp-aim", "OpenDP AIM", "opendp", "aim", _OPENDP, slow=True),
    Peer("dpmm-aim", "dpmm AIM", "dpmm", "aim", _DPMM, slow=True),
    Peer("smartnoise-aim", "smartnoise-synth AIM", "smartnoise", "aim", _SMARTNOISE, slow=True),
)


def named(names: Sequence[str]) -> list[System]:
    """The systems of these names, in the field's order. Raises KeyError with a name that none has."""
    known = {system.name: system for system in SYSTEMS}
    wanted = {known[name].name for name in names}
    return [system for system in SYSTEMS if system.name in wanted]
