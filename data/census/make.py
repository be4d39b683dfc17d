"""Script that creates `data/schemas/acs_<year>.yaml` from the dictionaries of the Census Bureau.

Run it as `python -m data.census.make FOLDER`, where FOLDER contains the CSV dictionaries. The dictionaries are works of
the United States government and are in the public domain. This module only adds information that they do not contain.
These are the list of the common columns, and a few labels that are merged with a heading in the printed dictionary.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from equistrata.data.census.dictionary import Entry, is_blank, read_entries

SCHEMAS = Path(__file__).parents[1] / "schemas"
DICTIONARIES = {2017: ["2017", "2013-2017"], 2018: ["2018", "2014-2018"], 2019: ["2019", "2015-2019", "2016-2020"]}
YEARS = {2017: "2014 to 2017", 2018: "2018", 2019: "2019 and later"}

COLUMNS = """
    AGEP SEX RAC1P HISP RACAIAN RACASN RACBLK RACNH RACPI RACSOR RACWHT NATIVITY CIT POBP DECADE WAOB ANC LANX ENG
    MAR MSP MARHT FER RELP RELSHIPP ESP NOP OC PAOC GCL GCR SCH SCHG SCHL SCIENGP MIG MIL DRATX
    ESR COW OCCP WKL WKW WKWN WKHP NWLA NWLK JWTR JWTRNS JWRIP DRIVESP JWMNP POWSP POWPUMA
    PINCP PERNP WAGP SEMP INTP RETP SSP SSIP PAP OIP POVPIP
    HICOV PRIVCOV PUBCOV HINS1 HINS2 HINS3 HINS4 HINS5 HINS6 HINS7 DIS DEAR DEYE DREM DPHY DDRS DOUT ST PWGTP
"""
DEFAULT = "AGEP SEX RAC1P HISP NATIVITY CIT SCHL MAR MIL DIS COW ESR WKHP JWMNP PINCP PUBCOV"
OPEN = {"POWPUMA"}  # the codes are not in any dictionary
# The top code increases over the years (55,000 in 2023), so this is the largest number of five digits.
UPPER = {(2019, "SSP"): 99999}

LABELS = {
    ("ESP", "b"): "N/A (not own child of householder, and not child in subfamily)",
    ("ESP", "1"): "Living with two parents: both parents in labor force",
    ("ESP", "2"): "Living with two parents: father only in labor force",
    ("ESP", "3"): "Living with two parents: mother only in labor force",
    ("ESP", "4"): "Living with two parents: neither parent in labor force",
    ("ESP", "5"): "Living with father: father in the labor force",
    ("ESP", "6"): "Living with father: father not in labor force",
    ("ESP", "7"): "Living with mother: mother in the labor force",
    ("ESP", "8"): "Living with mother: mother not in labor force",
}
MARRIED = {"AGEP": "<15", "MAR": [1, 2, 3, 4]}  # according to the label of 5, "Never married or under 15 years old"

_UNDER = re.compile(r"(?:less than|under) (\d+) years?(?: old)?", re.IGNORECASE)
_ONLY_UNDER = re.compile(r"N/A \(less than (\d+) years?(?: old)?\)", re.IGNORECASE)


def read(path: Path) -> dict[str, Entry]:
    """Return the columns of a dictionary with the corrected labels."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        found = read_entries(csv.reader(file), path.name)
    for (name, code), words in LABELS.items():
        entry = found[name]
        entry.values = [(low, high, words if low == code else old) for low, high, old in entry.values]
    return found


def column_of(entry: Entry) -> dict[str, Any]:
    """Return the declaration of a column in a schema file."""
    label = re.sub(r" ?\(?(signed, )?use ADJINC[^)]*\)?", "", entry.label)
    if entry.name in OPEN:
        return {"label": label, "values": "open", "missing": "none"}
    return _numbers(entry, label) if entry.kind == "N" else _codes(entry, label)


def _numbers(entry: Entry, label: str) -> dict[str, Any]:
    numbers = [(int(first), int(last), words) for first, last, words in entry.values if not is_blank(first)]
    # Some dictionaries list the ends of a range of losses in reverse order.
    ranges = sorted((min(first, last), max(first, last), words) for first, last, words in numbers)
    for (_, end, words), (start, _, after) in pairwise(ranges):
        # No amounts occur between 0 dollars and the smallest rounded amount, so this gap is allowed.
        if start != end + 1 and not (end == 0 or start == 0):
            raise ValueError(f"{entry.name} has no number between {words!r} and {after!r}")
    notes = [words for _, _, words in ranges if re.search(r"coded|or more|or earlier", words)]
    notes += [] if entry.blank is None else [f"blank: {entry.blank}"]
    found: dict[str, Any] = {"label": label + f" ({'; '.join(notes)})" * bool(notes)}
    found |= {"lower": ranges[0][0], "upper": ranges[-1][1], "integer": True}
    return found | ({"missing": "own"} if entry.blank is not None else {})


def _codes(entry: Entry, label: str) -> dict[str, Any]:
    if any(first != last for first, last, _ in entry.values):
        raise ValueError(f"{entry.name} has a range of codes, which lists none of them")
    codes = dict(entry.codes)
    words, text = codes, any(re.match(r"0.|.*\D", code) for code in codes)
    found: dict[str, Any] = {"label": label}
    if entry.blank is not None:
        blank = next(mark * int(entry.width) for mark in "09" if mark * int(entry.width) not in codes)
        words, found["missing"] = {blank: entry.blank, **codes}, _plain(blank, text)
    labels = {_plain(code, text): each for code, each in words.items()}
    found |= {"values": [*labels], "labels": labels}
    short = {code.lstrip("0") or "0": code for code in codes if code.startswith("0")} if text else {}
    if short:  # other programs can remove the leading zeros when they write the file
        found["recode"] = short
    return found


def _plain(code: str, text: bool) -> str | int:
    return code if text else int(code)


def rules_of(entry: Entry, declared: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the rules about ages that the label of an empty cell implies.

    If the label states that people under some age have an empty cell, then they have no other value. If the label
    states nothing else, then older people do not have an empty cell.
    """
    young = _UNDER.search(entry.blank or "")
    if young is None or entry.name == "AGEP" or declared.get("values") == "open":
        return
    listed = [value for value in declared.get("values", []) if value != declared["missing"]]
    held = listed or f">={declared['lower']}"
    yield {"AGEP": f"<{young[1]}", entry.name: held}
    if _ONLY_UNDER.fullmatch(entry.blank or ""):
        yield {"AGEP": f">={young[1]}", entry.name: [declared["missing"]] if listed else "missing"}


def schema_of(year: int, books: Sequence[dict[str, Entry]]) -> dict[str, Any]:
    """Return the schema of a year as a mapping.

    The schema contains the common columns of the dictionary of the year, and the additional codes of the five-year
    dictionaries.
    """
    first, *others = books
    columns, rules = dict[str, Any](), [MARRIED]
    for name in (name for name in COLUMNS.split() if name in first):
        entry = first[name]
        for other in (book[name] for book in others if name in book and entry.kind == "C" and name not in OPEN):
            entry.values += [each for each in other.values if each[0] not in {code for code, _, _ in entry.values}]
        entry.values.sort(key=lambda each: (not is_blank(each[0]), each[0]))
        columns[name] = column_of(entry)
        if (year, name) in UPPER:
            columns[name]["upper"] = UPPER[year, name]
        ages = {tuple(_UNDER.findall(book[name].blank or "")) for book in books if name in book}
        rules += rules_of(entry, columns[name]) if len(ages) == 1 else ()
    description = (
        f"Common person columns of the American Community Survey, {YEARS[year]}, by the Census Bureau's data "
        "dictionaries (public domain), made by data/census/make.py. A blank is a value of its own: of codes a 0 or 9 "
        "that no code has, of numbers empty. Dollars are of the interview's year, not adjusted by ADJINC. SERIALNO, "
        "which is not declared, names households: --unit SERIALNO --at-most ROWS protects them."
    )
    whole = {"name": f"acs_{year}", "description": description, "default": DEFAULT.split()}
    return whole | {"columns": columns, "impossible": rules}


class _Quoted(yaml.SafeDumper):
    """A YAML dumper that writes texts in quotes if they begin with a digit, so that 08 is not read as a number."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if text[:1].isdigit() else None)


_Quoted.add_representer(str, _text)


def yaml_of(document: dict[str, Any]) -> str:
    """Return the text of a schema, with one or a few lines for each column."""
    plain = {key: value for key, value in document.items() if key not in ("columns", "impossible")}
    lines = [_flow(f"{key}: ", value, "  ") for key, value in plain.items()]
    lines += ["columns:\n", *(_flow(f"  {name}: ", spec, "    ") for name, spec in document["columns"].items())]
    lines += ["impossible:\n", *(_flow("  - ", rule, "    ") for rule in document["impossible"])]
    return "".join(lines)


def _flow(start: str, spec: dict[str, Any], indent: str) -> str:
    text = yaml.dump(spec, None, _Quoted, sort_keys=False, default_flow_style=True, width=90, allow_unicode=True)
    return start + text.removesuffix("...\n").strip().replace("\n", "\n" + indent) + "\n"


def made(folder: Path) -> dict[str, str]:
    """Return the text of each schema by name, from a folder of dictionaries."""
    books = {
        year: [read(folder / f"PUMS_Data_Dictionary_{name}.csv") for name in names]
        for year, names in DICTIONARIES.items()
    }
    return {f"acs_{year}": yaml_of(schema_of(year, found)) for year, found in books.items()}


if __name__ == "__main__":
    for name, text in made(Path(sys.argv[1])).items():
        (SCHEMAS / f"{name}.yaml").write_text(text, "utf-8")
