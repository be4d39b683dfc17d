"""What code books of several forms have alike: what they call things, and how they give dates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from equistrata.data.dates import day_in, iso
from equistrata.data.drafting.entries import Entry
from equistrata.data.schema import Type

# What columns of dictionaries and keys of fields are called: letters and digits alone, in small letters.
CALLED = {
    "name": ("variable", "variablename", "variablefieldname", "var", "varname", "name", "field", "fieldname", "column",
             "columnname", "item", "attribute", "feature"),
    "label": ("label", "variablelabel", "fieldlabel", "description", "variabledescription", "fielddescription",
              "columndescription", "desc", "title", "definition", "question", "questiontext", "meaning", "details"),
    "type": ("type", "datatype", "fieldtype", "format", "class", "kind"),
    "choices": ("choicescalculationsorsliderlabels", "choices", "values", "categories", "levels", "options", "codes",
                "allowedvalues", "permissiblevalues", "validvalues", "possiblevalues", "responseoptions", "coding",
                "codelist", "valuelabels", "domain", "range"),
    "code": ("value", "code", "category", "level", "categorycode", "valuecode", "codevalue"),
    "words": ("valuelabel", "codelabel", "categorylabel", "valuedescription", "codedescription", "labelofvalue",
              "valuemeaning", "codemeaning", "categorydescription"),
    "lower": ("min", "minimum", "lower", "lowerbound", "rangemin", "textvalidationmin", "minvalue"),
    "upper": ("max", "maximum", "upper", "upperbound", "rangemax", "textvalidationmax", "maxvalue"),
    "check": ("textvalidationtypeorshowslidernumber", "validation"),
    "measure": ("measure", "measurement", "measurementlevel", "levelofmeasurement", "scale"),
    "required": ("requiredfield", "required"),
    "hidden": ("branchinglogicshowfieldonlyif", "branchinglogic"),
    "identifier": ("identifier",),
}  # fmt: skip
ORDERED = ("ordinal", "ordered")
ISO, ISO_TIME = "%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"


def of_dates(entry: Entry, lower: Any, upper: Any, layout: str, remark: str = "") -> Entry:
    """An entry as one of dates, if both bounds are some: as ISO dates, or as its cells are written."""
    first, last = (_day(each, layout) for each in (lower, upper))
    kind: Type | None = "date" if first and last else None
    return replace(entry, type=kind, lower=first, upper=last, layout=layout, remark=remark)


def _day(bound: Any, layout: str) -> str | None:
    days = (day_in(bound, each) for each in (layout, ISO, f"{ISO} %H:%M:%S", f"{ISO} %H:%M"))
    return next((iso(day) for day in days if day is not None), None)
