"""Tests of the JSON parser for untrusted documents: the errors and the time until they are raised."""

import json
import os
import time
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equistrata.data.texts.json_documents import MOST_DEPTH, MOST_PARTS, check_shape, parse_json, read_json, shape_of
from equistrata.errors import InputError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "damaged"),
        ('{"a": ', "damaged"),
        (b"\xff{}", "not UTF-8 text"),
        (r'{"a": "\ud800"}', "not UTF-8 text"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' twice in the same object"),
        ("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "nested more than 20 levels deep"),
        ("[" * 100_000, "nested more than 20 levels deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested more than 20 levels deep"),
        ("1" + "0" * 400, "a number has 401 digits"),
        ("-1" + "0" * 400, "a number has 402 digits"),
        ("1e999", "a number is too large"),
        ("-1e999", "a number is too large"),
        ("[NaN]", "NaN is not a number"),
        ("-Infinity", "-Infinity is not a number"),
        ("[" + "[]," * MOST_PARTS + "0]", "more than 2,000,000 lists and mappings"),
        ('"' + r"\"" * 2_000_000, "damaged"),
        ("[" + ",".join(["{" + ",".join(f'"{i}":0' for i in range(50_000)) + ',"49999":1}']) + "]", "'49999' twice"),
    ],
)
def test_what_is_no_document_is_refused_at_once(text, sentence):
    begun = time.process_time()
    with pytest.raises(InputError, match=rf"^card\.json of x cannot be read as JSON: .*{sentence}.*; restore the file"):
        parse_json(text, "card.json of x")
    assert time.process_time() - begun < 5


@given(PLAIN)
def test_any_other_document_is_read_as_it_is(document):
    plain = json.dumps(document)
    for text in (plain, "\ufeff" + plain, json.dumps(document, ensure_ascii=False).encode()):
        assert parse_json(text, "x") == document


@dataclass
class Inner:
    one: int
    kind: Literal["a", "b"] = "a"
    pairs: tuple[tuple[str, float], ...] = ()


@dataclass
class Outer:
    name: str
    inner: tuple[int, Inner] | None = None


@pytest.mark.parametrize(
    ("document", "shape", "sentence"),
    [
        ([], {"a": int}, "is no mapping"),
        ({}, {"a": int}, "lacks 'a'"),
        ({"a": {"b": [1, True]}}, {"a": {"b": [int]}}, "has 'a.b.1' = True, which is no whole number"),
        ({"a": {"b": 1.0}}, {"a": {"b": int}}, "has 'a.b' = 1.0, which is no whole number"),
        ({"a": {"b": True}}, {"a": {"b": float}}, "has 'a.b' = True, which is no number"),
        ({"a": {"x": 1, "y": "2"}}, {"a": {str: int}}, "has 'a.y' = '2', which is no whole number"),
        ({"a": {"b": "2"}}, {"a?": (None, {"b": int})}, "has 'a.b' = '2', which is no whole number"),
        ({"a": 3}, {"a?": (None, {"b": int})}, "has 'a' = 3, which is no"),
        ({"name": "x", "inner": [1, {"one": 1, "kind": "c"}]}, shape_of(Outer), "has 'inner.1.kind' = 'c'"),
        (
            {"name": "x", "inner": [1, {"one": 1, "pairs": [["a"]]}]},
            shape_of(Outer),
            "has 1 values in 'inner.1.pairs",
        ),
        ({"name": "x", "inner": [1]}, shape_of(Outer), "has 1 values in 'inner' instead of 2"),
        ({"name": "x", "inner": None}, shape_of(Outer), None),
        ({"name": "x", "inner": [1, {"one": 1, "pairs": [["a", 2]]}]}, shape_of(Outer), None),
        ({"other": 1}, {"a?": int}, None),
    ],
)
def test_a_shape_says_where_a_document_is_another(document, shape, sentence):
    if sentence is None:
        check_shape(document, shape, "it")
        return
    with pytest.raises(InputError) as refused:
        check_shape(document, shape, "it")
    assert str(refused.value).startswith(f"it {sentence}")


@pytest.mark.parametrize("what", ["pipe", "folder", "device", "link to itself", "nothing", "large"])
def test_what_is_no_file_is_refused_and_not_waited_for(what, tmp_path):
    path = tmp_path / "card.json"
    match what:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "link to itself":
            path.symlink_to(path)
        case "large":
            path.write_bytes(b" " * 101)
    with pytest.raises(InputError, match=r"card\.json of x (cannot be read|is a folder, a pipe|has more than 100 )"):
        read_json(path, "x", most=100)
