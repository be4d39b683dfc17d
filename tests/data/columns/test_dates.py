"""Tests of date columns: how they are declared, parsed, coded and sampled, and which errors are raised."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from equistrata.data.columns import dates
from equistrata.data.misfits import misfits
from equistrata.data.problems import schema_problems
from equistrata.data.schema import Schema
from equistrata.data.sources import FileSource
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

BORN: dict[str, Any] = {"type": "date", "format": "%d.%m.%Y", "lower": "1950-01-15", "upper": "1950-04-10"}


def schema_of(spec: dict[str, Any], **more: Any) -> Schema:
    return Schema.from_dict({"columns": {"BORN": spec}, **more}, "people")


def encoded(cells: list[Any], spec: dict[str, Any]) -> list[int]:
    return CodedTable.encode(pd.DataFrame({"BORN": cells}), schema_of(spec)).codes[:, 0].tolist()


def test_calendar_bins() -> None:
    column = schema_of(BORN | {"every": "month"})["BORN"]
    assert [column.words(key) for key in column.keys] == [
        "1950-01-15 to 1950-01-31", "1950-02", "1950-03", "1950-04-01 to 1950-04-10",
    ]  # fmt: skip
    cells = ["15.01.1950", "31.01.1950", "01.02.1950", "28.02.1950", "01.03.1950", "10.04.1950"]
    assert encoded(cells, BORN | {"every": "month"}) == [0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("every", dates.EVERY)
def test_every_day_is_in_the_period_it_belongs_to(every: dates.Every) -> None:
    first, last = date(1998, 11, 5), date(2001, 3, 2)
    edges = dates.calendar_edges(dates.day_in(first) or 0, dates.day_in(last) or 0, every)
    days = pd.date_range(first, last)
    number = np.array([dates.day_in(day.date()) for day in days], dtype=float)
    ours = np.searchsorted(edges[1:-1], number, side="left")
    theirs = days.to_period({"day": "D", "week": "W-SUN", "month": "M", "quarter": "Q", "year": "Y"}[every])
    assert (ours == pd.factorize(theirs)[0]).all()


def test_bounds_alone_are_days_or_longer_periods() -> None:
    assert schema_of(BORN)["BORN"].size == 86
    long = schema_of(BORN | {"lower": "1900-01-01", "upper": "2024-12-31"})["BORN"]
    assert long.size == 125 * 4
    assert long.words(1) == "1900-04 to 1900-06"
    assert long.words(long.size - 1) == "2024-10 to 2024-12"


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(["1950-02-01", "1950-03-03"]),
        pd.Series(["1950-02-01", "1950-03-03"], dtype="category"),
        pd.Series(pd.to_datetime(["1950-02-01 13:00", "1950-03-03 00:00"])),
        pd.Series(pd.to_datetime(["1950-02-01 13:00", "1950-03-03 00:00"]).tz_localize("UTC")),
        pd.Series([date(1950, 2, 1), date(1950, 3, 3)]),
    ],
)
def test_the_same_date_has_one_code_however_it_comes(cells: pd.Series) -> None:
    spec = BORN | {"format": "%Y-%m-%d", "every": "month"}
    assert encoded(list(cells), spec) == [1, 2]
    assert CodedTable.encode(pd.DataFrame({"BORN": cells}), schema_of(spec)).codes[:, 0].tolist() == [1, 2]


def test_digits_that_a_reader_took_for_numbers_are_dates() -> None:
    spec = BORN | {"format": "%d%m%Y", "every": "month"}
    assert encoded(["01021950", "15011950"], spec) == encoded([1021950, 15011950], spec) == [1, 0]
    assert encoded([1021950.0, 15011950.0], spec) == [1, 0]


@pytest.mark.parametrize("every", [None, "week", "quarter"])
def test_draws_are_dates_of_their_bin(every: str | None) -> None:
    schema = schema_of(BORN | ({"every": every} if every else {}))
    codes = np.repeat(np.arange(schema.sizes[0], dtype=np.uint16), 30)[:, None]
    frame = CodedTable(codes, schema).decode(np.random.default_rng(0))
    again = CodedTable.encode(frame, schema.coded())
    assert (again.codes == codes).all()
    assert frame["BORN"].str.fullmatch(r"\d\d\.\d\d\.1950").all()


def test_codes_and_missing_cells_beside_dates() -> None:
    spec = BORN | {"every": "month", "codes": {-9: "refused", "99.99.9999": "unknown"}, "missing": "own"}
    schema = schema_of(spec)
    frame = pd.DataFrame({"BORN": ["01.02.1950", "-9", "99.99.9999", None]})
    table = CodedTable.encode(frame, schema)
    assert table.codes[:, 0].tolist() == [1, 4, 5, 6]
    drawn = table.decode(np.random.default_rng(0))["BORN"]
    assert drawn.tolist()[1:3] == ["-9", "99.99.9999"]
    assert drawn.isna().tolist() == [False, False, False, True]
    own = schema_of(BORN | {"missing": "1950-02-03", "every": "month"})
    assert CodedTable.encode(pd.DataFrame({"BORN": [None]}), own).codes.tolist() == [[1]]


def test_a_time_of_day_is_read_and_not_released() -> None:
    schema = schema_of(BORN | {"format": "%d.%m.%Y %H:%M"})
    frame = CodedTable.encode(pd.DataFrame({"BORN": ["01.02.1950 13:45"]}), schema).decode(np.random.default_rng(0))
    assert frame["BORN"].tolist() == ["1950-02-01"]
    assert CodedTable.encode(frame, schema.coded()).codes.tolist() == [[17]]


def test_months_without_days() -> None:
    schema = schema_of(BORN | {"format": "%m/%Y", "lower": "1950-01-01"})
    assert schema.sizes == (4,)
    frame = CodedTable.encode(pd.DataFrame({"BORN": ["02/1950", "04/1950"]}), schema).decode(np.random.default_rng(0))
    assert frame["BORN"].tolist() == ["02/1950", "04/1950"]


def test_no_drawn_date_breaks_a_rule() -> None:
    rule = [{"BORN": "<1950-02-10", "JOB": "yes"}, {"BORN": "1950-03-05 to 1950-03-07", "JOB": "no"}]
    columns = {"BORN": BORN | {"every": "month"}, "JOB": {"values": ["no", "yes"]}}
    schema = Schema.from_dict({"columns": columns, "impossible": rule}, "people")
    cells = schema.sizes[0] * 2
    codes = np.array([(c // 2, c % 2) for c in range(cells)] * 40, dtype=np.uint16)
    out = np.any([schema.zero_mask(zero)[tuple(codes.T)] for zero in schema.impossible], axis=0)
    frame = CodedTable(codes[~out], schema).decode(np.random.default_rng(0))
    born, yes = pd.to_datetime(frame["BORN"], format="%d.%m.%Y"), frame["JOB"] == "yes"
    assert not (yes & (born < "1950-02-10")).any()
    assert not (~yes & (born >= "1950-03-05") & (born <= "1950-03-07")).any()
    assert (yes & (born == "1950-02-10")).any()
    assert (~yes & (born == "1950-03-08")).any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lower": "1950"}, "as dates"),
        ({"lower": "1951-01-01"}, "'lower' to be before 'upper'"),
        ({"upper": "9999-12-31"}, "before the year 9999"),
        ({"format": "%d.%m"}, "needs a 'format' in which its bounds can be written and read back"),
        ({"format": "%d.%m.%y"}, "needs a 'format'"),
        ({"format": "%d.%m.%Y %d"}, "needs a 'format'"),
        ({"format": 4}, "needs a 'format'"),
        ({"every": "fortnight"}, "needs 'every' to be day, week"),
        ({"every": "month", "edges": ["1950-01-15", "1950-04-10"]}, "both 'every' and 'edges'"),
        ({"edges": ["1950-01-15", "soon"]}, "as dates"),
        ({"integer": True}, "has 'integer', which is not allowed for dates"),
        ({"values": [1]}, "has 'values', which is not allowed for dates"),
        ({"missing": "1949-01-01"}, "a date between its bounds"),
        ({"missing": "never"}, "a date between its bounds"),
        ({"codes": {"01.02.1950": "unknown"}}, "which is also a number or date"),
        ({"type": "number"}, "has 'format', which is only allowed for dates"),
        ({"type": "moment"}, "needs 'type' to be number, date"),
    ],
)
def test_wrong_declarations(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        schema_of(BORN | change)
    schema, problems = schema_problems({"columns": {"BORN": BORN | change}}, "people")
    assert schema is None
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"type": "ordinal", "lower": 0, "upper": 1}, "declared as ordinal, which needs 'values'"),
        ({"type": "number", "values": [0, 1]}, "declared as number, which needs 'lower' and 'upper'"),
        ({"values": [0, 1], "every": "day"}, "has 'every', which is only allowed for dates"),
    ],
)
def test_types_that_do_not_fit_what_is_declared(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        schema_of(spec)


@pytest.mark.parametrize("rule", ["<1949-01-01", "1950-02-30", "soon", "1950-03-01 to 1950-02-01"])
def test_rules_that_are_no_dates(rule: str) -> None:
    with pytest.raises(InputError, match="is not a range of dates between 1950-01-15 and 1950-04-10"):
        schema_of(BORN, impossible=[{"BORN": rule}])


def test_wrong_rows_are_refused_without_their_value() -> None:
    with pytest.raises(InputError, match=r"declared as dates in the format '%d.%m.%Y'") as caught:
        encoded(["1950-02-01"], BORN)
    assert "1950-02-01" not in str(caught.value)
    with pytest.raises(InputError, match=r"a date outside its declared bounds \[1950-01-15, 1950-04-10\]"):
        encoded(["01.02.1949"], BORN)
    frame = pd.DataFrame({"BORN": ["01.02.1950", "1950-02-01", "01.02.1949", None]})
    assert [(each.fault, each.cells) for each in misfits([frame], schema_of(BORN))[1]] == [
        ("not dates", 1), ("out of bounds", 1), ("missing cells", 1),
    ]  # fmt: skip


def test_files_of_dates(tmp_path: Path) -> None:
    spec = BORN | {"every": "month", "missing": "own"}
    schema = schema_of(spec, file={"delimiter": ";", "decimal": ",", "thousands": "."})
    (tmp_path / "people.csv").write_text("BORN\n01.02.1950\n04.03.1950\nNA\n")
    pd.DataFrame({"BORN": [date(1950, 2, 1), date(1950, 3, 4), None]}).to_parquet(tmp_path / "people.parquet")
    for name in ("people.csv", "people.parquet"):
        source = FileSource.of(str(tmp_path / name), schema)
        assert CodedTable.encode(source.read(["BORN"]), schema).codes[:, 0].tolist() == [1, 2, 4]
        (batch,) = source.batches(["BORN"])
        assert CodedTable.encode(batch, schema).codes[:, 0].tolist() == [1, 2, 4]


def test_types_do_not_change_what_a_schema_codes() -> None:
    plain = Schema.from_dict({"columns": {"A": {"values": [1, 2]}}}, "people")
    typed = Schema.from_dict({"columns": {"A": {"values": [1, 2], "type": "ordinal"}}}, "people")
    assert plain.digest == typed.digest
    assert schema_of(BORN).digest != schema_of(BORN | {"format": "%d/%m/%Y"}).digest
    assert Schema.from_plain(asdict(schema_of(BORN))) == schema_of(BORN)


BOTH = BORN | {"format": ["%d.%m.%Y", "%Y-%m-%d"]}


def test_a_column_in_two_layouts() -> None:
    assert encoded(["15.01.1950", "1950-01-15", "16.01.1950", "1950-04-10"], BOTH) == [0, 0, 1, 85]
    schema = schema_of(BOTH)
    rows, found = misfits([pd.DataFrame({"BORN": ["15.01.1950", "1950-02-01", "01/02/1950"]})], schema)
    assert (rows, [(each.fault, each.cells) for each in found]) == (3, [("not dates", 1)])
    drawn = CodedTable(np.array([[0], [85]], dtype=np.uint8), schema).decode(np.random.default_rng(0))
    assert drawn["BORN"].tolist() == ["15.01.1950", "10.04.1950"]
    assert Schema.from_plain(json.loads(json.dumps(asdict(schema)))) == schema
    assert schema.coded()["BORN"].also == ()
    assert schema.digest != schema_of(BORN).digest == schema_of(BORN | {"format": ["%d.%m.%Y"]}).digest


@pytest.mark.parametrize("layouts", [["%d/%m/%Y", "%m/%d/%Y"], ["%d.%m.%Y", "%d.%m.%Y"], ["%d.%m.%Y", 5], []])
def test_layouts_of_which_one_text_may_mean_two_dates(layouts: list[Any]) -> None:
    with pytest.raises(InputError, match=r"'format'"):
        schema_of(BORN | {"format": layouts})


def test_a_code_is_no_date_of_the_second_layout() -> None:
    with pytest.raises(InputError, match="which is also a number or date"):
        schema_of(BOTH | {"codes": {"1950-02-01": "unknown"}})


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "time", "lower": 0, "upper": 24},
        {"type": "time", "values": ["08:00"]},
        {"type": "date", "format": "%H:%M", "lower": "00:00", "upper": "23:59"},
    ],
)
def test_times_of_day_are_refused_with_what_to_declare_instead(spec: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"a time of day, which is not supported; write .* upper: 1440"):
        schema_of(spec)
