"""The files of the synthetic rows, `synthetic.parquet` and `synthetic.csv`, which are written in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq


@contextmanager
def row_files(folder: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Open both files and yield a function that appends a frame of rows to them.

    The files are complete when the block ends.

    Each frame is a row group in Parquet. If there are no rows, write an empty frame.
    """
    with ExitStack() as files, ThreadPoolExecutor(1) as beside:
        csv, parquet = files.enter_context((folder / "synthetic.csv").open("wb")), None

        def write(frame: pd.DataFrame) -> None:
            nonlocal parquet
            table = pa.Table.from_pandas(frame, preserve_index=False)
            if parquet is None:
                parquet = files.enter_context(pq.ParquetWriter(folder / "synthetic.parquet", table.schema))
                csv.write(csv_text(frame.iloc[:0], header=True))
            # The first frame determines the type of a column, because pandas uses another type if no cell is empty.
            written = beside.submit(parquet.write_table, table.cast(parquet.schema))
            csv.write(arrow_text(frame, table))
            written.result()

        yield write


def arrow_text(frame: pd.DataFrame, table: pa.Table) -> bytes:
    """Return the lines of a CSV file.

    They have the same bytes as with pandas, but Arrow is used if possible, which is five times faster.
    """
    if frame.shape[1] == 1:  # an empty cell must be quoted if it is the whole line, which Arrow does not support
        return csv_text(frame)
    columns = []
    for name, column in zip(frame.columns, table.columns, strict=True):
        if pa.types.is_floating(column.type):  # Arrow writes 5.0 as 5
            values = frame[name].to_numpy(dtype=float, na_value=np.nan).tolist()
            column = pa.array([None if value != value else repr(value) for value in values], pa.string())
        columns.append(column)
    out = pa.BufferOutputStream()
    plain = arrow_csv.WriteOptions(include_header=False, quoting_style="none", batch_size=1 << 16)
    try:
        arrow_csv.write_csv(pa.table(columns, names=[str(name) for name in frame.columns]), out, plain)
    except pa.ArrowInvalid:  # a text must be quoted
        return csv_text(frame)
    return bytes(out.getvalue())


def csv_text(frame: pd.DataFrame, header: bool = False) -> bytes:
    """Return the lines of a CSV file, written by pandas."""
    text: str = frame.to_csv(index=False, header=header, lineterminator="\n")
    return text.encode("utf-8")
