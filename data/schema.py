"""What a table may hold: declared values, bounds and bins. Nothing here is ever read off private rows.

>>> schema = Schema.load("acs_employment").select(["AGEP", "SEX"])
>>> schema.sizes
(5, 2)
>>> schema["AGEP"].edges
(0.0, 19.0, 38.0, 57.0, 76.0, 99.0)
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from importlib import resources
from itertools import pairwise
from math import ceil, floor, inf, isfinite, nextafter
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from equistrata.data import dates, documents
from equistrata.data.dialect import PLAIN, Dialect
from equistrata.data.grid import FINE_BINS, Scale, fine_edges, scale_of
from equistrata.data.questions import asked
from equistrata.data.ranges import FORMS, Bins, Range
from equistrata.data.rules import some_row
from equistrata.data.units.unit import ROW, UNIT_ROWS, Unit
from equistrata.errors import InputError

Value = int | float | str
Release = Literal["value", "index", "draw", "midpoint"]
Type = Literal["number", "date", "nominal", "ordinal"]

OWN_CATEGORY, TAKEN, CONFIRMED = "own", "taken_from_rows", "confirmed"
OPEN, OTHER = "open", "other"
MOST_COLUMNS = 1_000
LONGEST_VALUE = 100  # characters of a value that is found in rows
# Texts of a CSV file that mean an absent cell: the same whether a file is read whole or in batches.
ABSENT = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
MOST_FOUND = 100  # values of an open column: those that the most rows hold, by noisy counts
MOST_WHOLE = 2**53  # the largest whole number to which all are exact
MOST_CODES = 10_000  # of a column: more make a name or a number of it, and two such columns a table of 10⁸ cells
_MOST = f"{MOST_CODES:,} are the most, so join some or declare bins"
_QUOTE = 'YAML reads yes, no, on, off, true and false as such without quotes, so quote them: "yes"'
_OF_DATES = ("format", "every")
_DATE_FORMS = "'<2020-02-01', '>=2020-02-01', '2020-02-01 to 2020-02-29' (both ends in) or '2020-02-29'"
_SCHEMA_KEYS = {"name", "description", "columns", "default", "target", "impossible", "file", "unit", CONFIRMED}


@dataclass(frozen=True)
class Column:
    """One declared column.

    Categorical: `values` are the released codes in order; `recode` maps raw values to them, `others` is the code of
    every other raw value, `missing` that of an absent cell. With both `recode` and `others`, a raw value keeps its
    meaning only where `recode` lists it.
    Open: categorical, with values that a release finds in the rows at a price (`equistrata.privacy.thresholds`); until
    then it has none, only `others` and `missing`, and whatever needs its codes raises InputError.
    Numeric: `lower`, `upper` bound the raw values. With `edges` (b + 1 of them, ascending) the column has b bins, the
    first closed, the others open on the left, as `pandas.cut(include_lowest=True)`; without edges it has the fine bins
    of `equistrata.data.grid` on its `scale` (None: logarithmic for whole numbers of which there are many, linear for
    others), no narrower than the last of `decimals`, and `splits` where rules cut these; a synthesizer merges them by
    what it measures.
    `missing` is a number that stands for an absent cell, or "own" for a category of its own (released empty), or one of
    `codes`. A bin is released as its "index", its "midpoint", or a uniform "draw" from it (whole numbers if `integer`).
    For private means, `sigma` bounds the standard deviation, and `mean` is an interval that holds the mean of every
    stratum (the column's bounds if not declared).
    Dates are such a column, of days since 1970-01-01, read and released as text by `layout` (`datetime.strptime`).
    `type` is as declared; of values it says whether their order means something.
    `codes` (raw value, words) are raw cells of a numeric column that are no measured number, as -9 for refused: each is
    a category of its own after the bins and before `missing`, released unchanged, and means leave its rows out.
    `label` and `labels` (released code, words) are for reports.
    """

    name: str
    label: str = ""
    values: tuple[Value, ...] = ()
    recode: tuple[tuple[Value, Value], ...] = ()
    others: Value | None = None
    missing: Value | None = None
    lower: float | None = None
    upper: float | None = None
    edges: tuple[float, ...] = ()
    splits: tuple[float, ...] = ()
    integer: bool = False
    release: Release = "value"
    sigma: float | None = None
    mean: tuple[float, float] | None = None
    labels: tuple[tuple[Value, str], ...] = ()
    codes: tuple[tuple[Value, str], ...] = ()
    type: Type | None = None
    layout: str = ""
    open: bool = False
    scale: Scale | None = None
    decimals: int | None = None

    @property
    def numeric(self) -> bool:
        """True when the column has bounds rather than values."""
        return not self.values and not self.open

    @property
    def ordered(self) -> bool:
        """True when the order of its codes means something."""
        return self.numeric or self.type == "ordinal"

    @property
    def whole(self) -> bool:
        """True when its cells must be whole numbers: draws are. A bin's index or midpoint holds for any number."""
        return self.integer and self.release not in ("index", "midpoint")

    @property
    def bounds(self) -> tuple[float, float]:
        """The declared bounds. Raises InputError without them."""
        if self.lower is None or self.upper is None:
            raise InputError(f"column {self.name!r} has no bounds; add 'lower' and 'upper' to it in the schema")
        return self.lower, self.upper

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """Where the mean of every stratum surely lies: `mean`, or the bounds. Raises InputError without either."""
        return self.mean or self.bounds

    @property
    def fine(self) -> bool:
        """True when a numeric column declares bounds alone."""
        return self.numeric and not self.edges

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """The edges of a numeric column's bins, as declared or as its bounds make them."""
        if self.edges or not self.numeric:
            return self.edges
        if self.layout:
            bins = dates.fine_edges(*self.bounds, self.layout)
        else:
            scale = self.scale or _unstated_scale(*self.bounds, self.integer)
            bins = fine_edges(*self.bounds, scale, self.integer, self.decimals)
        return tuple(sorted({*bins, *self.splits}))

    @property
    def bins(self) -> int:
        """How many bins a numeric column has."""
        return max(len(self.cuts) - 1, 0)

    @property
    def size(self) -> int:
        """The number of codes. Raises InputError for an open column."""
        if self.open:
            raise InputError(
                f"column {self.name!r} is declared as 'values: open', and only a release finds its values; list them"
            )
        return len(self.values) or self.bins + len(self.codes) + (self.missing == OWN_CATEGORY)

    @cached_property
    def keys(self) -> tuple[Value, ...]:
        """What names each code in strata keys, weights files and structural zeros: the value, or the bin's index."""
        return self.values or tuple(range(self.size))

    def with_values(self, found: Sequence[str]) -> Column:
        """An open column once its values are found: these, in this order, and then `missing` and `others`."""
        own = [name for name in (self.missing, self.others) if name is not None]
        return replace(self, values=tuple(dict.fromkeys([*found, *own])), open=False)

    def words(self, key: Value) -> str:
        """One of `keys` in a report: its declared words, the ends of its bin, or the value itself.

        >>> column = Schema.load("acs_employment")["AGEP"]
        >>> column.words(0), column.words(1), Column("X", values=(1, 2), labels=((2, "yes"),)).words(1)
        ('0 to 19', 'over 19 to 38', '1')
        """
        if self.values:
            return dict(self.labels).get(key, str(key))
        place = self.keys.index(key)
        if place >= self.bins:
            return [*(words for _, words in self.codes), "missing"][place - self.bins]
        low, high = self.cuts[place : place + 2]
        if self.layout:
            return dates.period(floor(low) + 1 if place else self.bounds[0], min(floor(high), self.bounds[1]))
        if self.fine and self.integer:
            first, last = ceil(max(low, self.bounds[0])), floor(high)
            return f"{first}" if first == last else f"{first} to {last}"
        start = low if place else max(low, self.bounds[0])
        if high in (start, nextafter(low, inf)):
            return f"{high:g}"
        end = "under 0" if high == nextafter(0.0, -inf) else f"{high:g}"
        return f"{'over ' if place else ''}{start:g} to {end}"

    def shown(self, number: float) -> str:
        """A number of the column in a message, dates as such."""
        return dates.iso(number) if self.layout else f"{number:g}"


COLUMN_KEYS = {each.name for each in fields(Column)} - {"name", "splits", "layout", "open"} | {*_OF_DATES, TAKEN}


@dataclass(frozen=True)
class Impossible:
    """A structural zero: no person has, in every one of `columns`, one of the listed `codes`."""

    columns: tuple[str, ...]
    codes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Schema:
    """Declared columns, in order, the target of prediction, and the combinations that cannot occur."""

    name: str
    columns: tuple[Column, ...]
    target: str | None = None
    impossible: tuple[Impossible, ...] = ()
    default: tuple[str, ...] = ()
    description: str = ""
    file: Dialect = PLAIN  # of the CSV files of raw rows
    unit: Unit = ROW  # of privacy

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for name, times in Counter(names).items():
            if times > 1:
                raise InputError(f"schema {self.name!r} names column {name!r} twice; name it once")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each column. Raises InputError if a column is numeric and has no bins."""
        return tuple(column.size for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.index(name)]

    def index(self, name: str) -> int:
        """The position of a column. Raises InputError if the schema does not declare it."""
        try:
            return self.names.index(name)
        except ValueError:
            raise InputError(f"unknown column {name!r}; schema {self.name!r} has {', '.join(self.names)}") from None

    def select(self, names: Sequence[str]) -> Schema:
        """The schema of these columns only, in this order, with the structural zeros that lie wholly within them."""
        if not names:
            raise InputError(f"no column of schema {self.name!r} is selected; name at least one")
        kept = set(names)
        return replace(
            self,
            columns=tuple(self[name] for name in names),
            target=self.target if self.target in kept else None,
            impossible=tuple(zero for zero in self.impossible if kept.issuperset(zero.columns)),
            default=tuple(names),
        )

    def selected(self) -> Schema:
        """The schema of its default columns (all of them where no default is declared)."""
        return self.select(self.default or self.names)

    @property
    def open(self) -> tuple[str, ...]:
        """The open columns' names, in order."""
        return tuple(column.name for column in self.columns if column.open)

    def with_values(self, found: Mapping[str, Sequence[str]]) -> Schema:
        """The schema once the values of these open columns are found."""
        return replace(
            self, columns=tuple(c.with_values(found[c.name]) if c.name in found else c for c in self.columns)
        )

    def supposed(self) -> Schema:
        """The schema as large as it may get: MOST_FOUND made-up values in each open column."""
        return self.with_values({name: [f"value {i}" for i in range(1, MOST_FOUND + 1)] for name in self.open})

    @property
    def modelled(self) -> Schema:
        """The schema of what is measured and modelled: with a column of the unit's rows, if units count as one each."""
        if self.unit.weights == "rows" or UNIT_ROWS in self.names:
            return self
        column = Column(UNIT_ROWS, "Rows of the unit", (1, self.unit.at_most))
        return replace(self, columns=(*self.columns, column))

    @cached_property
    def row_sizes(self) -> tuple[int, ...]:
        """How many codes rows have in each column: `sizes`, but of UNIT_ROWS one for each number of rows of a unit.

        What is counted of UNIT_ROWS is less (`equistrata.synth.measurements.row_parts`).
        """
        ours = zip(self.names, self.sizes, strict=True)
        return tuple(self.unit.at_most if name == UNIT_ROWS else size for name, size in ours)

    @property
    def weighed(self) -> bool:
        """Whether rows weigh by their code of UNIT_ROWS: it is `modelled`, and units count as one each."""
        return self.unit.weights == "units" and UNIT_ROWS in self.names

    def coded(self) -> Schema:
        """The schema of a table that this schema has already released: binned columns hold the index of their bin."""
        return replace(self, columns=tuple(map(_released, self.columns)), file=PLAIN)

    def given(self, fixed: Mapping[str, int]) -> Schema | None:
        """The schema of the other columns once the columns in `fixed` have these codes.

        Structural zeros that the fixed codes rule in shrink to the other columns; those they rule out go.
        Returns None if the fixed codes are themselves impossible.
        """
        zeros = []
        for zero in self.impossible:
            pairs = list(zip(zero.columns, zero.codes, strict=True))
            if any(name in fixed and fixed[name] not in codes for name, codes in pairs):
                continue
            rest = [(name, codes) for name, codes in pairs if name not in fixed]
            if not rest:
                return None
            zeros.append(Impossible(tuple(n for n, _ in rest), tuple(c for _, c in rest)))
        names = [name for name in self.names if name not in fixed]
        return replace(self.select(names), impossible=tuple(zeros))

    def zero_mask(self, zero: Impossible) -> npt.NDArray[np.bool_]:
        """A table over `zero.columns`, true where the combination cannot occur."""
        mask = np.zeros([self[name].size for name in zero.columns], dtype=bool)
        mask[np.ix_(*zero.codes)] = True
        return mask

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the declaration, in hexadecimal: two schemas with the same digest code rows in the same way."""
        declaration = asdict(self)
        del declaration["file"], declaration["unit"]  # how raw rows come, not what they mean
        for column in declaration["columns"]:
            del column["labels"]  # words for values are for reports; they may be mended without a new schema
            # Absent where there are none: the digests of older releases stay.
            codes, splits, layout, found = (column.pop(key) for key in ("codes", "splits", "layout", "open"))
            for key in ("scale", "decimals"):
                if column[key] is None:
                    del column[key]
            column |= {"open": True} if found else {}
            column |= {"codes": [raw for raw, _ in codes]} if codes else {}
            column |= {"splits": splits} if splits else {}
            column |= {"layout": layout} if layout else {}
            del column["type"]  # rows are coded alike
        return hashlib.sha256(json.dumps(declaration, sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_plain(cls, document: Any, where: str = "schema.json") -> Schema:
        """The schema whose `dataclasses.asdict` went through JSON, as `schema.json` of a release. Inverse of that.

        >>> schema = Schema.load("acs_employment")
        >>> Schema.from_plain(json.loads(json.dumps(asdict(schema)))) == schema
        True

        Raises InputError if it is something else.
        """
        try:
            inner = {"columns": Column, "impossible": Impossible}
            made = {key: tuple(kind(**_tuples(each)) for each in document[key]) for key, kind in inner.items()}
            rows = {"file": Dialect(**document.get("file", {})), "unit": Unit(**document.get("unit", {}))}
            return cls(**_tuples(document) | made | rows)
        except (TypeError, KeyError, AttributeError):
            raise InputError(f"{where} does not declare a schema; bring the released file back") from None

    @classmethod
    def load(cls, source: str | Path) -> Schema:
        """Read a schema from a YAML file, or by the name of one that comes with equistrata.

        Raises InputError for no such file or name, no YAML, or a declaration that makes no sense.
        """
        text, where = schema_text(source)
        document = documents.parse(text, f"schema {where}")
        refuse_questions(text, document, where)
        return cls.from_dict(document, where)

    @classmethod
    def from_dict(cls, document: Any, where: str = "schema") -> Schema:
        """Build a schema from the mapping that a YAML file holds."""
        here = f"schema {where}"
        declared: Any = document.get("columns") if isinstance(document, dict) else None
        _need(
            here, isinstance(declared, dict) and declared, "needs a mapping 'columns' from column names to declarations"
        )
        _refuse_unknown(document, _SCHEMA_KEYS, here)
        for key in ("default", "impossible", CONFIRMED):
            _need(here, isinstance(document.get(key) or [], list), f"needs {key!r} to be a list")
        for name in document.get(CONFIRMED) or ():
            known = isinstance(name, str) and name in declared
            _need(here, known, f"has {name!r} under {CONFIRMED!r}, which is no column of it; name columns as it does")
        declared = confirmed(document)["columns"]
        nothing = "has an empty 'default', so no column is released; list one, or leave it out to release all"
        _need(here, document.get("default") != [], nothing)
        _need(here, len(declared) <= MOST_COLUMNS, f"declares {len(declared):,} columns; {MOST_COLUMNS:,} are the most")
        for name in declared:
            text = isinstance(name, str) and name.strip()
            _need(here, text, f"has the column name {name!r}, which is no text to YAML; quote it")
            _need(here, name != UNIT_ROWS, f"has a column named {name!r}, as releases name one of their own; rename it")
        schema = cls(
            name=_text(document, "name", here) or Path(where).stem,
            columns=tuple(_column(name, spec, f"column {name!r} of {here}") for name, spec in declared.items()),
            target=document.get("target"),
            default=tuple(document.get("default") or ()),
            description=_text(document, "description", here).strip(),
            file=Dialect.read(document.get("file") or {}, here),
            unit=Unit.read(document["unit"], here) if "unit" in document else ROW,
        )
        for name in (*schema.default, *([] if schema.target is None else [schema.target])):
            schema.index(name)
        return _ruled(schema, document.get("impossible") or (), here)


def built_in_schemas() -> list[str]:
    """The names of the schemas that come with equistrata.

    >>> built_in_schemas()[:2]
    ['acs_employment', 'acs_means']
    """
    files = resources.files("equistrata.data").joinpath("schemas").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def schema_text(source: str | Path) -> tuple[str, str]:
    """The YAML of a schema file or a built-in schema, and what messages call it. Raises InputError."""
    path = Path(source)
    name = len(os.fsencode(path.name)) <= 255 and path.name == str(source) and not path.suffix
    if name and not os.path.exists(path):
        if str(source) not in built_in_schemas():
            raise InputError(
                f"no schema named {str(source)!r}; give the path of a YAML file or one of "
                f"{', '.join(built_in_schemas())}"
            )
        return resources.files("equistrata.data").joinpath("schemas", f"{source}.yaml").read_text("utf-8"), str(source)
    return documents.read_text(path, f"schema file {str(path)!r}"), str(path)


def refuse_questions(text: str, document: Any, where: str) -> None:
    """Raise InputError for a draft that declares no column (or none to release), but asks for some in comments."""
    none = isinstance(document, dict) and (not document.get("columns") or document.get("default") == [])
    if none and (open_ones := asked(text)):
        shown = ", ".join(open_ones[:12]) + (f" and {len(open_ones) - 12} more" if len(open_ones) > 12 else "")
        what = "no column that is released" if document.get("columns") else "no column"
        raise InputError(
            f"schema {where} declares {what}: what {shown} may hold is still a QUESTION in its comments; answer "
            "it under 'columns:', without the '#', as 'NAME: {values: [...]}' or 'NAME: {lower: ..., upper: ...}'"
        )


def confirmed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A schema's mapping in which the columns under 'confirmed' are not marked as taken from rows.

    >>> confirmed({"columns": {"A": {"values": [1], "taken_from_rows": ["values"]}}, "confirmed": ["A"]})["columns"]
    {'A': {'values': [1]}}
    """
    names, declared = document.get(CONFIRMED), document.get("columns")
    if not isinstance(names, list) or not isinstance(declared, dict):
        return dict(document)
    kept = {
        name: {key: value for key, value in spec.items() if key != TAKEN or name not in names}
        for name, spec in declared.items()
        if isinstance(spec, dict)
    }
    return {**document, "columns": declared | kept}


def number_in(value: Value) -> float | None:
    """The number that a value is or reads as; None if there is none."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) and "_" not in str(value) else None


def writable(text: str) -> bool:
    """Whether a text can be a value of every file of a release, unchanged: short, printable, on one line, without
    blanks at its ends, and taken neither for an absent cell nor, by a spreadsheet, for a formula.

    >>> [writable(text) for text in ("Nurse", "01", "-9", "", "a\\nb", "=1+1", "NA", "x" * 101)]
    [True, True, True, False, False, False, False, False]
    """
    if not text or len(text) > LONGEST_VALUE or text != text.strip() or text in ABSENT:
        return False
    return text.isprintable() and (text[0] not in "=+-@" or number_in(text) is not None)


def plain_text(value: object) -> str:
    """A value as text, whole numbers without a point, so that 1, 1.0 and "1" agree."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _released(column: Column) -> Column:
    if column.values:
        return replace(column, recode=(), others=None, missing=None)
    if column.layout:
        return replace(column, layout=dates.released_layout(column.layout))
    if column.release != "index":
        return column
    own = OWN_CATEGORY if column.missing == OWN_CATEGORY else None
    if own or column.codes:  # released empty or unchanged, so the indices stay bins, and these categories of their own
        edges = tuple(index - 0.5 for index in range(column.bins + 1))
        return replace(column, lower=0.0, upper=float(column.bins - 1), edges=edges, missing=own)
    return replace(
        column, values=tuple(range(column.bins)), edges=(), missing=None, lower=None, upper=None, release="value",
        integer=False,
    )  # fmt: skip


def _refuse_unknown(spec: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(str(key) for key in spec if key not in known)
    if unknown:
        raise InputError(f"{where} has the unknown key {unknown[0]!r}; known keys are {', '.join(sorted(known))}")


def _column(name: str, spec: Any, here: str) -> Column:
    _need(here, isinstance(spec, dict), "needs a mapping with 'values' or with 'lower' and 'upper'")
    _refuse_unknown(spec, COLUMN_KEYS, here)
    public = f"is marked as {TAKEN!r}; compare it with what is public, mend it, and take that mark away"
    _need(here, not spec.get(TAKEN), f"{public}, or list the column under {CONFIRMED!r}")
    kind = spec.get("type")
    _need(here, kind is None or kind in get_args(Type), f"needs 'type' to be {', '.join(get_args(Type))}")
    if kind == "date":
        spec = _in_days(spec, here)
    only_dates = next((key for key in _OF_DATES if key in spec and kind != "date"), None)
    _need(here, not only_dates, f"has {only_dates!r}, which is for dates; add 'type: date'")
    one_kind = ("values" in spec) != ("lower" in spec and "upper" in spec)
    _need(here, one_kind, "needs either 'values' (categorical) or 'lower' and 'upper' (numeric), not both")
    of_values = kind in ("nominal", "ordinal")
    fits = kind is None or of_values == ("values" in spec)
    needed = "'values'" if of_values else "'lower' and 'upper'"
    _need(here, fits, f"is declared as {kind}, which needs {needed}")
    reads = {OPEN: _open}.get(str(spec.get("values")), _categorical)
    sigma, read = spec.get("sigma"), reads if "values" in spec else _numeric
    settings = read(spec, here)
    _need(here, sigma is None or (_is_number(sigma) and sigma > 0), "needs 'sigma' to be a positive number")
    sigma = None if sigma is None else float(sigma)
    return Column(name, _text(spec, "label", here), missing=spec.get("missing"), sigma=sigma, type=kind, **settings)


def _in_days(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    """A column of dates as one of whole numbers, their days."""
    extra = next(
        (key for key in ("values", "integer", "release", "sigma", "mean", "scale", "decimals") if key in spec), None
    )
    _need(here, not extra, f"has {extra!r}, which is not for dates; leave it out")
    layout, every = spec.get("format", dates.ISO), spec.get("every")
    _need(here, every is None or every in dates.EVERY, f"needs 'every' to be {', '.join(dates.EVERY)}")
    _need(here, every is None or "edges" not in spec, "has both 'every' and 'edges'; declare one of them")
    listed = spec.get("edges") or []
    found = [
        dates.day_in(text)
        for text in (spec.get("lower"), spec.get("upper"), *(listed if isinstance(listed, list) else [None]))
    ]
    days = [day for day in found if day is not None]
    _need(here, len(days) == len(found), "needs 'lower', 'upper' and 'edges' as dates: \"2024-12-31\"")
    lower, upper, *edges = days
    _need(here, lower < upper, "needs 'lower' to be before 'upper'")
    _need(here, upper <= dates.LAST, "needs 'upper' before the year 9999")
    back = isinstance(layout, str) and all(dates.gives_back(day, layout) for day in (lower, upper))
    _need(here, back, "needs a 'format' by which its bounds can be written and read again, as \"%d.%m.%Y\"")
    if every:
        edges = list(dates.calendar_edges(lower, upper, every))
    missing = spec.get("missing")
    coded = isinstance(spec.get("codes"), dict) and missing in spec["codes"]
    day = None if missing in (None, OWN_CATEGORY) or coded else dates.day_in(missing)
    plain = {key: value for key, value in spec.items() if key not in _OF_DATES}
    return plain | {
        "lower": lower,
        "upper": upper,
        "edges": edges,
        "missing": missing if day is None else day,
        "integer": True,
        "layout": layout,
    }


def _open(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    extra = next((key for key in ("recode", "labels", "codes") if key in spec), None)
    _need(here, not extra, f"has {extra!r}, which needs listed 'values'; leave it out, or list them")
    _need(here, spec.get("type") != "ordinal", "is open, so the order of its values says nothing; leave 'type' out")
    others, missing = spec.get("others", OTHER), spec.get("missing")
    for key, name in (("others", others), ("missing", missing)):
        plain = name is None or (isinstance(name, str) and writable(name))
        _need(here, plain, f"needs {key!r} to be a short text in quotes")
    _need(here, others is not None, "needs a name in 'others', for what few rows hold; leave it out for 'other'")
    return {"others": others, "open": True}


def _categorical(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    values = spec["values"]
    _need(here, isinstance(values, list) and values, "needs 'values' to be a list of distinct values")
    _need(here, "codes" not in spec, "needs no 'codes'; list them among its 'values'")
    text = all(isinstance(value, str) for value in values)
    _need(here, not any(isinstance(value, bool) for value in values), f"has truth values in 'values'; {_QUOTE}")
    _need(here, text or all(map(_is_number, values)), "mixes kinds of values; make all numbers or all quoted text")
    distinct, compared = set(values), set(values if text else map(float, values))  # as rows are compared with them
    _need(here, len(compared) == len(values), "needs 'values' to be a list of distinct values")
    _need(here, len(values) <= MOST_CODES, f"has {len(values):,} values; {_MOST}")
    recode, others = spec.get("recode") or {}, spec.get("others")
    _need(here, isinstance(recode, dict), "needs 'recode' to be a mapping from raw to released values")
    for key, value in [*recode.items(), ("others", others), ("missing", spec.get("missing"))]:
        known = isinstance(value, Hashable) and value in distinct and not isinstance(value, bool)
        _need(
            here,
            known or (value is None and key not in recode),
            f"sends {key!r} to {value!r}, which is not one of its values" + f"; {_QUOTE}" * isinstance(value, bool),
        )
    numeric = all(isinstance(key, str) or _is_number(key) for key in recode)
    truth = f"; {_QUOTE}" * any(isinstance(key, bool) for key in recode)
    _need(here, numeric, f"needs the keys of 'recode' to be numbers or quoted text{truth}")
    clear = {*values} if not recode or others is None else {*recode, others}
    unclear = next((repr(value) for value in values if value not in clear), "")
    _need(here, not unclear, f"leaves open what a raw {unclear} becomes; list it in 'recode'")
    labels = spec.get("labels") or {}
    texts = isinstance(labels, dict) and all(isinstance(words, str) for words in labels.values())
    _need(here, texts, "needs 'labels' to be a mapping from values to quoted words")
    for value in labels:
        truth = f"; {_QUOTE}" * isinstance(value, bool)
        _need(here, value in distinct, f"has words for {value!r}, which is not one of its values{truth}")
    pairs = {name: tuple(given.items()) for name, given in (("recode", recode), ("labels", labels))}
    return {"values": tuple(values), "others": others, **pairs}


def _numeric(spec: Mapping[str, Any], here: str) -> dict[str, Any]:
    listed = spec.get("edges") or []
    _need(here, "labels" not in spec, "needs no 'labels'; its bins are called by their edges")
    numbers = [spec["lower"], spec["upper"], *(listed if isinstance(listed, list) else [None])]
    layout = str(spec.get("layout", ""))
    _need(here, all(map(_is_number, numbers)), "needs finite numbers as 'lower', 'upper' and 'edges'")
    lower, upper, *edges = (float(x) for x in numbers)
    _need(here, lower < upper, "needs 'lower' to be less than 'upper'")
    if spec.get("integer") is True and not layout:
        _need(here, ceil(lower) <= floor(upper), "has no whole number between 'lower' and 'upper'; widen them")
        most = f"has bounds beyond {MOST_WHOLE:,}, where whole numbers are not exact; narrow them"
        _need(here, max(abs(lower), abs(upper)) <= MOST_WHOLE, most)
    _need(here, len(edges) <= MOST_CODES + 1, f"has {len(edges) - 1:,} bins; {_MOST}")
    if edges:
        ascending = len(edges) > 1 and sorted(set(edges)) == edges
        _need(here, ascending, "needs 'edges' to be at least two ascending numbers")
        reach = edges[0] <= lower and edges[-1] >= upper
        _need(here, reach, "has 'edges' that do not reach from 'lower' to 'upper'; widen them")
        inside = edges[1] >= lower and edges[-2] < upper
        _need(here, inside, "has a bin that lies outside 'lower' and 'upper'; remove its edge")
    release, missing, integer = spec.get("release", "draw"), spec.get("missing"), spec.get("integer", False)
    _need(here, release in ("index", "draw", "midpoint"), "needs 'release' to be index, draw or midpoint")
    _need(here, edges or release != "index", "needs 'edges', since it releases the index of a bin")
    meant = partial(dates.day_in, layout=layout) if layout else number_in
    codes = _sentinels(spec, (lower, upper), max(len(edges) - 1, 0) if release == "index" else 0, here, meant)
    fits = missing in (None, OWN_CATEGORY, *(raw for raw, _ in codes))
    fits = fits or (missing is not None and _is_number(missing) and lower <= missing <= upper)
    _need(
        here,
        fits,
        f"needs 'missing' to be 'own' or a {'date' if layout else 'number'} between its bounds"
        + ", or one of 'codes'" * bool(codes),
    )
    _need(here, isinstance(integer, bool), "needs 'integer' to be true or false")
    if edges and integer and release == "draw":
        ends = pairwise([np.ceil(lower) - 1, *map(np.floor, edges[1:-1]), np.floor(upper)])
        whole = all(low < high for low, high in ends)
        _need(here, whole, "has a bin without a whole number in it, but draws whole numbers; widen that bin")
    scale = spec.get("scale")
    _need(here, scale in (None, *get_args(Scale)), f"needs 'scale' to be {' or '.join(get_args(Scale))}")
    _need(here, not (scale and edges), "has 'scale' and 'edges', which say its bins twice; leave one out")
    decimals = spec.get("decimals")
    counted = decimals is None or (isinstance(decimals, int) and not isinstance(decimals, bool) and 0 <= decimals <= 15)
    _need(here, counted, "needs 'decimals' to be a whole number from 0 to 15")
    drawn = decimals is None or (release == "draw" and not integer)
    _need(here, drawn, "has 'decimals', which is for draws of numbers that are not whole; leave it out")
    mean = spec.get("mean")
    holds = isinstance(mean, list) and len(mean) == 2 and all(map(_is_number, mean)) and mean[0] < mean[1]
    _need(here, mean is None or holds, "needs 'mean' to be two ascending numbers that surely hold its mean")
    return {
        "lower": lower, "upper": upper, "edges": tuple(edges), "integer": integer, "release": release,
        "mean": None if mean is None else (float(mean[0]), float(mean[1])), "codes": codes, "layout": layout,
        "scale": None if edges or layout else _stated_scale(lower, upper, integer, scale), "decimals": decimals,
    }  # fmt: skip


def _stated_scale(lower: float, upper: float, integer: bool, declared: Scale | None) -> Scale | None:
    """The scale to write down: none where it goes without saying, so that digests of older schemas stay."""
    scale = declared or scale_of(lower, upper, integer)
    return None if scale == _unstated_scale(lower, upper, integer) else scale


def _unstated_scale(lower: float, upper: float, integer: bool) -> Scale:
    """That of `schema.json` without a scale, as before 2026-11-25."""
    return "logarithmic" if integer and upper - lower >= FINE_BINS else "linear"


def _sentinels(
    spec: Mapping[str, Any],
    bounds: tuple[float, float],
    indices: int,
    here: str,
    meant: Callable[[Value], float | None],
) -> tuple[tuple[Value, str], ...]:
    """The declared 'codes'. None may read as a number that a bin releases: within the bounds, or one of the indices."""
    codes = spec.get("codes") or {}
    texts = isinstance(codes, dict) and all(isinstance(words, str) and words for words in codes.values())
    _need(here, texts, "needs 'codes' to be a mapping from raw values to quoted words")
    known = all((isinstance(raw, str) and raw.strip()) or _is_number(raw) for raw in codes)
    _need(here, known, "needs the keys of 'codes' to be numbers or quoted text")
    _need(here, len(codes) + len(spec.get("edges") or []) <= MOST_CODES, f"has {len(codes):,} codes; {_MOST}")
    for raw in codes:
        number = meant(raw)
        inside = number is not None and (bounds[0] <= number <= bounds[1] or number in range(indices))
        _need(here, not inside, f"has the code {raw!r}, which is a number that its rows may hold; leave it out")
    distinct = {plain_text(raw) if (number := meant(raw)) is None else number for raw in codes}
    _need(here, len(distinct) == len(codes), "has two 'codes' that read as one; keep one of them")
    return tuple(codes.items())


def _need(here: str, holds: object, fault: str) -> None:
    if not holds:
        raise InputError(f"{here} {fault}")


def _text(spec: Mapping[str, Any], key: str, here: str) -> str:
    value = spec.get(key)
    _need(here, value is None or isinstance(value, str | int | float), f"needs {key!r} to be a text")
    return "" if value is None else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _ruled(schema: Schema, entries: Sequence[Any], here: str) -> Schema:
    """The schema with the structural zeros that its rules make, and with bins cut where a rule's range ends."""
    rules = [_rule(schema, entry, here) for entry in entries]
    cut = {name: list[Range]() for rule in rules for name in rule}
    for rule in rules:
        for name, listed in rule.items():
            cut[name] += [each for each in listed if not isinstance(each, int)]
    columns = tuple(_cut(column, cut.get(column.name, []), here) for column in schema.columns)
    ruled, zeros = replace(schema, columns=columns), []
    for rule in rules:
        codes = {name: _codes_of(listed, schema[name], ruled[name]) for name, listed in rule.items()}
        all_of = all(len(each) == ruled[name].size for name, each in codes.items())
        _need(here, not all_of, f"rules out every value of {', '.join(codes)}; leave one possible")
        zeros.append(Impossible(tuple(codes), tuple(codes.values())))
    out = [dict(zip(zero.columns, map(frozenset, zero.codes), strict=True)) for zero in zeros]
    possible = some_row({name: ruled[name].size for zero in zeros for name in zero.columns}, out)
    _need(here, possible, "has rules in 'impossible' that together leave no row possible; take one of them out")
    return replace(ruled, impossible=tuple(zeros))


def _rule(schema: Schema, entry: Any, here: str) -> dict[str, list[int | Range]]:
    """What an entry of 'impossible' lists for each of its columns: declared codes, and ranges of numbers."""
    _need(here, isinstance(entry, dict) and entry, "needs each entry of 'impossible' to map columns to lists of values")
    rule = {}
    for name, values in entry.items():
        place = {key: code for code, key in enumerate(schema[name].keys)}
        listed = values if isinstance(values, list) else [values]
        rule[name] = [each for value in listed for each in _meant(schema[name], place, value, here)]
    return rule


def _meant(column: Column, place: Mapping[Value, int], value: Any, here: str) -> list[int | Range]:
    """The codes or the range that a value in a rule means: a value or a bin's index, else words, else a range."""
    out, keys = f"rules out {column.name}={value!r}, but {value!r}", column.keys
    _need(here, isinstance(value, int | float | str) and not isinstance(value, bool), f"{out} is not a value or a text")
    if value in place:
        return [place[value]]
    raw = {column.bins + place: plain_text(raw) for place, (raw, _) in enumerate(column.codes)}
    words = {code: {column.words(keys[code]), raw.get(code)} for code in range(column.bins, column.size)}
    worded = [code for code, known in words.items() if value in known or plain_text(value) == raw.get(code)]
    if worded or not column.numeric:
        shown = [*map(column.words, keys[:12]), *["…"] * (len(keys) > 12)]
        _need(here, worded, f"{out} is not a value of {column.name!r}; it has {', '.join(shown)}")
        return [*worded]
    _need(
        here, isinstance(value, str), f"{out} is not one of its {column.bins} bins; quote what means numbers: {FORMS}"
    )
    try:
        return [_bins(column).read(dates.in_days(value) if column.layout else value)]
    except (InputError, ValueError) as error:
        if column.layout:
            bounds = " and ".join(map(column.shown, column.bounds))
            raise InputError(f"{here} {out} is no range of dates between {bounds}; write {_DATE_FORMS}") from None
        own = [f"{column.words(key)!r}" for key in keys[column.bins :]]
        raise InputError(f"{here} {out} {error}" + (f" (or {', '.join(own)})" if own else "")) from None


def _bins(column: Column) -> Bins:
    return Bins(column.cuts, *column.bounds, column.integer)


def _cut(column: Column, ranges: list[Range], here: str) -> Column:
    if not ranges:
        return column
    bins = _bins(column)
    empty = any(first > last for first, last in zip(*bins.ends, strict=True))
    _need(here, not empty, f"has a rule on {column.name!r}, which has a bin without a whole number in it; widen that")
    edges = bins.cut(ranges)
    _need(here, len(edges) <= MOST_CODES + 1, f"has {len(edges) - 1:,} bins of {column.name!r} by its rules; {_MOST}")
    new = next((edge for edge in edges if edge not in column.cuts), None)
    fixed = new is None or column.release != "index"
    _need(
        here, fixed, f"has a rule that cuts {column.name!r} at {new}, which releases its bins' indices; add that edge"
    )
    if column.fine:
        return replace(column, splits=tuple(edge for edge in edges if edge not in column.cuts))
    return replace(column, edges=edges)


def _codes_of(listed: list[int | Range], declared: Column, column: Column) -> tuple[int, ...]:
    """The codes, in a column with perhaps more bins, of declared codes and of ranges."""
    codes, bins = set[int](), _bins(column) if column.numeric else None
    for each in listed:
        if not isinstance(each, int):
            assert bins is not None
            codes.update(bins.inside(each))
        elif each < declared.bins:
            first, last = (column.cuts.index(edge) for edge in declared.cuts[each : each + 2])
            codes.update(range(first if each else 0, last))  # the first bin may begin lower now
        else:
            codes.add(each + column.bins - declared.bins)
    return tuple(sorted(codes))
