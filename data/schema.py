"""The schema of a table, which declares its values, bounds and bins. A schema is never inferred from private rows.

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
from equistrata.data.questions import asked, open_question_error, refuse_empty_draft
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
    """The declared columns of a table and the rules that all rows satisfy.

    Parameters
    ----------
    name : str
        The name of the schema.
    columns : tuple of Column
        The declared columns.
    target : str, optional
        The column that classifiers predict.
    impossible : tuple of Impossible
        The combinations of codes that cannot occur.
    ordered : tuple of Ordered
        The rules that compare two columns of numbers or dates.
    derived : tuple of Derived
        The columns that are computed from other columns after the rows are drawn.
    default : tuple of str
        The columns that are released by default.
    description : str
        A description of the table.
    file : Dialect
        The format of the CSV files of raw rows.
    unit : Unit
        The unit of privacy.
    expanded_by : Column, optional
        The survey weight, if rows are drawn in proportion to it (see `expanded`). The rows then do not have this
        column.

    Raises
    ------
    InputError
        If two columns have the same name, or if a column and one of its outer columns are both declared.
    """

    name: str
    columns: tuple[Column, ...]
    target: str | None = None
    impossible: tuple[Impossible, ...] = ()
    ordered: tuple[Ordered, ...] = ()
    derived: tuple[Derived, ...] = ()
    default: tuple[str, ...] = ()
    description: str = ""
    file: Dialect = PLAIN  # the format of the CSV files of raw rows
    unit: Unit = ROW  # the unit of privacy
    expanded_by: Column | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for name, times in Counter(names).items():
            if times > 1:
                raise InputError(f"schema {self.name!r} names column {name!r} twice; name it once")
        for name in [name for column in self.columns for name in column.within]:
            if name in names:
                raise InputError(
                    f"schema {self.name!r} declares column {name!r} twice, because another column has it under "
                    f"'within'; remove the declaration of {name!r}, since its values are derived from that column"
                )

    def __repr__(self) -> str:
        return f"<Schema {self.name}: {shortened(self.names)}>"

    def _repr_html_(self) -> str:
        """Return a table with one line for each column, for notebooks."""
        lines = "".join(
            f"<tr><td>{escape(each.name)}</td><td>{escape(each.label)}</td><td>{_kind(each)}</td></tr>"
            for each in self.columns
        )
        head = "<tr><th>column</th><th>label</th><th>declared</th></tr>"
        return f"<table><caption>schema {escape(self.name)}</caption>{head}{lines}</table>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each column. Raises an InputError if a column has no bins."""
        return tuple(column.size for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.index(name)]

    def index(self, name: str) -> int:
        """Return the position of a column.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        int
            The position, starting from 0.

        Raises
        ------
        InputError
            If the schema does not declare the column.
        """
        try:
            return self.names.index(name)
        except ValueError:
            inner = next((column.name for column in self.columns if name in column.within), "")
            if inner:
                raise InputError(
                    f"column {name!r} is derived from {inner!r}, which lies within it; give {inner!r} instead"
                ) from None
            source = next((each.source for each in self.derived if each.name == name), "")
            if source:
                raise InputError(
                    f"column {name!r} is derived from {source!r} and is released with it; give {source!r} instead"
                ) from None
            if name in self.default:
                raise InputError(open_question_error(name, repr(self.name))) from None
            raise InputError(f"unknown column {name!r}; schema {self.name!r} has {', '.join(self.names)}") from None

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of raw rows that the schema encodes, which are its columns and their outer columns."""
        return tuple(dict.fromkeys(name for column in self.columns for name in column.cells))

    def plain(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of columns without their outer columns, such as `PUMA` for `ST/PUMA`.

        Parameters
        ----------
        names : sequence of str
            The names of the columns, with or without their outer columns.

        Returns
        -------
        tuple of str
            The names of the columns.

        Raises
        ------
        InputError
            If a column is unknown, or if the schema does not declare the outer columns that are named.
        """
        return tuple(self._plain(name) for name in names)

    def _plain(self, given: str) -> str:
        *outer, name = given.split(BETWEEN) if given not in self.names else [given]
        column = self[name]
        if outer and tuple(outer) != column.within:
            known = f"lies within {', '.join(column.within)}" if column.within else "lies within no column"
            raise InputError(
                f"{given!r} means that {name!r} lies within {outer[-1]!r}, but in schema {self.name!r} it {known}; "
                f"declare 'within' for {name!r}, and its values for each {outer[-1]!r}"
            )
        return name

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema of some columns, in the given order.

        The rules are kept if all their columns are selected.

        Parameters
        ----------
        names : sequence of str
            The names of the columns.

        Returns
        -------
        Schema
            The schema of these columns.

        Raises
        ------
        InputError
            If a column is unknown, or if no column is given.
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
        """Return the schema of the default columns and the survey weight.

        If there are no default columns, all columns are kept.
        """
        return self.released(self.default or self.names)

    def released(self, names: Sequence[str]) -> Schema:
        """Return the schema of some columns and the survey weight, if there is one.

        Parameters
        ----------
        names : sequence of str
            The names of the columns.

        Returns
        -------
        Schema
            The schema of these columns.

        Raises
        ------
        InputError
            If a column is unknown, or if no column is given.
        """
        weight = [] if self.survey_weight is None or not names else [self.survey_weight]
        return self.select(tuple(dict.fromkeys((*names, *weight))))

    @property
    def survey_weight(self) -> str | None:
        """The name of the survey weight, or None if there is none."""
        return next((column.name for column in self.columns if column.weight), None)

    @property
    def unweighted(self) -> tuple[str, ...]:
        """The names of the columns in order, without the survey weight."""
        return tuple(column.name for column in self.columns if not column.weight)

    def without_weight(self) -> Schema:
        """Return the schema without the survey weight."""
        return self if self.survey_weight is None else self.select(self.unweighted)

    def expanded(self) -> Schema:
        """Return the schema of rows that are drawn in proportion to the survey weight.

        This schema does not have the column of the survey weight.
        """
        return replace(self.without_weight(), expanded_by=self[str(self.survey_weight)])

    def with_survey_weight(self, name: str) -> Schema:
        """Return a copy of the schema in which a column is the survey weight.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        Schema
            The schema with the survey weight.

        Raises
        ------
        InputError
            If the column declares more than its bounds, if it is the target, or if a rule or a derived column uses it.
        """
        used = {each for zero in self.impossible for each in zero.columns} | {each.source for each in self.derived}
        used |= {each for order in self.ordered for each in order.columns}
        twice = f"uses the survey weight {name!r} in a rule, in a derived column or as its target; remove it there"
        need(f"schema {self.name!r}", name != self.target and name not in used, twice)
        weight = weighing(self[name])
        others = tuple(replace(each, weight=False) for each in self.columns)
        return replace(self, columns=tuple(weight if each.name == name else each for each in others))

    @property
    def published(self) -> tuple[Column, ...]:
        """The columns of the released rows in order, including the derived columns."""
        return (*self.columns, *(each.column for each in self.derived))

    @property
    def compared(self) -> list[str]:
        """The texts of the rules that compare two columns of numbers or dates."""
        return list(dict.fromkeys(order.rule for order in self.ordered))

    @property
    def open(self) -> tuple[str, ...]:
        """The names of the open columns in order."""
        return tuple(column.name for column in self.columns if column.open)

    def with_values(self, found: Mapping[str, Sequence[str]]) -> Schema:
        """Return a copy of the schema with the values that were found for open columns."""
        return replace(
            self, columns=tuple(c.with_values(found[c.name]) if c.name in found else c for c in self.columns)
        )

    def largest_possible(self) -> Schema:
        """Return the largest possible schema, in which each open column has MOST_FOUND arbitrary values."""
        return self.with_values({name: [f"value {i}" for i in range(1, MOST_FOUND + 1)] for name in self.open})

    @property
    def modelled(self) -> Schema:
        """The schema of the rows that are measured and modelled.

        This schema can have two additional columns. One is the survey weight, if rows are drawn in proportion to it.
        The other is the number of rows of the unit, if the units are weighted equally.
        """
        weight, names = self.expanded_by, self.names
        more = [] if weight is None or weight.name in names else [weight]
        if self.unit.weights == "units" and UNIT_ROWS not in names:
            more.append(Column(UNIT_ROWS, "Rows of the unit", (1, self.unit.at_most)))
        return replace(self, columns=(*self.columns, *more)) if more else self

    @cached_property
    def row_sizes(self) -> tuple[int, ...]:
        """The number of codes of each column in the rows.

        This is equal to `sizes`, except for UNIT_ROWS, which has one code for each number of rows of a unit. Its
        marginals have fewer codes (see `equistrata.synth.counting.row_parts`).
        """
        ours = zip(self.names, self.sizes, strict=True)
        return tuple(self.unit.at_most if name == UNIT_ROWS else size for name, size in ours)

    @property
    def weighed(self) -> bool:
        """True if the rows are weighted by their code of UNIT_ROWS.

        This is the case if the schema is `modelled` and units are weighted equally.
        """
        return self.unit.weights == "units" and UNIT_ROWS in self.names

    def coded(self) -> Schema:
        """Return the schema of a table that was released with this schema.

        In this table, binned columns that release indices have the indices of their bins as values.
        """
        return replace(self, columns=tuple(map(released_column, self.columns)), file=PLAIN)

    def given(self, fixed: Mapping[str, int]) -> Schema | None:
        """Return the schema of the other columns if some columns have fixed codes.

        A structural zero is reduced to the other columns if the fixed codes are part of it. Otherwise, it is removed.

        Parameters
        ----------
        fixed : mapping of str to int
            The code of each fixed column.

        Returns
        -------
        Schema or None
            The schema of the other columns, or None if the fixed codes are impossible.
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
        """Return an array over `zero.columns` that is True for the combinations that cannot occur."""
        mask = np.zeros([self[name].size for name in zero.columns], dtype=bool)
        mask[np.ix_(*zero.codes)] = True
        return mask

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the declaration in hexadecimal.

        Two schemas with the same digest encode rows in the same way.
        """
        declaration = asdict(self) | {"columns": [column.coding for column in self.columns]}
        del declaration["file"], declaration["unit"], declaration["derived"]  # these do not affect the codes of rows
        for name in ("ordered", "expanded_by"):  # so that the digests of schemas without these do not change
            if not declaration[name]:
                del declaration[name]
        return hashlib.sha256(json.dumps(declaration, sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_plain(cls, document: Any, where: str = "schema.json") -> Schema:
        """Return the schema from the content of a `schema.json`, which is the result of `dataclasses.asdict`.

        Parameters
        ----------
        document : object
            The content of the JSON file.
        where : str
            The name of the file in error messages.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InputError
            If the document is not a schema.

        Examples
        --------
        >>> schema = Schema.load("acs_employment")
        >>> Schema.from_plain(json.loads(json.dumps(asdict(schema)))) == schema
        True
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
        """Read a schema from a YAML file, or return a schema that is included in equistrata.

        Parameters
        ----------
        source : str or Path
            The path of the YAML file, or the name of an included schema.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InputError
            If there is no such file or schema, if the file is not valid YAML, or if a declaration is not valid.
        """
        text, where = schema_text(source)
        document = documents.parse(text, f"schema {where}")
        refuse_empty_draft(text, document, where)
        declared = document.get("columns") if isinstance(document, dict) else None
        open_ones = asked(text, declared if isinstance(declared, dict) else ())
        return cls.from_dict(without_open(document, open_ones), where, open_ones)

    @classmethod
    def from_dict(cls, document: Any, where: str = "schema", asked: Sequence[str] = ()) -> Schema:
        """Create a schema from the content of a YAML file.

        Parameters
        ----------
        document : object
            The content of the YAML file.
        where : str
            The name of the schema in error messages.
        asked : sequence of str
            The columns for which the file still contains a question. They are part of `default`, and an error is raised
            if one of them is selected.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InputError
            If a declaration is not valid.
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
            need(here, known, f"has {name!r} under {CONFIRMED!r}, which is not one of its columns; correct the name")
        derives, declared = derived_and_declared(confirmed(document)["columns"])
        need(here, declared, "only declares derived columns; declare the columns that they are derived from")
        nothing = "has an empty 'default', so no column is released; list a column, or remove the key to release all"
        need(here, document.get("default") != [], nothing)
        need(here, len(declared) <= MOST_COLUMNS, f"declares {len(declared):,} columns; the limit is {MOST_COLUMNS:,}")
        for name in (*declared, *derives):
            text = isinstance(name, str) and name.strip()
            need(here, name != "", "has a column without a name; name it here and in the header line of the table")
            need(here, text, f"has the column name {name!r}, which YAML does not read as a text; put it into quotes")
            need(here, name != UNIT_ROWS, f"has a column named {name!r}, which is a reserved name; rename it")
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
    """Create an object from its fields in JSON."""
    _refuse_foreign(plain, kind, where)
    unstated = {"scale": None, "bounds_apart": False} if kind is Column else {}  # older files do not have these keys
    return kind(**unstated | _tuples(plain))


def without_open(document: Any, names: Sequence[str]) -> Any:
    """Return the content of a schema file without the rules and derived columns that use columns with an open question.

    These columns are not released until the question is answered, so their rules cannot be violated.
    """
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
    """Raise an InputError if there is a key that this version does not know."""
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
    """Return names on a single line, where only the first `most` names are listed.

    >>> shortened(["A", "B", "C"], 2)
    'A, B and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _kind(column: Column) -> str:
    """Return a description of the declaration of a column."""
    if column.open:
        return "open values"
    if column.numeric:
        bins = "" if column.fine else f", {column.size} bins"
        return f"{column.lower:g} to {column.upper:g}{bins}"
    return f"{column.size} values"
