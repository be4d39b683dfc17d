"""Parquet files, which are read as data frames with the types of the file.

In particular, a column of whole numbers that has empty cells is not converted to floating-point numbers.

>>> frame_of(pa.table({"ID": [9007199254740993, None], "SEX": ["f", None]}))["ID"].tolist()
[9007199254740993, <NA>]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from equistrata.data.files.dialect import Dialect
from equistrata.data.files.formats import Reading
from equistrata.errors import InputError

_BUFFER = 1 << 20  # the number of bytes of each column that are read ahead, so that row groups can have any size
# The pandas types that allow empty cells. The default types would convert whole numbers to floating-point numbers.
_MASKED: dict[pa.DataType, Any] = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(), pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}  # fmt: skip


def header(path: Path, dialect: Dialect) -> list[str]:
    """Return the names of the columns in order."""
    return list(pq.read_schema(path).names)


def batches(path: Path, columns: Sequence[str], how: Reading) -> Iterator[pd.DataFrame]:
    """Iterate over the rows of some columns as data frames.

    Raises
    ------
    InputError
        If a column contains lists or records.
    """
    types = pq.read_schema(path)
    for name in columns:
        if pa.types.is_nested(types.field(name).type):
            raise InputError(
                f"column {name!r} of file {path.name!r} holds lists or records; write a column with one plain value in "
                "each row instead"
            )
    with pq.ParquetFile(path, buffer_size=_BUFFER) as file:
        yield from map(frame_of, file.iter_batches(how.rows, columns=[*columns]))


def frame_of(table: pa.RecordBatch | pa.Table) -> pd.DataFrame:
    """Convert an Arrow table to a data frame with the same values."""
    cells = {name: _cells(column) for name, column in zip(table.schema.names, table.columns, strict=True)}
    return pd.DataFrame(cells, index=pd.RangeIndex(table.num_rows))


def _cells(column: pa.Array | pa.ChunkedArray) -> pd.Series:
    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        values = column.dictionary
        texts = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        if not texts or values.null_count or pc.count_distinct(values).as_py() < len(values):
            column = column.dictionary_decode()
    masked = _MASKED.get if column.null_count else None
    with suppress(pa.ArrowNotImplementedError):
        return pd.Series(column.to_pandas(types_mapper=masked, date_as_object=False))
    return pd.Series(column.to_pylist(), dtype=object)
