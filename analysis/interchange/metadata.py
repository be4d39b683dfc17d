"""Metadata of a release for the registry of differential privacy deployments and for data catalogues.

The supported formats are schema.org with MLCommons Croissant 1.1 and W3C DCAT 3. The metadata only use the files of the
release, so they contain nothing private. Fields that only the publisher knows, such as the intended use, are marked by
`TO_FILL` in a registry entry and left out of the catalogue metadata.

References
----------
.. [1] opendp/deployments-registry-data, schemas/deployments-schema.yaml (15 July 2026, read in November 2026).
.. [2] MLCommons Croissant format, version 1.1, and its vocabulary for responsible AI, version 1.0.
.. [3] Data Catalog Vocabulary (DCAT), version 3, W3C Recommendation of 22 August 2024.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from equistrata.analysis.release import Release
from equistrata.data.columns.released import released_column
from equistrata.data.schema import Column
from equistrata.data.texts.manifest import listed

TO_FILL = "TO BE FILLED IN BY THE PUBLISHER"
NO_LICENSE = "NOASSERTION: the publisher has not named a license"  # the word of SPDX for a license that is not stated
CONFORMS_TO = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
_MEDIA = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
_SECURITY = "The release is made by a batch job that answers no queries, so its timing cannot be observed."


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
    name, series = title_of(release), card.get("series")
    curator = about.get("agency") or f"{TO_FILL}: who publishes it"
    return {
        "url_slug": re.sub(r"\W+|_", "-", "_".join((name, curator, card["created"][:4])).lower()),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [curator],
                "description": f"{card['rows']:,} synthetic rows. Columns: {columns}. Made from: {card['source']}.",
                "intended_use": f"{TO_FILL}: what it is for",
                "data_product_type": "Synthetic data",
                "data_product_region": f"{TO_FILL}: which region the data describe",
                "publication_date": card["created"][:10],
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if "promise" in guarantee else "Zero-concentrated DP",
                "data_domain": "Tables of at least one row, with the columns and values of the public schema "
                f"{release.schema.name!r} (SHA-256 {release.schema.digest}).",
                "unprotected_quantities": str(card.get("not_covered", "none")),
            },
            "privacy_loss": {
                "privacy_unit": str(guarantee.get("unit", "one row")),
                "privacy_unit_details": str(guarantee.get("relation", "")),
                "privacy_parameters": {name: guarantee[name] for name in ("epsilon", "delta", "rho")},
                "privacy_parameters_details": f"Accounted in ρ; ε at the stated δ follows from it. {split}."
                + (f" For several units together: {groups}." if groups else ""),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "The publisher holds the rows and is trusted; readers get the release and are not trusted. "
                f"{TO_FILL}: who else sees the rows",
                "release_type": "Many releases" if series else "One release",
                "release_type_details": (f"Month {series['month']} of {series['horizon']}. " if series else "")
                + _ledger(card),
                "data_source_type": "Dynamic" if series else "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Model, rows, intervals and replicates are made only from the noisy measurements: "
                f"estimation of a graphical model{', shrinkage between strata' if card.get('shrinkage') else ''}, "
                "rounding, rules of the schema.",
                "composition": str(guarantee.get("composition", "")),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Values are coded by the public schema. Settings are public "
                "and were chosen without the rows. Choices that depend on the rows use noise that is accounted for.",
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


def title_of(release: Release) -> str:
    """Return the title on the card of a release, or a title from its schema and its mechanism."""
    about = release.card.get("report") or {}
    return str(about.get("title") or f"{release.schema.name}: {release.card['name']}")


def _ledger(card: Mapping[str, Any]) -> str:
    ledger = card.get("ledger")
    if not isinstance(ledger, Mapping):
        return f"There is no budget for several releases. {TO_FILL}: plans for further releases"
    return (
        f"Charged to the budget of data set {ledger.get('dataset', '')!r}, which bounds all releases from these rows "
        "together. The budget is not renewed."
    )


def croissant(release: Release, license_url: str | None = None, url: str | None = None) -> dict[str, Any]:
    """Describe a release as a schema.org data set, with files, columns and categories as defined by Croissant 1.1.

    Parameters
    ----------
    release : Release
        The release.
    license_url : str, optional
        The address of the license. If None, the metadata state that the publisher has not named one.
    url : str, optional
        The address of the web page of the release.

    Returns
    -------
    dict
        The metadata in JSON-LD.
    """
    card, files, title = release.card, _files(release), title_of(release)
    first, agency, day = files[0][0], (card.get("report") or {}).get("agency"), card["created"][:10]
    of = {"author": agency, "title": title, "year": day[:4], "note": f"SHA-256 of the manifest: {release.manifest}"}
    cited = ", ".join(f"{key} = {{{re.sub('[{}]', '', said)}}}" for key, said in of.items() if said)
    columns = [(_id(column, place), column) for place, column in enumerate(release.schema.published, 1)]
    found: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": title,
        "description": f"Synthetic rows made with differential privacy ({price_of(release)}) from: {card['source']}. "
        "No row is a person. equistrata estimate gives estimates with intervals that account for the noise.",
        "identifier": release.manifest,
        "datePublished": day,
        "version": re.sub(r"-0?", ".", day),
        "citeAs": f"@misc{{release{release.manifest[:12]}, {cited}}}",
        "keywords": ["synthetic data", "differential privacy"],
        "isLiveDataset": False,
        "variableMeasured": [_variable(column) for column in release.schema.published],
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
                "description": f"{card['rows']:,} synthetic rows.",
                "field": [_field(column, own, first) for own, column in columns],
            },
            *(_categories(column, own) for own, column in columns if _has_categories(column)),
        ],
        "prov:wasDerivedFrom": {"@type": "prov:Entity", "prov:label": card["source"]},
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": f"{card['mechanism']} with differential privacy",
            "prov:endedAtTime": card["created"],
            "prov:wasAssociatedWith": {"@type": "prov:SoftwareAgent", "prov:label": card["software"]},
        },
        "rai:dataManipulationProtocol": f"Synthetic rows by {card['mechanism']}. Noise source: "
        f"{card['guarantee'].get('noise_source', 'unknown')}.",
        "rai:personalSensitiveInformation": privacy_note(release),
        "rai:dataLimitations": "Standard errors that ignore the privacy noise are too small.",
    }
    found["license"] = license_url or NO_LICENSE
    found |= {} if url is None else {"url": url}
    return found | ({"creator": {"@type": "sc:Organization", "name": agency}} if agency else {})


def dcat(release: Release, license_url: str | None = None, url: str | None = None) -> dict[str, Any]:
    """Describe a release as a `dcat:Dataset` with one distribution for each file of rows.

    Parameters
    ----------
    release : Release
        The release.
    license_url : str, optional
        The address of the license.
    url : str, optional
        The address of the web page of the release.

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
        "dct:title": title_of(release),
        "dct:description": f"{card['rows']:,} synthetic rows made with differential privacy ({price_of(release)}) "
        f"from: {card['source']}. No row is a person.",
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
    return found | {
        key: {"@id": said} for key, said in (("dct:license", license_url), ("dcat:landingPage", url)) if said
    }


def price_of(release: Release) -> str:
    """Return the privacy loss of a release and the unit that it protects, in words."""
    guarantee = release.card["guarantee"]
    return f"ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}, unit: {guarantee.get('unit', 'one row')}"


def privacy_note(release: Release) -> str:
    """Return what the card promises about privacy, or that it promises nothing, in words."""
    guarantee = release.card["guarantee"]
    if not release.card.get("private", False):
        return "The noise was seeded, so this release is not private."
    said = f"No row is a person. The release has differential privacy ({price_of(release)}; {guarantee['relation']})."
    return f"{said} Not protected: {release.card.get('not_covered', 'nothing')}."


def _files(release: Release) -> list[tuple[str, Mapping[str, Any], str]]:
    """Return the name, the entry in the manifest and the media type of each file of rows, sorted by name."""
    files = listed(release.folder, f"release {str(release.folder)!r}")
    return [
        (name, files[name], _MEDIA.get(f".{name.rpartition('.')[2]}", "application/octet-stream"))
        for name in sorted(files)
        if name.startswith("synthetic.")
    ]


def _variable(column: Column) -> dict[str, Any]:
    said: dict[str, Any] = {
        "@type": "sc:PropertyValue",
        "name": column.name,
        "description": column.label or column.name,
    }
    if column.layout or not (cells := released_column(column)).numeric or cells.lower is None or cells.upper is None:
        return said
    return said | {"minValue": cells.lower, "maxValue": cells.upper}


def _id(column: Column, place: int) -> str:
    """Return the part of an identifier that names a column. Identifiers must not have spaces, and must be unique."""
    plain = re.sub(r"[^\w.-]", "_", column.name)
    return plain if plain == column.name else f"{plain}~{place}"


def _field(column: Column, own: str, file: str) -> dict[str, Any]:
    cells = released_column(column)
    said: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"rows/{own}",
        "name": column.name,
        "description": (column.label or column.name) + (f" (written as {cells.layout})" if cells.layout else ""),
        "dataType": data_type(column),
        "source": {"fileObject": {"@id": file}, "extract": {"column": column.name}},
    }
    if _has_categories(column):
        said["references"] = {"field": {"@id": f"categories/{own}/code"}}
    return said


def _has_categories(column: Column) -> bool:
    """Return True if each released cell of a column is one of a list of values."""
    return bool(released_column(column).values)


def _categories(column: Column, own: str) -> dict[str, Any]:
    """Return the record set with the released values of a column and their words."""
    own = f"categories/{own}"
    types = {"code": data_type(column), "label": "sc:Text"}
    return {
        "@type": "cr:RecordSet",
        "@id": own,
        "name": own,
        "description": f"The values of {column.name}.",
        "dataType": "sc:Enumeration",
        "key": {"@id": f"{own}/code"},
        "field": [
            {"@type": "cr:Field", "@id": f"{own}/{part}", "name": part, "dataType": kind}
            for part, kind in types.items()
        ],
        "data": [
            {f"{own}/code": value, f"{own}/label": column.words(value)} for value in released_column(column).values
        ],
    }


def data_type(column: Column) -> str:
    """Return the schema.org type of the released cells of a column."""
    values = [*released_column(column).values, *(raw for raw, _ in column.codes)]
    if any(isinstance(value, str) for value in values):
        return "sc:Text"
    if column.layout:  # readers may take the month of another layout for the day
        return "sc:Date" if released_column(column).layout.startswith("%Y-") and not values else "sc:Text"
    whole = not column.numeric or column.whole or column.release == "index"
    return "sc:Integer" if whole and all(isinstance(value, int) for value in values) else "sc:Float"


_DCAT_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "spdx": "http://spdx.org/rdf/terms#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}

_TERMS = (
    "annotation arrayShape citeAs column containedIn equivalentProperty excludes extract field fileObject fileProperty "
    "fileSet format includes isArray isLiveDataset jsonPath key md5 parentField path readLines recordSet references "
    "regex repeated replace samplingRate sdVersion separator source subField transform unArchive value"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
