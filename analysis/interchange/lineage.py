"""A release as a run event of OpenLineage 2-0-2, for catalogues that draw how data sets follow from each other.

The event names the job, the data set on the card and the released columns. It contains nothing that the release does
not publish.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from equistrata.analysis.interchange.metadata import data_type, privacy_note, title_of
from equistrata.analysis.release import Release

_SPECIFICATION = "https://openlineage.io/spec"
_NAMESPACE = "equistrata"


def openlineage_event(release: Release) -> dict[str, Any]:
    """Return the event that a release was completed.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    dict
        A RunEvent with the type COMPLETE. The id of the run follows from the id of the release in the ledger or, if no
        budget was charged, from its manifest.
    """
    card = release.card
    ledger = card["ledger"] if isinstance(card.get("ledger"), Mapping) else {}
    release_id = f"{ledger['ledger']}:{ledger['release_id']}" if ledger else release.manifest
    producer = f"urn:{_NAMESPACE}:{card['software'].rpartition(' ')[2]}"

    def facet(name: str, version: str, **said: Any) -> dict[str, Any]:
        schema = f"{_SPECIFICATION}/facets/{version}/{name}.json#/$defs/{name}"
        return {"_producer": producer, "_schemaURL": schema, **said}

    fields = [
        {"name": column.name, "type": data_type(column).removeprefix("sc:"), "description": column.label or column.name}
        for column in release.schema.published
    ]
    output = {
        "namespace": _NAMESPACE,
        "name": title_of(release),
        "facets": {
            "schema": facet("SchemaDatasetFacet", "1-2-0", fields=fields),
            "version": facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=release.manifest),
            "documentation": facet("DocumentationDatasetFacet", "1-1-0", description=privacy_note(release)),
        },
        "outputFacets": {
            "outputStatistics": facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=card["rows"])
        },
    }
    return {
        "eventType": "COMPLETE",
        "eventTime": card["created"],
        "producer": producer,
        "schemaURL": f"{_SPECIFICATION}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(uuid5(NAMESPACE_URL, f"urn:{_NAMESPACE}:{release_id}"))},
        "job": {"namespace": _NAMESPACE, "name": f"release {release.schema.name}"},
        "inputs": [{"namespace": _NAMESPACE, "name": ledger.get("dataset", card["source"])}],
        "outputs": [output],
    }
