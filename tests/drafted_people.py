"""One table's code book in many forms: whichever it is, the draft is the same."""

from __future__ import annotations

from pathlib import Path

from equistrata.data.drafting.books import read_codebook
from equistrata.data.drafting.draft import draft
from equistrata.data.files import documents
from equistrata.data.schema import Schema

COLUMNS = ["CASE", "SEX", "AGE", "JOB", "PAY"]


def check_drafted(path: Path) -> None:
    """That the code book is drafted rightly, with a question for CASE alone."""
    made = draft(COLUMNS, read_codebook(path, COLUMNS), "people")
    assert [*made.open] == ["CASE"]
    schema = Schema.from_dict(documents.parse(made.text, "draft"), "draft")
    assert [schema[column].label for column in schema.names] == ["Sex", "Age", "Job", "Pay"]
    assert (schema["SEX"].values, dict(schema["SEX"].labels)) == ((1, 2), {1: "Male", 2: "Female"})
    assert (schema["AGE"].bounds, schema["AGE"].missing) == ((0, 99), None)
    assert (schema["JOB"].values[:2], schema["JOB"].missing is None) == (("01", "02"), False)
    labels = {key: words for key, words in schema["JOB"].labels if key in ("01", "02")}
    assert labels == {"01": "Farm, forest", "02": "Other"}
    assert (schema["PAY"].bounds, schema["PAY"].codes) == ((0, 900), ((-9, "refused"),))
