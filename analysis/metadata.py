"""Metadata of a release for the registry of differential privacy deployments and for data catalogues.

The supported formats are schema.org with MLCommons Croissant 1.0 and W3C DCAT 3. The metadata only use the files of the
release, so they contain nothing private. Fields that only the publisher knows, such as the intended use, are marked by
`TO_FILL` in a registry entry and left out of the catalogue metadata.

References
----------
.. [1] opendp/deployments-registry-data, schemas/deployments-schema.yaml (November 2026).
.. [2] MLCommons Croissant format, version 1.0.
.. [3] Data Catalog Vocabulary (DCAT), version 3, W3C Recommendation of 22 August 2024.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from equistrata.analysis.release import Release
from equistrata.data.schema import Column
from equistrata.data.texts.manifest import listed

TO_FILL = "TO BE FILLED IN BY THE PUBLISHER"
CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
_MEDIA = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
_SECURITY = "The release is made by a batch that answers no queries, so timing is not observed."


def registry_entry(release: Release) -> dict[str, Any]:
    """Create the entry of a release in the registry, with all fields of tier 3 that are known from its card.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    dict
        The entry. The text of a field that only the publisher knows is `TO_FILL`.
    """
    card, guarantee = release.card, release.card["guarantee"]
    about, private = card.get("report") or {}, card.get("private", False)
    split = "; ".join(f"{name}: ρ = {part:.6g}" for name, part in guarantee["split_of_rho"].items())
    several = [each for each in card.get("groups", []) if each.get("epsilon") and each["units"] > 1]
    groups = "; ".join(f"{each['units']}: ε = {each['epsilon']:.4g}" for each in several)
    columns = ", ".join(column.label or column.name for column in release.schema.published)
    name = _title(release)
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{name} {card['created'][:4]}".lower()).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [about.get("agency") or f"{TO_FILL}: who publishes it"],
                "description": f"{card['rows']:,} synthetic rows. Columns: {columns}. Made from: {card['source']}.",
                "intended_use": f"{TO_FILL}: what it is for",
                "data_product_type": "Synthetic data",
                "data_product_region": f"{TO_FILL}: which region the data describe",
                "publication_date": card["created"][:10],
            },
            "dp_variant": {
                "variant_name": "Zero-concentrated DP",
                "data_domain": "Tables of at least one row, with the columns and values of the public schema "
                f"{release.schema.name!r} (SHA-256 {release.schema.digest}).",
                "unprotected_quantities": str(card.get("not_covered", "none")),
            },
            "privacy_loss": {
                "privacy_unit": str(guarantee.get("unit", "one row")),
                "privacy_unit_details": str(guarantee.get("relation", "")),
                "privacy_parameters": {name: guarantee[name] for name in ("epsilon", "delta", "rho")},
                "privacy_parameters_details": f"Accounted in ρ; ε at the stated δ follows from it. {split}."
                + (f" Of several units together: {groups}." if groups else ""),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "The publisher holds the rows and is trusted; readers get the release and are not. "
                f"{TO_FILL}: who else sees the rows",
                "release_type": "One release",
                "release_type_details": _ledger(card),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Model, rows, intervals and replicates are made of the noisy measurements alone: "
                f"estimation of a graphical model{', shrinkage between strata' if card.get('shrinkage') else ''}, "
                "rounding, rules of the schema.",
                "composition": str(guarantee.get("composition", "")),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Values are coded by the public schema. Settings are public "
                "and were chosen without the rows; what is chosen by the rows is chosen with noise that is accounted.",
                "mechanisms": f"{card['mechanism']}, noise source {guarantee.get('noise_source', 'unknown')}. "
                + (_SECURITY if private else "SEEDED NOISE: this release is not private.")
                + f" Software: {card['software']}.",
                "justification": f"{TO_FILL}: why this ε",
            },
            "administrative": {
                "notes": f"SHA-256 of the release's manifest: {release.manifest}",
                "registry_authors": [about.get("contact") or f"{TO_FILL}: who fills in this entry"],
            },
        },
    }


def _title(release: Release) -> str:
    about = release.card.get("report") or {}
    return str(about.get("title") or f"{release.schema.name}: {release.card['name']}")


def _ledger(card: Mapping[str, Any]) -> str:
    ledger = card.get("ledger")
    if not isinstance(ledger, Mapping):
        return f"No budget is kept over releases. {TO_FILL}: plans for further ones"
    return (
        f"Charged to the budget of data set {ledger.get('dataset', '')!r}, which bounds all releases from these rows "
        "together. The budget is not renewed."
    )


def croissant(release: Release) -> dict[str, Any]:
    """Describe a release as a schema.org data set, with files and columns as defined by Croissant 1.0.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    dict
        The metadata in JSON-LD.
    """
    about, files = release.card.get("report") or {}, _files(release)
    first = files[0][0]
    found: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": _title(release),
        "description": f"Synthetic rows made with differential privacy ({_price(release)}) from: "
        f"{release.card['source']}. No row is a person. Estimate with intervals that know of the noise: "
        "equistrata estimate.",
        "datePublished": release.card["created"][:10],
        "version": release.manifest[:12],
        "keywords": ["synthetic data", "differential privacy"],
        "isLiveDataset": False,
        "variableMeasured": [
            {"@type": "sc:PropertyValue", "name": column.name, "description": column.label or column.name}
            for column in release.schema.published
        ],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "contentSize": f"{entry['bytes']} B",
                "encodingFormat": media,
                "sha256": entry["sha256"],
            }
            for name, entry, media in files
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "description": "One synthetic row each.",
                "field": [_field(column, first) for column in release.schema.published],
            }
        ],
    }
    if about.get("agency"):
        found["creator"] = {"@type": "sc:Organization", "name": about["agency"]}
    return found


def dcat(release: Release) -> dict[str, Any]:
    """Describe a release as a `dcat:Dataset` with one distribution for each file of rows.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    dict
        The metadata in JSON-LD.
    """
    card = release.card
    about = card.get("report") or {}
    found: dict[str, Any] = {
        "@context": _DCAT_CONTEXT,
        "@type": "dcat:Dataset",
        "dct:identifier": release.manifest,
        "dct:title": _title(release),
        "dct:description": f"{card['rows']:,} synthetic rows made with differential privacy ({_price(release)}) from: "
        f"{card['source']}. No row is a person.",
        "dct:issued": {"@type": "xsd:date", "@value": card["created"][:10]},
        "dcat:keyword": ["synthetic data", "differential privacy", *(each.name for each in release.schema.published)],
        "dct:conformsTo": {"@id": "schema.json"},
        "dcat:distribution": [
            {
                "@type": "dcat:Distribution",
                "dct:title": name,
                "dcat:accessURL": {"@id": name},
                "dcat:mediaType": {"@id": f"https://www.iana.org/assignments/media-types/{media}"},
                "dcat:byteSize": {"@type": "xsd:nonNegativeInteger", "@value": str(entry["bytes"])},
                "spdx:checksum": {
                    "@type": "spdx:Checksum",
                    "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                    "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": entry["sha256"]},
                },
            }
            for name, entry, media in _files(release)
        ],
    }
    if about.get("agency"):
        found["dct:publisher"] = {"@type": "foaf:Agent", "foaf:name": about["agency"]}
    return found


def _price(release: Release) -> str:
    guarantee = release.card["guarantee"]
    return f"ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}, unit: {guarantee.get('unit', 'one row')}"


def _files(release: Release) -> list[tuple[str, Mapping[str, Any], str]]:
    """Return the name, the entry in the manifest and the media type of each file of rows, sorted by name."""
    files = listed(release.folder, f"release {str(release.folder)!r}")
    return [
        (name, files[name], _MEDIA.get(f".{name.rpartition('.')[2]}", "application/octet-stream"))
        for name in sorted(files)
        if name.startswith("synthetic.")
    ]


def _field(column: Column, file: str) -> dict[str, Any]:
    words = "; ".join(f"{value}: {said}" for value, said in column.labels)
    return {
        "@type": "cr:Field",
        "@id": f"rows/{column.name}",
        "name": column.name,
        "description": (column.label or column.name) + (f" ({words})" if words else ""),
        "dataType": _type(column),
        "source": {"fileObject": {"@id": file}, "extract": {"column": column.name}},
    }


def _type(column: Column) -> str:
    if column.layout:
        return "sc:Date"
    if column.numeric:
        whole = column.integer or column.release == "index"
        return "sc:Text" if column.codes else "sc:Integer" if whole else "sc:Float"
    return "sc:Integer" if all(isinstance(value, int) for value in column.values) else "sc:Text"


_DCAT_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "spdx": "http://spdx.org/rdf/terms#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "recordSet": "cr:recordSet",
    "field": "cr:field",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "source": "cr:source",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "extract": "cr:extract",
    "column": "cr:column",
    "fileProperty": "cr:fileProperty",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "separator": "cr:separator",
    "subField": "cr:subField",
    "transform": "cr:transform",
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "citeAs": "cr:citeAs",
}
