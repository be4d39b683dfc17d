"""Tests of coding and decoding, which are compared with a slow reference and must not show the content of a cell."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from equistrata.data.columns.drawn import drawn_ends, drawn_numbers
from equistrata.data.schema import Column, Impossible, Schema
from equistrata.data.table import CodedTable
from equistrata.errors import InputError

CANARY_NUMBER, CANARY_TEXT = 8675309, "canary-8675309"
AGE = Column("age", lower=0, upper=99, edges=(0, 19, 38, 57, 76, 99), integer=True, release="draw")


def schema_of(*columns, impossible=()):
    return Schema("test", columns, impossible=impossible)


def encode_one(column, values, dtype=None):
    return CodedTable.encode(pd.DataFrame({column.name: pd.Series(values, dtype=dtype)}), schema_of(column)).codes[:, 0]


@st.composite
def numeric_columns(draw, release):
    edges = sorted(draw(st.lists(st.integers(-50, 50), min_size=2, max_size=8, unique=True)))
    lower = draw(st.integers(8 * edges[0], 8 * edges[1] - 1)) / 8
    upper = draw(st.integers(int(8 * max(edges[-2], lower)) + 1, 8 * edges[-1])) / 8
    integer = release == "draw" and draw(st.booleans())
    if integer:
        lower, upper = edges[0], edges[-1]
    return Column(
        draw(st.sampled_from(["a", "b", "c"])), lower=float(lower), upper=float(upper), edges=tuple(map(float, edges)),
        integer=integer, release=release, missing=draw(st.sampled_from([None, "own"])),
    )  # fmt: skip


@st.composite
def categorical_columns(draw):
    numbers = st.integers(-1000, 1000) | st.floats(-10, 10).map(lambda x: round(x, 2))
    values = draw(
        st.lists(numbers, min_size=1, max_size=6, unique=True)
        | st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=6, unique=True)
    )
    return Column("d", values=tuple(values))


@st.composite
def coded_tables(draw, releases=("draw", "midpoint")):
    columns = [draw(categorical_columns()), draw(numeric_columns(draw(st.sampled_from(releases))))]
    schema = schema_of(*columns)
    rows = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in schema.sizes)), max_size=20))
    return CodedTable(np.array(rows, dtype=np.uint8).reshape(-1, 2), schema)


@given(coded_tables(), st.integers(0, 100))
def test_decoding_and_coding_again_changes_nothing(table, seed):
    released = table.decode(np.random.default_rng(seed))
    assert np.array_equal(CodedTable.encode(released, table.schema).codes, table.codes)


@given(coded_tables(("index", "draw", "midpoint")))
def test_a_released_table_is_coded_by_the_coded_schema(table):
    released = table.decode(np.random.default_rng(1))
    again = CodedTable.encode(released, table.schema.coded())
    assert np.array_equal(again.codes, table.codes)
    assert again.schema.sizes == table.schema.sizes


@given(st.data(), numeric_columns("draw"))
def test_bins_against_pandas_cut(data, column):
    numbers = st.integers if column.integer else st.floats
    values = data.draw(st.lists(numbers(column.lower, column.upper), min_size=1))
    expected = pd.cut(pd.Series(values), list(column.edges), labels=False, include_lowest=True)
    assert encode_one(column, values).tolist() == expected.tolist()


def test_bins_are_closed_on_the_right_and_the_first_on_both_sides():
    assert encode_one(AGE, [0, 19, 20, 38, 39, 76, 77, 99]).tolist() == [0, 0, 1, 1, 2, 3, 4, 4]
    assert encode_one(replace(AGE, integer=False), [19.0, 19.000001]).tolist() == [0, 1]


@pytest.mark.parametrize("release", ["draw", "index", "midpoint"])
@pytest.mark.parametrize("cells", [[4, 4.5], ["4", "4.5"], ["4.50", None]])
def test_numbers_with_decimals_are_refused_where_draws_would_round_them(release, cells):
    column = replace(AGE, release=release, missing="own")
    if release != "draw":
        assert encode_one(column, cells)[0] == 0
        return
    with pytest.raises(InputError, match="'age' holds a number with decimals, but the schema says 'integer: true'"):
        encode_one(column, cells)
    assert encode_one(column, ["4", "4.0", 4.0, None]).tolist() == [0, 0, 0, 5]


@pytest.mark.parametrize("release", ["index", "draw", "midpoint"])
@pytest.mark.parametrize("integer", [True, False])
def test_releases(release, integer):
    column = Column("x", lower=2, upper=9, edges=(0, 4, 10), integer=integer, release=release, missing="own")
    codes = np.tile(np.array([[0], [1], [2]], dtype=np.uint8), (2000, 1))
    values = CodedTable(codes, schema_of(column)).decode(np.random.default_rng(0))["x"]
    assert values[codes[:, 0] == 2].isna().all()
    first, second = values[codes[:, 0] == 0].astype(float), values[codes[:, 0] == 1].astype(float)
    if release == "index":
        assert set(first) == {0}
        assert set(second) == {1}
    elif release == "midpoint":
        assert set(first) == {3}
        assert set(second) == {6.5}
    elif integer:
        assert set(first) == {2, 3, 4}  # the values are within the declared bounds
        assert set(second) == {5, 6, 7, 8, 9}
    else:
        assert 2 <= first.min() < 2.1
        assert 3.9 < first.max() <= 4
        assert 4 < second.min() < 4.1
        assert 8.9 < second.max() <= 9


def test_releases_without_missing_are_plain_numbers():
    rng = np.random.default_rng(0)
    table = CodedTable(np.zeros((3, 1), dtype=np.uint8), schema_of(AGE))
    assert table.decode(rng)["age"].dtype == np.int64
    real = schema_of(Column("x", lower=0, upper=1, edges=(0, 1), release="draw"))
    assert CodedTable(table.codes, real).decode(rng)["x"].dtype == np.float64


def test_draws_follow_the_generator_only():
    table = CodedTable(np.zeros((50, 1), dtype=np.uint8), schema_of(AGE))
    assert_frame_equal(table.decode(np.random.default_rng(3)), table.decode(np.random.default_rng(3)))


@pytest.mark.parametrize("absent", [None, np.nan, pd.NA, pd.NaT])
def test_missing_cells(absent):
    own = Column("x", lower=0, upper=4, edges=(0, 2, 4), missing="own")
    assert encode_one(own, pd.Series([1, absent, 3], dtype=object)).tolist() == [0, 2, 1]
    counted = Column("x", lower=0, upper=4, edges=(0, 2, 4), missing=3)
    assert encode_one(counted, pd.Series([1, absent, 3], dtype=object)).tolist() == [0, 1, 1]
    category = Column("x", values=(7, 8), missing=8)
    assert encode_one(category, pd.Series([7, absent], dtype=object)).tolist() == [0, 1]
    for undeclared in (Column("x", values=(7, 8)), Column("x", lower=0, upper=9, edges=(0, 9))):
        with pytest.raises(InputError, match="does not say what they mean"):
            encode_one(undeclared, pd.Series([7, absent], dtype=object))


def test_all_cells_missing():
    assert encode_one(Column("x", values=("a", "b"), missing="b"), [None, None]).tolist() == [1, 1]
    assert encode_one(Column("x", lower=0, upper=4, edges=(0, 2, 4), missing="own"), [None, None]).tolist() == [2, 2]


@pytest.mark.parametrize("dtype", [object, "str", "string", "category"])
def test_text_beside_missing_cells_is_read_whole(dtype):
    """Regression test: pandas truncates text if a column has missing cells."""
    column = Column("x", values=("a", "abcdef", "none"), missing="none")
    assert encode_one(column, ["a", None, "abcdef"], dtype).tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1, 2], "int64"), ([1.0, 2.0], "float64"), (["1", "2"], object), ([1, 2], "Int64"), ([1, 2], "category"),
     ([Decimal(1), Decimal(2)], object), (["1.0", 2], object)],
)  # fmt: skip
def test_numbers_in_any_dress(values, dtype):
    assert encode_one(Column("x", values=(1, 2)), values, dtype).tolist() == [0, 1]
    assert encode_one(Column("x", lower=0, upper=2, edges=(0, 1, 2)), values, dtype).tolist() == [0, 1]


def test_text_that_a_file_reader_took_for_numbers():
    column = Column("x", values=("1", "2", "none"), missing="none")
    assert encode_one(column, [1, 2]).tolist() == [0, 1]
    assert encode_one(column, [1, None, 2]).tolist() == [0, 2, 1]  # the cells are read as 1.0, missing and 2.0


def test_recode_and_others():
    employed = Column("x", values=(0, 1), recode=((1, 1),), others=0, missing=0)
    assert encode_one(employed, [1, 0, 6, -3, None, np.inf]).tolist() == [1, 0, 0, 0, 0, 0]
    assert encode_one(Column("x", values=(0, 1), recode=((2, 1),)), [0, 1, 2]).tolist() == [0, 1, 1]
    assert encode_one(Column("x", values=(1, 9), others=9), [1, 5, 9]).tolist() == [0, 1, 1]
    assert encode_one(Column("x", values=("f", "m"), recode=((1, "m"), (2, "f"))), [1, 2, 2]).tolist() == [1, 0, 0]
    assert encode_one(Column("x", values=(1, 2), recode=(("m", 1), ("f", 2))), ["m", "f", 1]).tolist() == [0, 1, 0]
    text = Column("x", values=("yes", "no"), recode=(("Y", "yes"), ("yes", "yes")), others="no")
    assert encode_one(text, ["Y", "yes", "N", "perhaps"]).tolist() == [0, 0, 1, 1]


CODE, WORD = Column("x", values=(1, 2), missing=1), Column("x", values=("a", "b"), missing="a")
NUMBER = Column("x", lower=0, upper=9, edges=(0, 9), missing="own")


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        (CODE, [1, CANARY_NUMBER], "does not declare"),
        (CODE, [1, CANARY_TEXT], "does not declare"),
        (CODE, [1, float(CANARY_NUMBER) + 0.5], "does not declare"),
        (CODE, [1, np.inf], "does not declare"),
        (CODE, [1, [CANARY_NUMBER]], "does not declare"),
        (CODE, [1, {CANARY_TEXT: 1}], "does not declare"),
        (CODE, [1, pd.Timestamp("2020-01-01")], "does not declare"),
        (WORD, ["a", CANARY_TEXT], "does not declare"),
        (WORD, ["a", CANARY_NUMBER], "does not declare"),
        (WORD, ["a", "nan"], "does not declare"),
        (WORD, ["a", "A"], "does not declare"),
        (WORD, ["a", [CANARY_TEXT]], "does not declare"),
        (NUMBER, [1, CANARY_NUMBER], "outside its declared bounds"),
        (NUMBER, [1, -CANARY_NUMBER], "outside its declared bounds"),
        (NUMBER, [1, 9.000001], "outside its declared bounds"),
        (NUMBER, [1, CANARY_TEXT], "not a number"),
        (NUMBER, [1, "nan"], "not a number"),
        (NUMBER, [1, np.inf], "not a number"),
        (NUMBER, [1, -np.inf], "not a number"),
        (NUMBER, [1, "1e999"], "not a number"),
        (NUMBER, [1, [CANARY_NUMBER]], "not a number"),
    ],
)
@pytest.mark.filterwarnings("error")  # a warning could also contain a cell
def test_a_bad_cell_is_refused_without_being_quoted(column, values, told):
    with pytest.raises(InputError, match=told) as caught:
        encode_one(column, values, object)
    assert "8675309" not in str(caught.value)
    assert "canary" not in str(caught.value)
    seen = caught.value
    while seen := seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__):
        assert "8675309" not in str(seen)  # a traceback also prints the chained exceptions


def test_an_impossible_combination_is_refused():
    schema = schema_of(
        Column("x", values=(1, 2)), Column("y", values=("a", "b")), impossible=(Impossible(("y", "x"), ((1,), (0,))),)
    )
    frame = pd.DataFrame({"x": [1, 2, 2], "y": ["a", "a", "b"]})
    assert len(CodedTable.encode(frame, schema)) == 3
    with pytest.raises(InputError, match=r"combination of y, x .* impossible"):
        CodedTable.encode(pd.DataFrame({"x": [1], "y": ["b"]}), schema)


def test_a_column_that_is_absent():
    with pytest.raises(InputError, match=r"'y' .* is not in the table"):
        CodedTable.encode(pd.DataFrame({"x": [1]}), schema_of(CODE, Column("y", values=(1,))))


def test_no_rows():
    schema = schema_of(CODE, Column("y", lower=0, upper=9, edges=(0, 9)), Column("z", values=("a",)))
    table = CodedTable.encode(pd.DataFrame({"x": [], "y": [], "z": []}), schema)
    assert len(table) == 0
    assert table.marginal(["x", "z"]).tolist() == [[0], [0]]
    assert table.decode(np.random.default_rng(0)).shape == (0, 3)


@pytest.mark.parametrize(("size", "dtype"), [(256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)])
def test_codes_take_the_smallest_type_that_holds_them(size, dtype):
    column = Column("x", values=tuple(range(size)))
    codes = encode_one(column, [0, size - 1])
    assert codes.dtype == dtype
    assert codes.tolist() == [0, size - 1]


@pytest.mark.parametrize("names", [["x"], ["x", "y"], ["y", "x"], ["z", "x", "y"], []])
def test_marginal_against_a_loop(names):
    rng = np.random.default_rng(5)
    schema = schema_of(
        *(Column(name, values=tuple(range(size))) for name, size in zip("xyz", (3, 300, 2), strict=True))
    )
    table = CodedTable(rng.integers(0, schema.sizes, (500, 3)).astype(np.uint16), schema)
    expected = np.zeros([schema[name].size for name in names], dtype=int)
    for row in table.codes:
        expected[tuple(row[schema.index(name)] for name in names)] += 1
    assert np.array_equal(table.marginal(names), expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunk", [1, 7, 100, 10_000])
def test_chunks_and_the_order_of_codes_in_memory_change_no_count(order, chunk, monkeypatch):
    monkeypatch.setattr("equistrata.data.table.CHUNK_ROWS", chunk)
    rng = np.random.default_rng(3)
    sizes = (256, 1, 2, 300)
    schema = schema_of(*(Column(n, values=tuple(range(size))) for n, size in zip("wxyz", sizes, strict=True)))
    table = CodedTable(np.array(rng.integers(0, sizes, (700, 4)), dtype=np.uint16, order=order), schema)
    for names in (["w"], ["w", "x"], ["x", "w"], ["z", "w"], ["y", "z", "w"], []):
        expected, _ = (
            np.histogramdd(
                table.codes[:, [schema.index(name) for name in names]].astype(float),
                [np.arange(schema[name].size + 1) - 0.5 for name in names],
            )
            if names
            else (len(table), None)
        )
        assert np.array_equal(table.marginal(names), expected)
        assert table.index_of(names).tolist() == [
            int(np.ravel_multi_index(tuple(row), [schema[n].size for n in names])) if names else 0
            for row in table.codes[:, [schema.index(name) for name in names]]
        ]


@pytest.mark.parametrize("sizes", [(3, 4), (300, 300, 300), (2**31, 2**30), (2**31, 2**31, 2)])
def test_distinct_rows_against_a_counter(sizes, monkeypatch):
    monkeypatch.setattr("equistrata.data.table.CHUNK_ROWS", 64)
    schema = schema_of(*(Column(f"c{j}", values=range(size)) for j, size in enumerate(sizes)))
    codes = np.random.default_rng(0).integers(0, np.minimum(sizes, 5), (500, len(sizes))).astype(np.uint32)
    rows, counts = CodedTable(codes, schema).distinct()
    found = Counter()
    for row, count in zip(rows.codes.tolist(), counts.tolist(), strict=True):
        found[tuple(row)] += count
    assert found == Counter(map(tuple, codes.tolist()))
    numbered = np.prod([float(size) for size in sizes]) <= 2**62
    assert (len(rows) == len(found)) == numbered
    if numbered:
        assert rows.codes.tolist() == sorted(rows.codes.tolist())


def test_a_table_may_be_a_mapped_file(tmp_path):
    schema = schema_of(Column("x", values=(1, 2)), Column("y", values=("a", "b", "c")))
    codes = np.random.default_rng(0).integers(0, [2, 3], (1000, 2)).astype(np.uint8)
    np.save(tmp_path / "codes.npy", codes)
    mapped = CodedTable(np.load(tmp_path / "codes.npy", mmap_mode="r"), schema)
    assert isinstance(mapped.codes, np.memmap)
    assert np.array_equal(mapped.marginal(["x", "y"]), CodedTable(codes, schema).marginal(["x", "y"]))


def test_numbers_of_a_text_file_are_read_by_their_distinct_texts():
    column = Column("x", lower=0, upper=9, edges=(0, 4, 9), missing="own")
    texts = pd.Series(["1", None, "8.5", "1", " 4"], dtype=pd.CategoricalDtype([" 4", "1", "8.5", "not a number"]))
    assert encode_one(column, texts, texts.dtype).tolist() == [0, 2, 1, 0, 0]  # an unused category is not a cell
    with pytest.raises(InputError, match="not a number"):
        encode_one(column, pd.Series(["1", "x"], dtype="category"), "category")


def test_the_callers_arrays_stay_as_they_were():
    codes = np.array([[0, 1], [1, 0]], dtype=np.uint8)
    table = CodedTable(codes, schema_of(Column("x", values=(1, 2)), Column("y", values=(1, 2))))
    with pytest.raises(ValueError, match="read-only"):
        table.codes[0, 0] = 1
    codes[0, 0] = 1
    assert codes.flags.writeable
    frame = pd.DataFrame({"x": [1, 1], "y": [2, 1]})
    before = frame.copy(deep=True)
    CodedTable.encode(frame, table.schema)
    assert_frame_equal(frame, before)
    frame.loc[0, "x"] = 5


@pytest.mark.parametrize("codes", [np.zeros(3, dtype=np.uint8), np.zeros((3, 3), dtype=np.uint8)])
def test_wrong_shapes(codes):
    with pytest.raises(ValueError, match="shape"):
        CodedTable(codes, schema_of(CODE, Column("y", values=(1,))))


@pytest.mark.parametrize("codes", [np.array([[2]], dtype=np.uint8), np.array([[-1]])])
def test_codes_outside_the_domain_are_refused(codes):
    with pytest.raises(ValueError, match="that its schema does not have"):
        CodedTable(codes, schema_of(CODE))


def test_select_take_concatenate():
    schema = schema_of(Column("x", values=(1, 2)), Column("y", values=("a", "b", "c")))
    table = CodedTable(np.array([[0, 2], [1, 1], [0, 0]], dtype=np.uint8), schema)
    assert table.select(["y"]).codes.tolist() == [[2], [1], [0]]
    assert table.select(["y", "x"]).schema.names == ("y", "x")
    assert table.take(np.array([2, 0])).codes.tolist() == [[0, 0], [0, 2]]
    assert table.take(np.array([False, True, False])).codes.tolist() == [[1, 1]]
    both = CodedTable.concatenate([table, table.take(np.array([1]))])
    assert both.codes.tolist() == [[0, 2], [1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("release", ["draw", "midpoint"])
@pytest.mark.parametrize(
    "more",
    [
        {"integer": True, "edges": (0, 17, 39, 64.5, 90)},
        {"edges": (0, 17.25, 39, 90)},
        {"decimals": 1, "edges": (0, 0.25, 39, 90)},
        {"integer": True, "edges": (-0.5, 17, 90.5)},
    ],
)
def test_the_mean_of_a_bins_drawn_numbers_is_known(release, more):
    """The test uses 4,000 draws for each bin and a tolerance of 5 standard errors. The probability of a false alarm is
    1 in 100,000.
    """
    column = Column("X", lower=0, upper=90, release=release, **more)
    codes = np.repeat(np.arange(column.bins), 4000)[:, None].astype(np.uint8)
    drawn = CodedTable(codes, Schema("s", (column,))).decode(np.random.default_rng(0))["X"].to_numpy(float)
    (low, high), found = drawn_ends(column), drawn.reshape(column.bins, -1)
    assert (found.min(1) >= low).all()
    assert (found.max(1) <= high).all()
    width = (high - low) / np.sqrt(12 * 4000) if release == "draw" else 1e-12
    assert (np.abs(found.mean(1) - drawn_numbers(column)) <= 5 * width + 1e-12).all()


def test_drawn_numbers_have_no_more_decimals_than_their_bins_need():
    column = Column("BMI", lower=10.0, upper=60.0, release="draw")
    schema = Schema("bodies", (column,))
    codes = np.repeat(np.arange(column.size), 3)[:, None].astype(np.uint16)
    drawn = CodedTable(codes, schema).decode(np.random.default_rng(0))["BMI"].to_numpy()
    assert np.array_equal(drawn, np.round(drawn, 4))
    assert len(np.unique(drawn)) > 0.9 * len(drawn)
    again = CodedTable.encode(pd.DataFrame({"BMI": drawn}), schema)
    assert np.array_equal(again.codes, codes)


def test_a_declared_value_with_a_line_break_is_said_on_one_line():
    schema = Schema("t", (Column("A", values=("x\ny", "z")),))
    with pytest.raises(InputError, match=r"\(declared: 'x\\ny', z\)"):
        CodedTable.encode(pd.DataFrame({"A": ["other"]}), schema)
