"""Storage of the fitted model and its replicates in a release, so that readers do not have to fit them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.analysis.uncertainty.replicates import Replicate, ReplicateGenerator
from equistrata.data.texts.manifest import MODELS
from equistrata.synth.strata.model import StratifiedModel

_FITTED = "fitted.npz"
_FAR = 5e-3  # total variation distance: arithmetic of another machine changes a fit by less


def write_models(
    folder: Path,
    evidence: Evidence,
    count: int,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Write the fitted model and its replicates to the folder `models` of a release.

    This is post-processing and has no privacy cost.

    Parameters
    ----------
    folder : Path
        The folder of the release.
    evidence : Evidence
        The measurements of the release.
    count : int
        The number of replicates.
    workers : int, default=1
        The number of processes that fit replicates in parallel.
    progress : callable, optional
        A function that is called with the number of completed replicates and `count`.
    """
    place = folder / MODELS
    place.mkdir()
    evidence.fitted.save(place / _FITTED)
    progress(0, count)
    for number, (model, _) in enumerate(ReplicateGenerator(evidence).models(range(count), workers), start=1):
        model.save(place / _name(number))
        progress(number, count)


@dataclass(frozen=True, eq=False)
class StoredReplicates(Sequence[Replicate]):
    """The replicates that a release stores. A file is only read when its replicate is needed.

    Parameters
    ----------
    evidence : Evidence
        The measurements of the release, with the stored fitted model.
    files : tuple of Path
        One file for each replicate.
    """

    evidence: Evidence
    files: tuple[Path, ...]

    @cached_property
    def _replicating(self) -> ReplicateGenerator:
        return ReplicateGenerator(self.evidence)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place: Any) -> Any:
        schema = self.evidence.model.strata.schema
        values = self._replicating.noisy_rows(place)
        return StratifiedModel.load(self.files[place], schema), values


def with_models(folder: Path, evidence: Evidence) -> tuple[Evidence, Sequence[Replicate]]:
    """Return the evidence with the stored fitted model of a release, and its stored replicates.

    Raises
    ------
    InputError
        If the file of the fitted model is not a model of the release's schema.
    """
    place = folder / MODELS
    if not (place / _FITTED).exists():
        return evidence, ()
    evidence = replace(evidence, stored=StratifiedModel.load(place / _FITTED, evidence.strata.schema))
    return evidence, StoredReplicates(evidence, tuple(sorted(place.glob("replicate-*.npz"))))


def models_faults(folder: Path, evidence: Evidence, count: int) -> Iterator[str]:
    """Refit the fitted model and the first replicate, and yield the files that do not follow from the measurements.

    Parameters
    ----------
    folder : Path
        The folder of the release.
    evidence : Evidence
        The measurements of the release.
    count : int
        The number of replicates that the card states.

    Yields
    ------
    str
        A sentence about each fault.
    """
    stored, replicates = with_models(folder, evidence)
    if len(replicates) != count:
        yield f"{MODELS}/ holds {len(replicates)} replicates, but the card states {count!r}"
    own = set() if stored is evidence else {_FITTED, *map(_name, range(1, len(replicates) + 1))}
    if not {path.name for path in (folder / MODELS).glob("*")} <= own:
        yield f"{MODELS}/ has files that do not belong to a release"
    elif stored is evidence:  # the release stores no models
        return
    elif not _close(stored.fitted, evidence.fitted):
        yield f"{MODELS}/{_FITTED} does not follow from the measurements"
    elif replicates and not _close(replicates[0][0], next(iter(ReplicateGenerator(evidence).models([0])))[0]):
        yield f"the replicates in {MODELS} do not follow from the measurements"


def _name(number: int) -> str:
    """Return the file name of a replicate, counted from 1."""
    return f"replicate-{number:03d}.npz"


def _close(one: StratifiedModel, other: StratifiedModel) -> bool:
    """Return True if two models agree in the sizes of the strata and in each column within each stratum."""
    if one.strata.columns != other.strata.columns or not np.isclose(one.total, other.total, rtol=_FAR):
        return False
    strata = [*one.strata.columns]
    groups = [[*strata, name] for name in one.strata.schema.names if name not in strata] or [strata]
    apart = (np.abs(one.marginal(names) - other.marginal(names)).sum() / 2 for names in groups)
    return all(distance <= _FAR * other.total for distance in apart)
