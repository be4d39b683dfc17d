"""Tests of strata, which must be declared and must be a partition of the rows."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equistrata.data.strata
from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.strata import WHOLE, Strata
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

SCHEMA = Schema(
    "test",
    (
        Column("sex", values=("f", "m")),
        Column("age", lower=0, upper=99, edges=(0, 19, 99), missing="own"),
        Column("job", values=(0, 1)),
        Column("pay", values=(10, 20, 30)),
    ),
    impossible=(
        Impossible(("sex", "age"), ((1,), (2,))),  # there is no stratum m with a missing age
        Impossible(("age", "job"), ((0,), (1,))),  # job 1 is impossible in the strata with age 0
    ),
)


@st.composite
def tables(draw):
    rows = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in SCHEMA.sizes)), max_size=40))
    rows = [r for r in rows if not (r[0] == 1 and r[1] == 2) and not (r[1] == 0 and r[2] == 1)]
    return CodedTable(np.array(rows, dtype=np.uint8).reshape(-1, 4), SCHEMA)


def test_the_full_cross_product_in_order_without_impossible_strata():
    strata = Strata.over(SCHEMA, ["sex", "age"])
    assert strata.keys == (("f", 0), ("f", 1), ("f", 2), ("m", 0), ("m", 1))
    assert strata.sizes == (2, 3)
    assert Strata.over(SCHEMA, ["age", "sex"]).keys == ((0, "f"), (0, "m"), (1, "f"), (1, "m"), (2, "f"))
    assert strata.label(("f", 2)) == "sex=f,age=2"
    assert strata.codes_of(("m", 1)) == {"sex": 1, "age": 1}


def test_no_columns_is_the_whole_table():
    strata = Strata.over(SCHEMA, [])
    table = CodedTable(np.array([[0, 1, 1, 2]], dtype=np.uint8), SCHEMA)
    assert strata.keys == (WHOLE,)
    assert strata.label(WHOLE) == "all"
    assert strata.partition(table)[WHOLE].codes.tolist() == [[0, 1, 1, 2]]
    assert strata.assemble(strata.partition(table)).codes.tolist() == table.codes.tolist()


def test_structural_zeros_inside_a_stratum():
    strata = Strata.over(SCHEMA, ["sex", "age"])
    assert strata.rest(("f", 0)).impossible == (Impossible(("job",), ((1,),)),)
    assert strata.rest(("f", 1)).impossible == ()
    assert strata.rest(("f", 0)).names == ("job", "pay")


@pytest.mark.parametrize("columns", [["sex"], ["sex", "age"], ["pay", "sex"], ["age", "job", "pay"], []])
@given(table=tables())
def test_partition_keeps_every_row_once_and_assemble_undoes_it(columns, table):
    strata = Strata.over(SCHEMA, columns)
    parts = strata.partition(table)
    assert tuple(parts) == strata.keys
    assert sum(map(len, parts.values())) == len(table)
    for key, part in parts.items():
        fixed = strata.codes_of(key)
        rest = [SCHEMA.index(name) for name in part.schema.names]
        inside = [row for row in table.codes if all(row[SCHEMA.index(n)] == code for n, code in fixed.items())]
        assert part.codes.tolist() == [row[rest].tolist() for row in inside]
    whole = strata.assemble(parts)
    assert sorted(whole.codes.tolist()) == sorted(table.codes.tolist())
    assert whole.schema == SCHEMA


@given(table=tables(), seed=st.integers(0, 99))
def test_the_order_of_rows_and_of_parts_does_not_matter(table, seed):
    strata = Strata.over(SCHEMA, ["sex", "age"])
    order = np.random.default_rng(seed).permutation(len(table))
    parts, shuffled = strata.partition(table), strata.partition(table.take(order))
    for key in strata.keys:
        assert sorted(parts[key].codes.tolist()) == sorted(shuffled[key].codes.tolist())
    backwards = dict(reversed(parts.items()))
    assert strata.assemble(backwards).codes.tolist() == strata.assemble(parts).codes.tolist()


def test_the_order_of_columns_does_not_matter():
    strata = Strata.over(SCHEMA, ["sex"])
    table = CodedTable(np.array([[0, 1, 0, 2], [1, 0, 0, 1]], dtype=np.uint8), SCHEMA)
    turned = strata.partition(table.select(["pay", "job", "age", "sex"]))
    for key, part in strata.partition(table).items():
        assert turned[key].codes.tolist() == part.codes.tolist()


@pytest.mark.parametrize("rows", [0, 6, 7, 20])
def test_chunks_make_no_difference(monkeypatch, rows):
    strata = Strata.over(SCHEMA, ["sex"])
    table = CodedTable(np.random.default_rng(0).integers(0, SCHEMA.sizes, (rows, 4)).astype(np.uint8), SCHEMA)
    whole = strata.partition(table)
    monkeypatch.setattr(equistrata.data.strata, "CHUNK_ROWS", 3)
    for key, part in strata.partition(table).items():
        assert part.codes.tolist() == whole[key].codes.tolist()


def test_a_neighbour_differs_in_one_stratum_by_one_row():
    strata = Strata.over(SCHEMA, ["sex", "age"])
    rows = np.array([[0, 0, 0, 1], [1, 1, 1, 1], [0, 1, 0, 0]], dtype=np.uint8)
    more, less = strata.partition(CodedTable(rows, SCHEMA)), strata.partition(CodedTable(rows[:2], SCHEMA))
    assert [len(more[key]) - len(less[key]) for key in strata.keys] == [0, 1, 0, 0, 0]


def test_empty_strata_are_kept():
    parts = Strata.over(SCHEMA, ["sex", "age"]).partition(CodedTable(np.zeros((0, 4), dtype=np.uint8), SCHEMA))
    assert [len(part) for part in parts.values()] == [0] * 5
    assert all(part.codes.shape == (0, 2) for part in parts.values())


def test_a_row_in_an_impossible_stratum_is_not_dropped_in_silence():
    table = CodedTable(np.array([[1, 2, 0, 0]], dtype=np.uint8), SCHEMA)
    with pytest.raises(ValueError, match="impossible"):
        Strata.over(SCHEMA, ["sex", "age"]).partition(table)


def test_assemble_when_only_the_stratum_column_needs_wide_codes():
    schema = Schema("wide", (Column("area", values=tuple(range(300))), Column("job", values=(0, 1))))
    strata = Strata.over(schema, ["area"])
    parts = {key: CodedTable(np.zeros((1, 1), dtype=np.uint8), strata.rest(key)) for key in strata.keys}
    assert strata.assemble(parts).column("area").tolist() == list(range(300))
    with pytest.raises(KeyError):
        strata.assemble({key: part for key, part in parts.items() if key != (7,)})


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["race"], "unknown column 'race'"),
        ("sex", "strata is 'sex', but must be a list; give a list of column names"),
        (["sex", "sex"], "given twice"),
        (["sex", "age", "job", "pay"], "use up every column"),
        (["income"], "'income' is numeric and has no bins"),
    ],
)
def test_what_cannot_define_strata(columns, told):
    income = Column("income", lower=0, upper=1)
    schema = Schema("test", (*SCHEMA.columns, income)) if columns == ["income"] else SCHEMA
    with pytest.raises(InputError, match=told):
        Strata.over(schema, columns)


def test_file_names_are_safe():
    schema = Schema("odd", (Column("x", values=("../a b", "ü")), Column("y", values=(1,))))
    strata = Strata.over(schema, ["x"])
    names = [strata.file_name(key) for key in strata.keys]
    assert len(set(names)) == 2
    assert not any(set(name) & set("/\\ :") for name in names)


def test_file_names_of_long_labels_fit_and_differ():
    schema = Schema("long", (Column("x", values=("ü" * 100 + "a", "ü" * 100 + "b", "c")), Column("y", values=(1, 2))))
    strata = Strata.over(schema, ["x"])
    names = [strata.file_name(key) for key in strata.keys]
    assert len(set(names)) == 3
    assert [len(name) for name in names] == [200, 200, 3]


@pytest.mark.parametrize(
    ("columns", "told"), [(5, "100,000 strata"), (6, "1,000,000 strata"), (19, r"at least 10\^19 strata")]
)
def test_too_many_strata_are_counted_before_they_are_listed(columns, told):
    schema = Schema("wide", tuple(Column(f"c{n}", values=tuple(range(10))) for n in range(20)))
    begun = time.process_time()
    with pytest.raises(InputError, match=told + ", but the maximum is 10,000; use fewer columns"):
        Strata.over(schema, [f"c{n}" for n in range(columns)])
    assert time.process_time() - begun < 1
    assert len(Strata.over(schema, [f"c{n}" for n in range(4)]).keys) == 10_000
    assert time.process_time() - begun < 2
