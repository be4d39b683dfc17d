"""Code book of a release as DDI-Codebook 2.5, the XML format of data archives.

The code book describes the released rows, and `equistrata schema draft --codebook` reads it again. Bins from which
numbers are drawn are described in the element `derivation`.

References
----------
.. [1] DDI Alliance, DDI-Codebook 2.5, field-level documentation.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from equistrata.analysis.interchange.metadata import privacy_note, title_of
from equistrata.analysis.release import Release
from equistrata.data.columns.column import Column, plain_text
from equistrata.data.columns.dates import ISO
from equistrata.data.columns.released import released_column
from equistrata.data.drafting.column import one_line

_NAMESPACE = "ddi:codebook:2_5"
_FILE = "synthetic.csv"


def ddi_codebook(release: Release) -> str:
    """Return the code book of a release in the format DDI-Codebook 2.5.

    Parameters
    ----------
    release : Release
        The release.

    Returns
    -------
    str
        The XML document.
    """
    book = ElementTree.Element("codeBook", {"xmlns": _NAMESPACE, "version": "2.5"})
    _add_study(_add(book, "stdyDscr"), release)
    file = _add(_add(book, "fileDscr", ID="F1", URI=_FILE), "fileTxt")
    _add(file, "fileName", _FILE)
    size = _add(file, "dimensns")
    _add(size, "caseQnty", release.card["rows"])
    _add(size, "varQnty", len(release.schema.published))
    _add(file, "fileType", "text/csv")
    data = _add(book, "dataDscr")
    for place, column in enumerate(release.schema.published, 1):
        _add_variable(data, f"V{place}", column)
    ElementTree.indent(book)
    return ElementTree.tostring(book, encoding="unicode", xml_declaration=False) + "\n"


def _add(parent: ElementTree.Element, tag: str, text: object = None, **attributes: object) -> ElementTree.Element:
    """Append an element to its parent. Attributes without a value are left out."""
    kept = {name: one_line(value) for name, value in attributes.items() if value not in (None, "")}
    made = ElementTree.SubElement(parent, tag, kept)
    made.text = None if text is None else one_line(text)
    return made


def _add_study(study: ElementTree.Element, release: Release) -> None:
    card, about = release.card, release.card.get("report") or {}
    citation = _add(study, "citation")
    title = _add(citation, "titlStmt")
    _add(title, "titl", title_of(release))
    _add(title, "IDNo", release.manifest, agency="SHA-256 of the manifest")
    made = _add(citation, "prodStmt")
    if about.get("agency"):
        _add(made, "producer", about["agency"])
    _add(made, "prodDate", card["created"][:10], date=card["created"][:10])
    _add(made, "software", card["software"])
    if about.get("contact"):
        _add(_add(citation, "distStmt"), "contact", about["contact"])
    study_info = _add(study, "stdyInfo")
    _add(study_info, "abstract", f"{card['rows']:,} synthetic rows from: {card['source']}.")
    summary = _add(study_info, "sumDscr")
    _add(summary, "anlyUnit", card["guarantee"].get("unit", "one row"))
    _add(summary, "universe", f"The rows of: {card['source']}")
    _add(summary, "dataKind", "synthetic microdata")
    _add(_add(study, "method"), "dataProcessing", card["mechanism"], type="synthesis")
    _add(study, "notes", privacy_note(release), type="privacy")


def _add_variable(data: ElementTree.Element, place: str, column: Column) -> None:
    """Append the description of a released column. The format requires this order of the elements."""
    cells = released_column(column)
    listed = cells.values or (tuple(range(column.bins)) if column.release == "index" and not column.layout else ())
    amount = not listed and not column.layout
    decimals = 0 if column.whole else column.decimals
    variable = _add(
        data, "var", ID=place, name=column.name, files="F1", wgt="wgt" if column.weight else None,
        dcml=decimals if amount else None, intrvl="contin" if amount or column.layout else "discrete",
        nature=None if not listed else "ordinal" if column.ordered else "nominal",
    )  # fmt: skip
    if column.label:
        _add(variable, "labl", column.label)
    if not listed:
        low, high = (column.shown(end) if column.layout else plain_text(end) for end in _bounds(column))
        _add(_add(variable, "valrng"), "range", UNITS="INT" if decimals == 0 else "REAL", min=low, max=high)
    for value in listed:
        _add_category(variable, str(value), column.words(value))
    for raw, words in column.codes:
        _add_category(variable, plain_text(raw), words, missing="Y")
    if cells.missing is not None:
        _add_category(variable, ".", "missing", missing="Y")
    if amount and column.edges:
        drawn = "; ".join(column.words(place) for place in range(column.bins))
        _add(_add(variable, "derivation"), "drvdesc", f"Drawn from these bins: {drawn}")
    _add(variable, "varFormat", **_format(cells))


def _add_category(variable: ElementTree.Element, value: str, words: str, **attributes: str) -> None:
    made = _add(variable, "catgry", **attributes)
    _add(made, "catValu", value)
    _add(made, "labl", words)


def _bounds(column: Column) -> tuple[float, float]:
    """Return the bounds of a column, or its outer edges if it has no bounds."""
    low, high = column.lower, column.upper
    return (column.cuts[0] if low is None else low, column.cuts[-1] if high is None else high)


def _format(cells: Column) -> dict[str, Any]:
    """Return the attributes of `varFormat` for a released column."""
    if cells.layout:
        iso = cells.layout == ISO
        own = {"schema": "ISO"} if iso else {"schema": "other", "otherSchema": "strptime"}
        return {"type": "character", "category": "date", "formatname": cells.layout, **own}
    return {"type": "character" if any(isinstance(value, str) for value in cells.values) else "numeric"}
