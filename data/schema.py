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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from equistrata.data.columns.column import MOST_FOUND, Column
from equistrata.data.columns.declared import CONFIRMED, column_of, need, refuse_unknown, text_of
from equistrata.data.columns.nesting import BETWEEN
from equistrata.data.columns.released import released_column
from equistrata.data.declaration import confirmed, schema_text
from equistrata.data.derived import FROM, Derived, check_derived, derived_and_declared, refuse_derived
from equistrata.data.files.dialect import PLAIN, Dialect
from equistrata.data.questions import asked, refuse_nothing, unanswered
from equistrata.data.rules.comparisons import columns_of
from equistrata.data.rules.impossible import Impossible, ruled
from equistrata.data.rules.ordered import Ordered, check_order
from equistrata.data.survey.weight import KEY as SURVEY_WEIGHT
from equistrata.data.survey.weight import survey_weight, weighing
from equistrata.data.texts import documents
from equistrata.data.texts.json_documents import check_shape, shape_of
from equistrata.data.units.unit import ROW, UNIT_ROWS, Unit
from equistrata.errors import InputError

__all__ = ["Column", "Impossible", "Schema"]

MOST_COLUMNS = 1_000
_SCHEMA_KEYS = {
    "name", "description", "columns", "default", "target", "impossible", "rules", "file", "unit", CONFIRMED,
    SURVEY_WEIGHT,
}  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """Declared columns, the target of prediction, combinations that cannot occur, orders between columns, and
    columns that are derived from others after drawing.

    Where rows are drawn in proportion to their survey weight (`expanded`), it is `expanded_by`, and no column of them.
    """

    name: str
    columns: tuple[Column, ...]
    target: str | None = None
    impossible: tuple[Impossible, ...] = ()
    ordered: tuple[Ordered, ...] = ()
    derived: tuple[Derived, ...] = ()
    default: tuple[str, ...] = ()
    description: str = ""
    file: Dialect = PLAIN  # of the CSV files of raw rows
    unit: Unit = ROW  # of privacy
    expanded_by: Column | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for name, times in Counter(names).items():
            if times > 1:
                raise InputError(f"schema {self.name!r} names column {name!r} twice; name it once")
        for name in [name for column in self.columns for name in column.within]:
            if name in names:
                raise InputError(
                    f"schema {self.name!r} declares column {name!r}, which another lies within; leave it out, since "
                    "its values follow from that one's"
                )

    def __repr__(self) -> str:
        return f"<Schema {self.name}: {shortened(self.names)}>"

    def _repr_html_(self) -> str:
        """For notebooks: a line for each column."""
        lines = "".join(
            f"<tr><td>{escape(each.name)}</td><td>{escape(each.label)}</td><td>{_kind(each)}</td></tr>"
            for each in self.columns
        )
        head = "<tr><th>column</th><th>label</th><th>declared</th></tr>"
        return f"<table><caption>schema {escape(self.name)}</caption>{head}{lines}</table>"

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
            inner = next((column.name for column in self.columns if name in column.within), "")
            if inner:
                raise InputError(
                    f"column {name!r} follows from {inner!r}, which lies within it; name {inner!r} alone"
                ) from None
            source = next((each.source for each in self.derived if each.name == name), "")
            if source:
                raise InputError(
                    f"column {name!r} is derived from {source!r}, and released with it; name that"
                ) from None
            if name in self.default:
                raise InputError(unanswered(name, repr(self.name))) from None
            raise InputError(f"unknown column {name!r}; schema {self.name!r} has {', '.join(self.names)}") from None

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of raw rows that it codes, in order: its own, and those that these lie within."""
        return tuple(dict.fromkeys(name for column in self.columns for name in column.cells))

    def plain(self, names: Sequence[str]) -> tuple[str, ...]:
        """Column names without what they lie within: `ST/PUMA` is `PUMA`.

        Raises InputError unless the schema declares that they do, and for an unknown column.
        """
        return tuple(self._plain(name) for name in names)

    def _plain(self, given: str) -> str:
        *outer, name = given.split(BETWEEN) if given not in self.names else [given]
        column = self[name]
        if outer and tuple(outer) != column.within:
            known = f"lies within {', '.join(column.within)}" if column.within else "lies within no column"
            raise InputError(
                f"{given!r} means that {name!r} lies within {outer[-1]!r}, but by schema {self.name!r} it {known}; "
                f"declare 'within' and the values of each {outer[-1]!r} there"
            )
        return name

    def select(self, names: Sequence[str]) -> Schema:
        """The schema of these columns only, in this order, with the rules that lie wholly within them.

        Raises InputError for an unknown column, or none.
        """
        if not names:
            raise InputError(f"no column of schema {self.name!r} is selected; name at least one")
        kept = set(names)
        return replace(
            self,
            columns=tuple(self[name] for name in names),
            target=self.target if self.target in kept else None,
            impossible=tuple(zero for zero in self.impossible if kept.issuperset(zero.columns)),
            ordered=tuple(order for order in self.ordered if kept.issuperset(order.columns)),
            derived=tuple(each for each in self.derived if each.source in kept),
            default=tuple(names),
        )

    def selected(self) -> Schema:
        """The schema of its default columns (all of them where no default is declared), and of the survey weight."""
        return self.released(self.default or self.names)

    def released(self, names: Sequence[str]) -> Schema:
        """The schema of these columns and of the survey weight, if there is one. Raises InputError as `select`."""
        weight = [] if self.survey_weight is None or not names else [self.survey_weight]
        return self.select(tuple(dict.fromkeys((*names, *weight))))

    @property
    def survey_weight(self) -> str | None:
        """The name of the column that is the survey weight, if one is."""
        return next((column.name for column in self.columns if column.weight), None)

    @property
    def unweighted(self) -> tuple[str, ...]:
        """The names of the columns but the survey weight's, in order."""
        return tuple(column.name for column in self.columns if not column.weight)

    def without_weight(self) -> Schema:
        """The schema of the columns but the survey weight; itself if there is none."""
        return self if self.survey_weight is None else self.select(self.unweighted)

    def expanded(self) -> Schema:
        """The schema of rows that are drawn in proportion to their survey weight: without that column."""
        return replace(self.without_weight(), expanded_by=self[str(self.survey_weight)])

    def with_survey_weight(self, name: str) -> Schema:
        """The schema with this column as the survey weight. Raises InputError unless it is one of bare bounds."""
        used = {each for zero in self.impossible for each in zero.columns} | {each.source for each in self.derived}
        used |= {each for order in self.ordered for each in order.columns}
        twice = f"has {name!r} in a rule, a derived column or as its target, and it is the survey weight; take it out"
        need(f"schema {self.name!r}", name != self.target and name not in used, twice)
        weight = weighing(self[name])
        others = tuple(replace(each, weight=False) for each in self.columns)
        return replace(self, columns=tuple(weight if each.name == name else each for each in others))

    @property
    def published(self) -> tuple[Column, ...]:
        """The columns of released rows, in order: its own, and those that are derived."""
        return (*self.columns, *(each.column for each in self.derived))

    @property
    def compared(self) -> list[str]:
        """The rules that compare two columns of numbers or dates, as they were declared."""
        return list(dict.fromkeys(order.rule for order in self.ordered))

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
        """The schema of what is measured and modelled: with the survey weight by which rows are expanded, if they are,
        and a column of the unit's rows, if units count as one each."""
        weight, names = self.expanded_by, self.names
        more = [] if weight is None or weight.name in names else [weight]
        if self.unit.weights == "units" and UNIT_ROWS not in names:
            more.append(Column(UNIT_ROWS, "Rows of the unit", (1, self.unit.at_most)))
        return replace(self, columns=(*self.columns, *more)) if more else self

    @cached_property
    def row_sizes(self) -> tuple[int, ...]:
        """How many codes rows have in each column: `sizes`, but of UNIT_ROWS one for each number of rows of a unit.

        What is counted of UNIT_ROWS is less (`equistrata.synth.counting.row_parts`).
        """
        ours = zip(self.names, self.sizes, strict=True)
        return tuple(self.unit.at_most if name == UNIT_ROWS else size for name, size in ours)

    @property
    def weighed(self) -> bool:
        """Whether rows weigh by their code of UNIT_ROWS: it is `modelled`, and units count as one each."""
        return self.unit.weights == "units" and UNIT_ROWS in self.names

    def coded(self) -> Schema:
        """The schema of a table that this schema has already released: binned columns hold the index of their bin."""
        return replace(self, columns=tuple(map(released_column, self.columns)), file=PLAIN)

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
        orders = [order for each in self.ordered if (order := each.given(fixed)) is not None]
        return replace(self.select(names), impossible=tuple(zeros), ordered=tuple(orders))

    def zero_mask(self, zero: Impossible) -> npt.NDArray[np.bool_]:
        """A table over `zero.columns`, true where the combination cannot occur."""
        mask = np.zeros([self[name].size for name in zero.columns], dtype=bool)
        mask[np.ix_(*zero.codes)] = True
        return mask

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the declaration, in hexadecimal: two schemas with the same digest code rows in the same way."""
        declaration = asdict(self) | {"columns": [column.coding for column in self.columns]}
        del declaration["file"], declaration["unit"], declaration["derived"]  # no codes of rows
        for name in ("ordered", "expanded_by"):  # so that digests of schemas without it stay
            if not declaration[name]:
                del declaration[name]
        return hashlib.sha256(json.dumps(declaration, sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_plain(cls, document: Any, where: str = "schema.json") -> Schema:
        """The schema whose `dataclasses.asdict` went through JSON, as `schema.json` of a release. Inverse of that.

        >>> schema = Schema.load("acs_employment")
        >>> Schema.from_plain(json.loads(json.dumps(asdict(schema)))) == schema
        True

        Raises InputError if it is something else.
        """
        check_shape(document, shape_of(cls), where)
        _refuse_foreign(document, cls, where)
        kinds: dict[str, Any] = {
            "columns": Column,
            "impossible": Impossible,
            "ordered": Ordered,
            "derived": Derived,
            "file": Dialect,
            "unit": Unit,
            "expanded_by": Column,
        }
        found = dict[str, Any]()
        for key, value in document.items():
            kind = None if value is None else kinds.get(key)
            if kind is None:
                found[key] = _tuples(value)
            else:
                listed = isinstance(value, list | tuple)
                found[key] = tuple(_made(kind, each, where) for each in value) if listed else _made(kind, value, where)
        schema = cls(**found)
        check_order(schema.ordered, schema, where)
        check_derived(schema.derived, schema, where)
        return schema

    @classmethod
    def load(cls, source: str | Path) -> Schema:
        """Read a schema from a YAML file, or by the name of one that comes with equistrata.

        Raises InputError for no such file or name, no YAML, or a declaration that makes no sense.
        """
        text, where = schema_text(source)
        document = documents.parse(text, f"schema {where}")
        refuse_nothing(text, document, where)
        declared = document.get("columns") if isinstance(document, dict) else None
        open_ones = asked(text, declared if isinstance(declared, dict) else ())
        return cls.from_dict(without_open(document, open_ones), where, open_ones)

    @classmethod
    def from_dict(cls, document: Any, where: str = "schema", asked: Sequence[str] = ()) -> Schema:
        """Build a schema from the mapping that a YAML file holds.

        Columns of which the file still asks how they are meant (`asked`) are among those of `default`, and selecting
        one raises InputError.
        """
        here = f"schema {where}"
        declared: Any = document.get("columns") if isinstance(document, dict) else None
        need(
            here, isinstance(declared, dict) and declared, "needs a mapping 'columns' from column names to declarations"
        )
        refuse_unknown(document, _SCHEMA_KEYS, here)
        for key in ("default", "impossible", "rules", CONFIRMED):
            need(here, isinstance(document.get(key) or [], list), f"needs {key!r} to be a list")
        for name in document.get(CONFIRMED) or ():
            known = isinstance(name, str) and name in declared
            need(here, known, f"has {name!r} under {CONFIRMED!r}, which is no column of it; name columns as it does")
        derives, declared = derived_and_declared(confirmed(document)["columns"])
        need(here, declared, "declares no column but derived ones; declare those that they follow from")
        nothing = "has an empty 'default', so no column is released; list one, or leave it out to release all"
        need(here, document.get("default") != [], nothing)
        need(here, len(declared) <= MOST_COLUMNS, f"declares {len(declared):,} columns; {MOST_COLUMNS:,} are the most")
        for name in (*declared, *derives):
            text = isinstance(name, str) and name.strip()
            need(here, name != "", "has a column without a name; give it one, in the table's header line too")
            need(here, text, f"has the column name {name!r}, which is no text to YAML; quote it")
            need(here, name != UNIT_ROWS, f"has a column named {name!r}, as releases name one of their own; rename it")
        columns = tuple(column_of(name, spec, f"column {name!r} of {here}") for name, spec in declared.items())
        weight = [survey_weight(document[SURVEY_WEIGHT], columns, here)] if SURVEY_WEIGHT in document else []
        schema = cls(
            name=text_of(document, "name", here) or Path(where).stem,
            columns=(*columns, *weight),
            target=document.get("target"),
            default=tuple(document.get("default") or ((*declared, *asked) if asked else ())),
            description=text_of(document, "description", here).strip(),
            file=Dialect.read(document.get("file") or {}, here),
            unit=Unit.read(document["unit"], here) if "unit" in document else ROW,
        )
        for name in (*schema.default, *([] if schema.target is None else [schema.target])):
            refuse_derived(name, derives, here)
            if name not in asked:
                replace(schema, default=()).index(name)
        made = ruled(schema, document.get("impossible") or (), document.get("rules") or (), derives, here)
        return made if made.survey_weight is None else made.with_survey_weight(made.survey_weight)


def _made(kind: Any, plain: Mapping[str, Any], where: str) -> Any:
    """A column, a combination, a dialect or a unit of its fields in JSON."""
    _refuse_foreign(plain, kind, where)
    unstated = {"scale": None, "bounds_apart": False} if kind is Column else {}  # older files have none
    return kind(**unstated | _tuples(plain))


def without_open(document: Any, names: Sequence[str]) -> Any:
    """A schema's mapping without rules and derived columns of columns of which it still asks how they are meant: these
    are not released until that is answered, so nothing can break such a rule."""
    if not names or not isinstance(document, dict):
        return document
    kept = dict(document)
    if isinstance(rules := document.get("rules"), list):
        kept["rules"] = [rule for rule in rules if not set(columns_of(rule)) & set(names)]
    if isinstance(declared := document.get("columns"), dict):
        sources = {name: spec.get(FROM) for name, spec in declared.items() if isinstance(spec, dict)}
        kept["columns"] = {name: spec for name, spec in declared.items() if sources.get(name) not in names}
    return kept


def _refuse_foreign(plain: Mapping[str, Any], kind: Any, where: str) -> None:
    """Raise InputError for a key that a release of this version has not."""
    unknown = sorted(set(plain) - {each.name for each in fields(kind)})
    if unknown:
        raise InputError(
            f"{where} has the key {unknown[0]!r}, which this version does not know; read it with the version that made "
            "it, which card.json names under 'software'"
        )


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def shortened(names: Sequence[str], most: int = 12) -> str:
    """Names in a line, for a repr.

    >>> shortened(["A", "B", "C"], 2)
    'A, B and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _kind(column: Column) -> str:
    """What a column is declared as, in words."""
    if column.open:
        return "open values"
    if column.numeric:
        bins = "" if column.fine else f", {column.size} bins"
        return f"{column.lower:g} to {column.upper:g}{bins}"
    return f"{column.size} values"
