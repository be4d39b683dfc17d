"""Tests of the YAML parser, which refuses documents that would need too much time or memory."""

import os
import time

import pytest
import yaml

from equistrata.data.texts import documents
from equistrata.data.texts.documents import load, parse
from equistrata.errors import InputError

ANCHORED = "a: &one [1, 2]\nb: *one\n"


def laughs(levels, width=10):
    """Return a document in which each list contains the previous list `width` times."""
    lists = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lists) + "\n"


REFUSED = {
    "a key twice": ("a: 1\nb: 2\na: 3\n", r"the key 'a' twice, the second time at line 3"),
    "a key twice inside": ("a:\n  - b: {c: 1, c: 1}\n", "the key 'c' twice, the second time at line 2"),
    "true and 1": ("{1: a, true: b}", "the key True twice"),
    "an anchor": ("a: &x 1\n", "anchor or alias .* line 1"),
    "an alias of nothing": ("a: *x\n", "anchor or alias .* line 1"),
    "a billion laughs": (laughs(9), "anchor or alias .* line 1"),
    "a list that holds itself": ("&x [*x]", "anchor or alias"),
    "a tag": ("a: 1\nb: !!timestamp x\n", r"line 2: tags \(!\)"),
    "an object's tag": ("!!python/object/apply:os.system [x]", "tags"),
    "depth": ("[" * 100_000, "nested more than 20 levels deep at line 1"),
    "depth by lines": ("".join(" " * n + "a:\n" for n in range(400)), "nested .* at line 21"),
    "many values": ("a: [" + "1," * 200_000 + "1]", "more than 100,000 values"),
    "a long file": ("# " + "x" * (1 << 20), "more than 1,048,576 bytes"),
    "a tab": ("a:\n\t- 1\n", "not valid YAML at line 2"),
    "two documents": ("a: 1\n---\na: 2\n", "not valid YAML at line 2"),
    "a control character": ("a: \x07\n", "not valid YAML"),
    "an unclosed list": ("a: [\n", "not valid YAML at line"),
    "a key that is a list": ("? [1]\n: 2\n", "not valid YAML"),
    "an impossible date": ("a: 2020-13-45", "it has an impossible date or number"),
    "a number with too many digits": ("a: " + "9" * 5000, "it has an impossible date or number"),
    "octal": ("a: [1, 010]", "'010' at line 1, which YAML may read as another number"),
    "hexadecimal": ("a: 0x" + "f" * 6000, "another number"),
    "base sixty": ("a: 1:30", "'1:30' at line 1"),
    "UTF-16": ("a: 1".encode("utf-16"), "not UTF-8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_gets_one_short_sentence_in_a_moment(tmp_path, case):
    text, sentence = REFUSED[case]
    path = tmp_path / "some.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    begun = time.process_time()
    with pytest.raises(InputError, match=sentence) as caught:
        load(path, "some.yaml")
    assert time.process_time() - begun < 2
    told = str(caught.value)
    assert told.startswith("some.yaml ")
    assert "\n" not in told
    assert len(told) < 250


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "none", "unreadable path"])
def test_what_is_no_file_gets_one_sentence(tmp_path, kind):
    path = {"folder": tmp_path, "device": "/dev/zero", "unreadable path": "a\0b"}.get(kind, tmp_path / "some.yaml")
    if kind == "pipe":
        os.mkfifo(path)
    told = (
        "cannot be read; check the path" if kind in ("none", "unreadable path") else "is a folder, a pipe or a device"
    )
    with pytest.raises(InputError, match=rf"some\.yaml {told}"):
        load(path, "some.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1",
        "﻿a: 1",
        "- [1, 2.5, 'x']\n- {b: yes, 3: null}",
        "a: '010'\nb: '1:30'\nc: 0\nd: 0.5\ne: 10",
        "a: 2020-01-02",
    ],
)
def test_reads_what_the_plain_loader_reads(text):
    assert parse(text.removeprefix("﻿"), "some.yaml") == yaml.safe_load(text)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    path = tmp_path / "some.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load(path, "some.yaml") == {"a": 1}


def test_aliases_are_read_where_they_may_stand_and_counted_as_written_out():
    assert parse(ANCHORED, "some.yaml", aliases=True) == {"a": [1, 2], "b": [1, 2]}
    for text in (laughs(9), "&x [*x]", "a: &x {b: *x}"):
        with pytest.raises(InputError, match="expands to more than 100,000 values"):
            parse(text, "some.yaml", aliases=True)
    with pytest.raises(InputError, match="the key 'b' twice"):
        parse(ANCHORED + "b: 1\n", "some.yaml", aliases=True)


def test_the_loader_without_libyaml_says_the_same(monkeypatch):
    monkeypatch.setattr(documents, "_READER", yaml.SafeLoader)
    assert parse("a: {b: [1, 2]}", "some.yaml") == {"a": {"b": [1, 2]}}
    for case in ("a key twice inside", "an anchor", "depth", "a tab", "an impossible date"):
        text, sentence = REFUSED[case]
        with pytest.raises(InputError, match=sentence):
            parse(text, "some.yaml")
