"""A complete release folder that matches its manifest, with its card, schema and synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from equistrata.analysis.contents.card import ledger_of
from equistrata.analysis.release import Release
from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.data.sources import read_frame
from equistrata.data.table import CodedTable
from equistrata.data.texts.manifest import listed
from equistrata.errors import InputError
from equistrata.eval.report.findings import ReleaseFacts
from equistrata.eval.report.people import People
from equistrata.flows.publication.addition import finish_addition
from equistrata.flows.publication.audited_card import identity_of, own_price
from equistrata.flows.release.card.groups import unit_of
from equistrata.flows.release.card.page import how_made, title_of


@dataclass(frozen=True, eq=False)
class Released:
    """The content of a release folder that matches its manifest."""

    folder: Path
    manifest: str  # the SHA-256 hash of the manifest
    card: Mapping[str, Any]
    schema: Schema
    means: Mapping[str, Any] | None
    identity: str  # the SHA-256 hash that does not change when audits are added

    @classmethod
    def open(cls, folder: str | Path) -> Released:
        """Check and read a release folder.

        Parameters
        ----------
        folder : str or Path
            The folder.

        Returns
        -------
        Released
            The release.

        Raises
        ------
        InputError
            If the release is not valid. The message describes the first fault.
        """
        folder = Path(folder)
        finish_addition(folder)
        found = Release.open(folder)
        identity = identity_of(listed(folder, f"release {str(folder)!r}"))
        return cls(folder, found.manifest, found.card, found.schema, found.private_means, identity)

    def table(self) -> CodedTable:
        """Return the synthetic rows, coded with the schema of the release, without the survey weight."""
        schema = self.schema.without_weight()
        try:
            coded = CodedTable.encode(read_frame(self.folder / "synthetic.parquet"), schema.coded())
        except InputError as error:
            raise InputError(f"synthetic.parquet of release {str(self.folder)!r}: {error}") from None
        return CodedTable(coded.codes, schema)

    @cached_property
    def weights(self) -> Floats | None:
        """The survey weight of each row as written in the file. If there is no weight, this is None."""
        weight = self.schema.survey_weight
        if weight is None:
            return None
        return read_frame(self.folder / "synthetic.parquet")[weight].to_numpy(dtype=np.float64)

    @property
    def people(self) -> People | None:
        """The description of the survey weight for a report. If there is no weight, this is None."""
        if self.weights is None:
            return None
        column, controls = self.schema[str(self.schema.survey_weight)], self.card.get("controls")
        met = "" if controls is None else f"{controls['source']} by {' × '.join(controls['columns'])}"
        return People(column.name, column.bounds[1], float(self.weights.sum()), met)

    @property
    def strata(self) -> tuple[str, ...]:
        """The columns that define the strata."""
        return tuple(self.card["strata"]["columns"])

    @property
    def ledger(self) -> Mapping[str, Any] | None:
        """The part of the card about the ledger. If the release was not charged, this is None."""
        return ledger_of(self.card)


def facts(releases: Sequence[Released]) -> tuple[ReleaseFacts, ...]:
    """Return the facts about releases for a report.

    Each release has a different name. It is the name of the variant and, if necessary, the ε or the folder.
    """
    variants = [release.card["name"] for release in releases]
    with_price = [f"{v}, ε = {own_price(r.card)['epsilon']:g}" for v, r in zip(variants, releases, strict=True)]
    with_folder = [f"{v} ({r.folder.resolve().name})" for v, r in zip(variants, releases, strict=True)]
    with_number = [f"{v} (number {i})" for i, v in enumerate(variants, start=1)]
    choices = (variants, with_price, with_folder, with_number)
    names = next(names for names in choices if len(set(names)) == len(names))
    return tuple(
        ReleaseFacts(
            name=name,
            variant=release.card["name"],
            folder=release.folder.resolve().name,
            strata=release.strata,
            **{key: own_price(release.card)[key] for key in ("epsilon", "delta", "rho")},
            **{key: release.card[key] for key in ("mechanism", "rows", "source", "created", "software", "private")},
            caveats=tuple(release.card["guarantee"].get("caveats", ())),
            manifest=release.manifest,
            relations=release.card.get("relations"),
            title=title_of(release.card),
            how=_how(release),
            held_out=float(release.card.get("held_out", 0.0)),
            people=release.people,
            odds_on=odds_on(release.card),
            bound=unit_of(release.card).left_out_words(release.card.get("unit_sizes")),
        )
        for release, name in zip(releases, names, strict=True)
    )


def odds_on(card: Mapping[str, Any]) -> str:
    """Return the event for which the privacy cost bounds the odds, which is the difference of two neighbours."""
    unit = unit_of(card)
    alone, rows = unit.column is None or unit.unique, f"the rows of one {unit.column}"
    if str(card["guarantee"].get("relation")).startswith("replace"):
        return "on the content of one person's row" if alone else f"on the content of {rows}"
    return "that a person with one row is in the table" if alone else f"that {rows} are in the table"


def _how(release: Released) -> str:
    """Describe how the rows were made, according to the card.

    For older cards without this information, the text is empty.
    """
    try:
        return how_made(release.card, {column.name: column.label or column.name for column in release.schema.columns})
    except KeyError:
        return ""
