"""Tests that the digest of a snapshot does not depend on the order of the rows or on the file format."""

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from equistrata.data import snapshot as module
from equistrata.data.schema import Schema
from equistrata.data.snapshot import Snapshot
from equistrata.data.table import CodedTable

SCHEMA = Schema.from_dict(
    {
        "name": "people",
        "columns": {
            "SEX": {"values": [1, 2]},
            "AGE": {"lower": 0, "upper": 90, "edges": [0, 30, 60, 90], "missing": "own"},
            "JOB": {"values": ["yes", "no"], "missing": "no"},
        },
    }
)


def frame(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    age = pd.Series(rng.integers(0, 90, rows).astype(float)).mask(rng.random(rows) < 0.1)
    return pd.DataFrame({"SEX": rng.integers(1, 3, rows), "AGE": age, "JOB": rng.choice(["yes", "no"], rows)})


def digests(rows, schema=SCHEMA, parts=1):
    snapshot = Snapshot(schema)
    for part in np.array_split(np.arange(len(rows)), parts):
        snapshot.add(CodedTable.encode(rows.iloc[part], schema))
    return snapshot.digests()


def multiset(rows):
    """Count the coded rows. This is a slow reference implementation."""
    return Counter(map(tuple, CodedTable.encode(rows, SCHEMA).codes.tolist()))


def test_digests_are_equal_as_multisets_are():
    values = [(sex, age, job) for sex in (1, 2) for age in (10.0, 50.0, None) for job in ("yes", "no")]
    tables = (
        [[]]
        + [[a] for a in values]
        + [[a, b] for a in values for b in values]
        + [[a, b, b] for a in values for b in values]
    )
    of = {}
    for rows in tables:
        table = pd.DataFrame(rows, columns=["SEX", "AGE", "JOB"])
        of.setdefault(digests(table)["rows"], set()).add(frozenset(multiset(table).items()))
    assert all(len(same) == 1 for same in of.values())
    assert len(of) == len(
        {frozenset(multiset(pd.DataFrame(rows, columns=["SEX", "AGE", "JOB"])).items()) for rows in tables}
    )


def test_order_batches_and_columns_do_not_matter(monkeypatch):
    rows = frame()
    expected = digests(rows)
    monkeypatch.setattr(module, "CHUNK_ROWS", 7)
    assert digests(rows.sample(frac=1, random_state=1), parts=3) == expected
    assert digests(rows[["JOB", "AGE", "SEX"]], SCHEMA.select(["JOB", "SEX", "AGE"])) == expected


def test_what_a_cell_means_counts_and_not_how_it_is_declared():
    rows, labelled = frame(), Schema.from_plain(json.loads(json.dumps(asdict(SCHEMA))))
    labelled = replace(labelled, columns=tuple(replace(c, label="words", sigma=1.0) for c in labelled.columns))
    assert digests(rows, labelled) == digests(rows)
    texts = replace(SCHEMA, columns=(replace(SCHEMA["SEX"], values=("1", "2")), *SCHEMA.columns[1:]))
    assert digests(rows.astype({"SEX": str}), texts) == digests(rows)
    bins = replace(SCHEMA, columns=(SCHEMA["SEX"], replace(SCHEMA["AGE"], edges=(0.0, 45.0, 90.0)), SCHEMA["JOB"]))
    ours, others = digests(rows), digests(rows, bins)
    assert ours["rows"] != others["rows"]
    assert {name for name in ours["columns"] if ours["columns"][name] == others["columns"][name]} == {"SEX", "JOB"}


@pytest.mark.parametrize("change", ["a row more", "a row less", "a row twice", "a cell", "cells that change places"])
def test_every_other_table_is_another(change):
    rows = frame()
    other = rows.copy()
    if change == "a row more":
        other = pd.concat([rows, rows.iloc[:1]])
    elif change == "a row less":
        other = rows.iloc[1:]
    elif change == "a row twice":
        other.iloc[0] = other.iloc[1] if not rows.iloc[0].equals(rows.iloc[1]) else other.iloc[2]
    elif change == "a cell":
        other.loc[5, "SEX"] = 3 - other.loc[5, "SEX"]
    else:
        other["SEX"] = other["SEX"].sample(frac=1, random_state=2).to_numpy()
    assert digests(other)["rows"] != digests(rows)["rows"]
    same = digests(other)["columns"] == digests(rows)["columns"]
    assert same == (change == "cells that change places")


def test_a_column_without_differences_tells_nothing_of_its_own():
    rows, others = frame(), frame(seed=1)
    rows["SEX"] = others["SEX"] = 1
    assert digests(rows)["columns"]["SEX"] != digests(others)["columns"]["SEX"]
    assert digests(rows)["columns"]["SEX"] == digests(rows.iloc[::-1])["columns"]["SEX"]
