"""Tests of files that are not text files. An error must be raised that does not contain any of the
bytes of the file.
"""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from equistrata.data.drafting.look import look
from equistrata.data.files.dialect import Dialect
from equistrata.data.header import header_of
from equistrata.data.sources import FileSource
from equistrata.errors import InputError

SECRET = "Zebedee"
ROWS = pd.DataFrame({"name": [SECRET] * 3, "age": [1.5, 2.5, 3.5]})


def stata(version):
    file = io.BytesIO()
    ROWS.to_stata(file, write_index=False, version=version)
    return file.getvalue()


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.csv", f"{SECRET}\n")
    return file.getvalue()


def parquet():
    file = io.BytesIO()
    ROWS.to_parquet(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (stata(114), "not UTF-8 text, since it has zero bytes"),
        (stata(118), "a Stata file; give its name the ending .dta"),
        (zipped(), "an Excel workbook; give its name the ending"),
        (parquet(), "a Parquet file; give its name the ending .parquet"),
        # The time is not included because the name of the test would then be different in each process.
        (gzip.compress(stata(118), mtime=0), "table.csv' is a Stata file; give its name the ending .dta"),
        (gzip.compress(gzip.compress(f"{SECRET}\n".encode(), mtime=0), mtime=0), "compressed twice; unpack it"),
        (b"$FL2@(#)" + SECRET.encode(), "an SPSS file; give its name the ending .sav"),
        (
            f"name,age\n{SECRET},1\n".encode("utf-16"),
            "zero bytes; save it as UTF-8, or declare file: {encoding: utf-16}",
        ),
        (b"\x01\0\0" + SECRET.encode(), "not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_text_is_refused_and_none_of_it_told(content, said, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    for read in (lambda: header_of(path), lambda: FileSource(str(path)).read(["name"])):
        with pytest.raises(InputError) as caught:
            read()
        assert said in str(caught.value)
        assert SECRET not in str(caught.value)


def test_text_of_two_bytes_a_character_is_read_once_it_is_declared(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("name,age\nA,1\n".encode("utf-16"))
    read = FileSource(str(path), dialect=Dialect(encoding="utf-16")).read(["name", "age"])
    assert read.to_numpy().tolist() == [["A", "1"]]


def lines(rows):
    """Return a file in Latin-1 with semicolons, decimal commas and quoted cells, with about 40 bytes per row."""
    cells = np.random.default_rng(0).integers(0, 10**9, rows)
    return "".join(["GR\u00d6SSE;NAME\n", *(f'{cell / 100}0;"M\u00fcller; {cell}"\n' for cell in cells)]).encode(
        "latin-1"
    )


@pytest.mark.parametrize("name", ["table.csv.gz", "table.csv"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_compressed_csv_file_is_read_as_its_text_whatever_its_name(parts, name, tmp_path):
    text, path, plain = lines(900), tmp_path / name, tmp_path / "plain.csv.gz"  # the file was decompressed by a browser
    third = len(text) // 3
    path.write_bytes(
        b"".join(gzip.compress(text[i * third :][: third if parts == 3 and i < 2 else None]) for i in range(parts))
    )
    plain.write_bytes(text)
    names, file = header_of(path)
    assert (names, file) == header_of(plain) == (["GR\u00d6SSE", "NAME"], {"delimiter": ";", "encoding": "cp1252"})
    assert look(path, names, file, {}) == look(plain, names, file, {})
    dialect = Dialect(delimiter=";", encoding="latin-1")
    read, same = (FileSource(str(each), dialect=dialect) for each in (path, plain))
    assert read.read(names).equals(same.read(names))
    assert len(read.read(names)) == 900
    assert read.ragged() == []


@pytest.mark.parametrize("rows", [300, 70_000])
def test_a_compressed_file_that_is_cut_off_or_damaged_is_never_read_in_part(rows, tmp_path):
    path, whole = tmp_path / "table.csv.gz", gzip.compress(lines(rows))
    middle = len(whole) // 2
    # The file is cut in its data, is cut in its last eight bytes, or has a wrong checksum.
    for content in (whole[: middle * 3 // 2], whole[:-4], whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]):
        path.write_bytes(content)
        for read in (
            lambda: FileSource(str(path), dialect=Dialect(delimiter=";", encoding="latin-1")).read(["NAME"]),
            lambda: look(path, ["NAME"], {"delimiter": ";", "encoding": "cp1252"}, {}),
        ):
            with pytest.raises(InputError, match="damaged or cut off") as caught:
                read()
            assert "ller" not in str(caught.value)
