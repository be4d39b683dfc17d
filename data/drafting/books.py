"""Code books as they are published: JSON, CSV, Frictionless Table Schema, DDI, REDCap, the ACS's, Stata's, SPSS's.

A book is known by its content, and by the ending of binary files. All it says is public.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from equistrata.data.dates import day_in, iso
from equistrata.data.drafting.choices import RANGE, listed_in
from equistrata.data.drafting.entries import Codes, Entry
from equistrata.data.schema import Type, number_in
from equistrata.errors import InputError

MOST_BYTES = 1 << 24

# What columns of CSV dictionaries are called: letters and digits alone, in small letters.
_CALLED = {
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
_HEADER_ROWS = 10  # a title and remarks may come before the names of a dictionary's columns
_STATA_MISSING = 2_147_483_620  # .a to .z are numbers above it
_ISO, _ISO_TIME = "%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"
_REDCAP_DATE = re.compile(
    r"(date|datetime|datetime_seconds)_(?:ymd|dmy|mdy)"
)  # how it is shown, not how it is exported
_REDCAP_LAYOUTS = {"date": _ISO, "datetime": f"{_ISO} %H:%M", "datetime_seconds": f"{_ISO} %H:%M:%S"}
_ORDERED = ("ordinal", "ordered")
_NO = ("", "n", "no", "0", "false")
_WHOLE_FORMAT = re.compile(r"[A-Za-z]*\d+(?:\.0)?")  # as F8.0
# In labels of REDCap's; not "<HS | >HS", which are words.
_MARKUP = re.compile(r"</?(?:[abiup]|br|div|em|font|h[1-6]|li|ol|span|strong|su[bp]|ul)\b[^<>|;]*>", re.I)
_BLANK = re.compile("b+", re.I)  # how the ACS writes an absent cell


def read_codebook(path: str | Path) -> dict[str, Entry]:
    """Column → what a code book says of it, in its order.

    Raises InputError if there is no such file, it is too large, or of no form that is known.
    """
    path = Path(path)
    where = f"code book {path.name!r}"
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= MOST_BYTES else None
    except OSError:
        content = None
    if content is None:
        raise InputError(f"{where} is no file that can be read, of at most {MOST_BYTES >> 20} MiB; check the path")
    if path.suffix.lower() in (".dta", ".sav"):
        return {each.name: each for each in (_stata if path.suffix.lower() == ".dta" else _spss)(path, where)}
    text = _decoded(content)
    start = text.lstrip()[:1]
    read = _xml if start == "<" else _json if start in ("{", "[") else _csv
    found: dict[str, Entry] = {}
    for each in read(text, where):
        if each.name and found.setdefault(each.name, each) != each:
            twice = f"the book describes {each.name} more than once, and not alike; the first is taken"
            found[each.name] = replace(found[each.name], remark=twice)
    if not found:
        raise InputError(
            f"{where} names no columns in a form that is known: JSON or CSV with a name for each column, Frictionless "
            "Table Schema, DDI, REDCap, ACS, Stata or SPSS"
        )
    return found


def _decoded(content: bytes) -> str:
    """UTF-16 by its mark, UTF-8, Windows' Latin-1 (with dashes and quotes), or Latin-1."""
    utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16" if utf_16 else "utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")


def _json(text: str, where: str) -> Iterator[Entry]:
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is not valid JSON; mend it") from None
    if isinstance(book, dict):
        schema = book.get("schema") if isinstance(book.get("schema"), dict) else book
        resources = book.get("resources")
        if isinstance(resources, list) and resources:  # the first of them that is a table
            schemas = (each.get("schema") for each in resources if isinstance(each, dict))
            schema = next((each for each in schemas if isinstance(each, dict)), {"fields": []})
        keys = ("fields", "variables", "columns", *(["properties"] if "$schema" in book else []))
        for key in keys:
            if isinstance(schema, dict) and isinstance(schema.get(key), list | dict):
                return _fields(schema[key], schema.get("missingValues"))
    return _fields(book, None)


def _fields(fields: Any, missing: Any) -> Iterator[Entry]:
    pairs = fields.items() if isinstance(fields, dict) else ((None, each) for each in fields)
    for name, field in pairs:
        field = field if isinstance(field, dict) else {"description": field if isinstance(field, str) else ""}
        found = {re.sub("[^a-z0-9]", "", str(key).lower()): value for key, value in field.items()}
        name = name or next((found[key] for key in _CALLED["name"] if isinstance(found.get(key), str)), "")
        yield _field(str(name), found, missing)


def _field(name: str, field: Mapping[str, Any], missing: Any) -> Entry:
    given = field.get("constraints")
    limits: dict[Any, Any] = given if isinstance(given, dict) else {}
    field = {**field, **{str(key).lower(): value for key, value in limits.items()}}

    def first(what: str) -> Any:
        return next((field[key] for key in _CALLED[what] if field.get(key) not in (None, "")), None)

    label = next((field[key] for key in ("title", *_CALLED["label"]) if isinstance(field.get(key), str)), "")
    kinds = first("type")
    kinds = [each for each in kinds if each != "null"] if isinstance(kinds, list) else [kinds or ""]
    kind = str(kinds[0]).lower() if kinds else ""
    listed, lower, upper = field.get("enum") or first("choices"), first("lower"), first("upper")
    codes: list[tuple[object, object]] = []
    if isinstance(listed, dict):
        inner = {str(key).lower(): value for key, value in listed.items()}
        lower, upper = inner.pop("min", lower), inner.pop("max", upper)
        codes = [(key, value) for key, value in listed.items() if str(key).lower() not in ("min", "max")]
    elif isinstance(listed, list):
        codes = [_pair(each) for each in listed]
    elif isinstance(listed, str):
        found, low, high = listed_in(listed)
        codes, lower, upper = [*found], low if lower is None else lower, high if upper is None else upper
    kept = next((each for each in (field.get("missingvalues"), missing) if isinstance(each, list)), [])
    absent = [(raw, words or "missing") for raw, words in map(_pair, kept) if raw != ""]
    required = limits.get("required")
    may_lack = required is False or (required is not True and len(absent) < len(kept))
    if kind in ("date", "datetime"):
        usual = _ISO if kind == "date" else _ISO_TIME
        layout = field["format"] if isinstance(field.get("format"), str) and "%" in field["format"] else usual
        return _dates(Entry.of(name, label, missing=may_lack, absent=absent), lower, upper, str(layout))
    if kind == "boolean" and not codes:
        codes = [(raw, word) for word in ("true", "false") for raw in _list(field.get(f"{word}values")) or [word]]
    whole = True if kind in ("integer", "int") else False if kind in ("float", "double", "decimal", "number") else None
    ordered = field.get("categoriesordered") is True or kind in _ORDERED or str(first("measure")).lower() in _ORDERED
    return Entry.of(name, label, codes, lower, upper, whole, ordered, may_lack, absent)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dates(entry: Entry, lower: Any, upper: Any, layout: str, remark: str = "") -> Entry:
    """An entry as one of dates, if both bounds are some: as ISO dates, or as its cells are written."""
    first, last = (_day(each, layout) for each in (lower, upper))
    kind: Type | None = "date" if first and last else None
    return replace(entry, type=kind, lower=first, upper=last, layout=layout, remark=remark)


def _day(bound: Any, layout: str) -> str | None:
    days = (day_in(bound, each) for each in (layout, _ISO, f"{_ISO} %H:%M:%S", f"{_ISO} %H:%M"))
    return next((iso(day) for day in days if day is not None), None)


def _pair(listed: Any) -> tuple[object, object]:
    """A value of a list: itself, or a mapping that has its words."""
    if not isinstance(listed, dict):
        return listed, ""
    inner = {str(key).lower(): value for key, value in listed.items()}
    raw = next((inner[key] for key in ("value", "code", "name", "key", "id") if key in inner), "")
    return raw, next((inner[key] for key in ("label", "description", "title", "meaning") if key in inner), "")


def _csv(text: str, where: str) -> Iterator[Entry]:
    tables = [table for mark in ",;\t|" if (table := _cells(text, mark)) is not None]
    if not tables:
        raise InputError(f"{where} is not well-formed CSV; save it again")
    if any(rows and _is_acs(rows[0]) for rows in tables):
        return _acs(next(rows for rows in tables if rows and _is_acs(rows[0])))
    rows, at, place = max(map(_headed, tables), key=lambda headed: len(headed[2]))
    if not place:
        return iter(())
    header, rows = rows[at], rows[at:]
    # "value" and "label" in one row for each value, or in one row for each column
    if "code" in place and "words" not in place and "label" in place:
        names = map(_plain, header)
        others = [at for at, name in enumerate(names) if name in _CALLED["label"] and at != place["label"]]
        place |= {"words": others[0]} if others else {}
    return _by_rows(rows[1:], place)


def _cells(text: str, delimiter: str) -> list[list[str]] | None:
    """The rows of a CSV file that are not blank; None if it has none by this delimiter."""
    try:
        rows = csv.reader(io.StringIO(text), delimiter=delimiter)
        return [row for row in rows if any(cell.strip() for cell in row)]
    except csv.Error:
        return None


def _is_acs(row: Sequence[str]) -> bool:
    return row[0] == "VAL" or (row[0] == "NAME" and row[2:3] in (["C"], ["N"]))


def _plain(cell: str) -> str:
    return re.sub("[^a-z0-9]", "", cell.lower())


def _headed(rows: list[list[str]]) -> tuple[list[list[str]], int, dict[str, int]]:
    """Rows, the place of the one that names a dictionary's columns, and where those stand that are known; none if no
    row does. After the first row, which a title may be, it has to name two."""
    for at, row in enumerate(rows[:_HEADER_ROWS]):
        header, place = [_plain(cell) for cell in row], dict[str, int]()
        for what, names in _CALLED.items():
            for name in names:
                if name in header and header.index(name) not in place.values():
                    place[what] = header.index(name)
                    break
        if "name" in place and (at == 0 or len(place) > 1):
            return rows, at, place
    return rows, 0, {}


def _by_rows(rows: Sequence[Sequence[str]], place: Mapping[str, int]) -> Iterator[Entry]:
    groups: dict[str, list[dict[str, str]]] = {}
    name = ""
    for row in rows:
        cells = {what: row[at].strip() if at < len(row) else "" for what, at in place.items()}
        name = cells["name"] or name  # the first row of a group may alone have the name
        groups.setdefault(name, []).append(cells)
    once = all(len(group) == 1 for group in groups.values())
    for name, group in groups.items():

        def first(what: str, group: list[dict[str, str]] = group) -> str:
            return next((cells[what] for cells in group if cells.get(what)), "")

        yield from _of_cells(name, group, first, once)


def _of_cells(
    name: str, group: Sequence[Mapping[str, str]], first: Callable[[str], str], once: bool
) -> Iterator[Entry]:
    check, kind, label = first("check").lower(), first("type").lower(), _MARKUP.sub("", first("label"))
    asked = "required" in group[0] or "hidden" in group[0]
    absent = asked and (first("required").lower() in _NO or bool(first("hidden")))
    if kind == "descriptive":  # a text on a form of REDCap's, and no column
        return
    if first("identifier").lower() in ("y", "yes", "true", "1"):
        yield Entry(name, label, identifier=True)
        return
    if kind == "checkbox":
        for raw, words in _chosen(_MARKUP.sub("", first("choices"))):
            codes = [("0", "Unchecked"), ("1", "Checked")]
            of_choice = f"{name}___{re.sub('[^a-z0-9]', '_', raw.lower())}"
            yield Entry.of(of_choice, f"{label or name}: {words}", codes, missing=absent)
        return
    # A formula of a computed field, and the words at a slider's ends, are no codes.
    choices = "" if kind in ("calc", "slider", "sql", "file") else _MARKUP.sub("", first("choices"))
    lower = upper = None
    chosen: Codes = []
    if kind in ("radio", "dropdown"):
        chosen = _chosen(choices)
    elif choices:
        chosen, lower, upper = listed_in(choices)
    listed = [*chosen]
    ranges = [RANGE.fullmatch(cells.get("code", "")) for cells in group]
    for cells, between in zip(group, ranges, strict=True):
        if between and len(list(filter(None, ranges))) == 1:
            lower, upper = between[1], between[2]
        elif cells.get("code"):
            words = cells.get("words") or ("" if once else cells.get("label", ""))
            listed.append((cells["code"], words))
    lower, upper = first("lower") or lower, first("upper") or upper
    if kind in ("date", "datetime") or _REDCAP_DATE.fullmatch(check):
        shown = _REDCAP_DATE.fullmatch(check)
        layout = _REDCAP_LAYOUTS[shown[1]] if shown else _ISO if kind == "date" else _ISO_TIME
        remark = f"REDCap shows {name} as {check}; its raw export has ISO dates, as declared here" if shown else ""
        yield _dates(Entry.of(name, label, listed, missing=absent), lower, upper, layout, remark)
        return
    if kind in ("yesno", "truefalse"):
        listed = [("1", "Yes"), ("0", "No")] if kind == "yesno" else [("1", "True"), ("0", "False")]
    if kind == "slider":
        lower, upper = lower or "0", upper or "100"
    whole = True if check == "integer" or kind.startswith("int") or kind == "slider" else None
    whole = False if check.startswith("number") or kind in ("float", "real", "double", "decimal") else whole
    ordered = kind in _ORDERED or first("measure").lower() in _ORDERED
    yield Entry.of(name, label, [*listed], lower or None, upper or None, whole, ordered, absent)


def _chosen(choices: str) -> list[tuple[str, str]]:
    """The choices of a REDCap field, one or many: "1, White | 2, Black"."""
    pairs = (each.partition(",") for each in choices.split("|"))
    return [(raw.strip(), words.strip() or raw.strip()) for raw, _, words in pairs if raw.strip()]


def _acs(rows: Sequence[Sequence[str]]) -> Iterator[Entry]:
    """The Census Bureau's: NAME,AGEP,N,2,Age and VAL,AGEP,N,2,1,99,1 to 99 years."""
    labels = {row[1]: row[4] for row in rows if row[0] == "NAME" and len(row) > 4}
    values: dict[str, list[Sequence[str]]] = {name: [] for name in labels}
    for row in rows:
        if row[0] == "VAL" and len(row) > 6:
            values.setdefault(row[1], []).append(row)
    for name, found in values.items():
        absent = any(_BLANK.fullmatch(row[4]) for row in found)
        plain = [row for row in found if not _BLANK.fullmatch(row[4])]
        spans = [row for row in plain if row[4] != row[5] and None not in (number_in(row[4]), number_in(row[5]))]
        ends = [number for row in spans for number in (number_in(row[4]), number_in(row[5])) if number is not None]
        lower, upper = (min(ends), max(ends)) if ends else (None, None)
        # A range of texts, as of ids, is no value.
        codes = [(_code(row), row[6]) for row in plain if row not in spans and row[4] == row[5]]
        whole = (all(row[2] == "N" for row in spans) and all(end.is_integer() for end in ends)) or None
        yield Entry.of(name, labels.get(name, ""), codes, lower, upper, whole, missing=absent)


def _code(row: Sequence[str]) -> str:
    """A code of type N is a number: the file has 1 where the book has 01."""
    number = number_in(row[4]) if row[2] == "N" else None
    return str(int(number)) if number is not None and number.is_integer() else row[4]


def _xml(text: str, where: str) -> Iterator[Entry]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{where} has a document type or entities, which are not read; remove them")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        raise InputError(f"{where} is not valid XML; mend it") from None
    for each in root.iter():
        each.tag = str(each.tag).rpartition("}")[2]
    for var in root.iter("var"):
        between = var.find(".//valrng/range")
        bounds = (None, None) if between is None else (between.get("min"), between.get("max"))
        listed = [(each, _said(each, "catValu").strip(), _said(each, "labl")) for each in var.iter("catgry")]
        known = {raw for _, raw, _ in listed}
        absent = [(raw, words or "missing") for each, raw, words in listed if each.get("missing") == "Y"]
        invalid = (str(each.get("VALUE", "")).strip() for each in var.iterfind(".//invalrng/item"))
        absent += [(raw, "missing") for raw in invalid if raw not in known]
        form = var.find("varFormat")
        yield Entry.of(
            str(var.get("name", "")),
            _said(var, "labl"),
            [(raw, words) for _, raw, words in listed if raw],
            *bounds,
            whole=_whole_format(var, form),
            ordered=var.get("nature") == "ordinal",
            absent=[(raw, words) for raw, words in absent if raw],
            continuous=form is not None and form.get("type") == "numeric" and var.get("intrvl") == "contin",
        )


def _whole_format(var: ElementTree.Element, form: ElementTree.Element | None) -> bool | None:
    """Whether DDI gives a variable decimals: by `dcml`, else by a format such as F8.0; None where it does not say."""
    decimals, written = number_in(var.get("dcml", "")), "" if form is None else form.get("formatname", "")
    if decimals is not None:
        return decimals == 0
    return True if _WHOLE_FORMAT.fullmatch(written) else None


def _said(element: ElementTree.Element, tag: str) -> str:
    found = element.find(tag)
    return "" if found is None else "".join(found.itertext())


def _stata(path: Path, where: str) -> Iterator[Entry]:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnicodeWarning)  # labels of old files are read as Latin-1
            warnings.simplefilter("error", RuntimeWarning)  # impossible sizes in a broken file
            with pd.read_stata(path, iterator=True) as reader:
                labels, lists = reader.variable_labels(), reader.value_labels()
                named = dict(zip(labels, getattr(reader, "_lbllist", []), strict=False))
    except (ValueError, OSError, LookupError, ArithmeticError, MemoryError, RuntimeWarning, struct.error):
        raise InputError(f"{where} is not a Stata file that can be read; save it again") from None
    for name, label in labels.items():
        listed = lists.get(named.get(name) or name, {})
        values = {raw: words for raw, words in listed.items() if raw <= _STATA_MISSING}
        yield Entry.of(name, label, [*values.items()], missing=len(values) < len(listed))


def _spss(path: Path, where: str) -> Iterator[Entry]:
    if find_spec("pyreadstat") is None:
        raise InputError(f"{where} is an SPSS file, which pyreadstat reads; install it: pip install pyreadstat")
    pyreadstat = import_module("pyreadstat")
    try:
        meta = pyreadstat.read_sav(str(path), metadataonly=True)[1]
    except (OSError, ValueError, pyreadstat.ReadstatError):
        raise InputError(f"{where} is not an SPSS file that can be read; save it again") from None
    for name in meta.column_names:
        codes = meta.variable_value_labels.get(name, {})
        ordered = meta.variable_measure.get(name) == "ordinal"
        yield Entry.of(name, meta.column_names_to_labels.get(name) or "", [*codes.items()], ordered=ordered)
