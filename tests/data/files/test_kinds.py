"""Files that are no text are refused before a byte of them is told."""

import gzip
import io
import zipfile

import pandas as pd
import pytest

from equistrata.data.drafting.look import header_of
from equistrata.data.files.dialect import Dialect
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
        (stata(114), "a Stata file; name it with the ending .dta"),
        (stata(118), "a Stata file; name it with the ending .dta"),
        (zipped(), "an Excel workbook or another zip file"),
        (parquet(), "a Parquet file; name it with the ending .parquet"),
        (gzip.compress(f"{SECRET}\n".encode(), mtime=0), "compressed; unpack it"),
        (b"$FL2@(#)" + SECRET.encode(), "an SPSS file; save it as Stata's (.dta)"),
        (f"name,age\n{SECRET},1\n".encode("utf-16"), "UTF-16 text; save it as UTF-8, or declare its encoding"),
        (b"\x01\0\0" + SECRET.encode(), "no text, since it has zero bytes"),
    ],
)
def test_a_file_that_is_no_text_is_refused_and_none_of_it_told(content, said, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    for read in (lambda: header_of(path, set()), lambda: FileSource(str(path)).read(["name"])):
        with pytest.raises(InputError) as caught:
            read()
        assert said in str(caught.value)
        assert SECRET not in str(caught.value)


def test_text_of_two_bytes_a_character_is_read_once_it_is_declared(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("name,age\nA,1\n".encode("utf-16"))
    read = FileSource(str(path), dialect=Dialect(encoding="utf-16")).read(["name", "age"])
    assert read.to_numpy().tolist() == [["A", "1"]]
