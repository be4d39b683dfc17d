"""Release folders with forged or damaged files, and the commands that a reader may run on them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from equistrata.data.texts.manifest import MANIFEST, write_manifest

MARK = "\ue000mark\ue000"  # This mark is replaced by text that is not valid JSON or that `json.dumps` never writes.
VALUES = {
    "null": "null", "true": "true", "minus one": "-1", "zero": "0", "a half": "0.5", "text": '"x"', "no text": '""',
    "list": "[]", "mapping": "{}", "list of null": "[null]", "list in lists": "[[[1]]]", "10**400": "1" + "0" * 400,
    "1e999": "1e999", "NaN": "NaN", "-Infinity": "-Infinity", "1e308": "1e308", "1e-320": "1e-320",
    "2**63": "9223372036854775808", "deep lists": "[" * 90_000 + "]" * 90_000,
    "deep mappings": '{"a":' * 2000 + "1" + "}" * 2000, "surrogate": r'"\ud800"', "NUL": r'"\u0000"',
    "escapes": r'"\u001b[31m\u202e"', "long text": '"' + "A" * 300_000 + '"', "long list": "[" + "0," * 300_000 + "0]",
    "many keys": "{" + ",".join(f'"{i}":0' for i in range(50_000)) + "}", "cut off": "",
}  # fmt: skip
SMALL = ("null", "true", "minus one", "zero", "a half", "text", "no text", "list", "mapping", "list of null", "NaN")
RAW = {
    "empty": b"", "no UTF-8": b"\xff\xfe{}", "byte order mark": b"\xef\xbb\xbf{}", "NUL bytes": b"\0" * 4096,
    "a number": b"1", "null": b"null", "no JSON": b"{", "a list": b"[]", "a mapping": b"{}",
    "key twice": b'{"a":1,"a":2}',
    "deep": b"[" * 200_000, "digits": b"1" * 20_000, "blanks": b" " * (1 << 20),
}  # fmt: skip


def places(document, at=()):
    """Return the path of keys to each value in a JSON document."""
    yield at
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from places(value, (*at, key))


def edited(path, at, raw):
    """Replace a value in a document by raw text, or remove it if the text is None."""
    document = json.loads(path.read_text("utf-8"))
    if not at:
        path.write_text(raw or "", "utf-8")
        return
    outer = document
    for key in at[:-1]:
        outer = outer[key]
    if raw is None:
        del outer[at[-1]]
    else:
        outer[at[-1]] = MARK
    path.write_text(json.dumps(document, ensure_ascii=False).replace(f'"{MARK}"', raw or ""), "utf-8")


def _there(path, at, raw):
    """Return True if the document already has this value."""
    value = json.loads(path.read_text("utf-8"))
    for key in at:
        value = value[key]
    return raw is not None and json.dumps(value) == raw


def forged(folder, rng):
    """Change a release in one way and return a description of the change.

    The manifest is updated, except when the change affects the manifest or the disk.
    """
    kind = rng.choices(("value", "file", "disk", "manifest", "rows"), (12, 3, 3, 2, 2))[0]
    documents = sorted(path for path in folder.rglob("*.json") if path.name != MANIFEST)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    if kind == "value":
        path = rng.choice(documents)
        every = list(places(json.loads(path.read_text("utf-8"))))
        # Without this choice, most of the values would be cells of measurements
        depth = rng.randrange(1 + max(map(len, every)))
        at = rng.choice([each for each in every if len(each) == depth])
        name = rng.choice([each for each in (*VALUES, "gone") if not _there(path, at, VALUES.get(each))])
        edited(path, at, None if name == "gone" else VALUES[name])
        what = f"{path.name} {at}: {name}"
    elif kind == "file":
        path, name = rng.choice(files), rng.choice([*RAW, "half"])
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if name == "half" else RAW[name])
        what = f"{path.name}: {name}"
    elif kind == "rows":
        what = _other_rows(folder, rng)
    elif kind == "disk":
        return _on_disk(folder, rng.choice(files), rng)
    else:
        return _manifest(folder, rng)
    with suppress(OSError):
        (folder / MANIFEST).unlink()
    write_manifest(folder)
    return what


def _other_rows(folder, rng):
    path = folder / "synthetic.parquet"
    table = pq.read_table(path)
    way = rng.choice(
        ("nested", "text", "no column", "twice", "one column", "no rows", "binary", "timestamps", "infinite")
    )
    size, name = len(table), table.column_names[0]
    cells = {
        "nested": lambda: pa.array([[[1, 2]]] * size), "text": lambda: pa.array(["\x1b[31m"] * size),
        "binary": lambda: pa.array([b"\xff"] * size),
        "timestamps": lambda: pa.array([2**62] * size, pa.timestamp("us")),
        "infinite": lambda: pa.array([float("inf")] * size),
    }  # fmt: skip
    if way in cells:
        table = table.set_column(0, name, cells[way]())
    elif way == "twice":
        table = table.append_column(name, table.column(0))
    else:
        table = {"no column": table.select([]), "one column": table.select([name]), "no rows": table.slice(0, 0)}[way]
    pq.write_table(table, path)
    return f"synthetic.parquet: {way}"


def _on_disk(folder, path, rng):
    way = rng.choice(("gone", "folder", "pipe", "link to itself", "device", "link outside", "unreadable", "zip"))
    if way == "zip":
        with zipfile.ZipFile(folder.with_suffix(".zip"), "w") as packed:
            packed.writestr("../../outside", "0" * (1 << 20), zipfile.ZIP_DEFLATED)
        shutil.rmtree(folder)
        folder.with_suffix(".zip").rename(folder)
        return "a zip"
    outside = path.read_bytes()
    path.unlink()
    if way == "folder":
        path.mkdir()
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "link to itself":
        path.symlink_to(path)
    elif way == "device":
        path.symlink_to("/dev/zero")
    elif way == "link outside":
        path.symlink_to("/etc/passwd")
    elif way == "unreadable":
        path.write_bytes(outside + b"\n")
    return f"{path.name}: {way}"


def _manifest(folder, rng):
    path = folder / MANIFEST
    way = rng.choice(("many", "outside", "absolute", "twice", "value", "raw", "huge size", "unlisted", "pipe"))
    document = json.loads(path.read_text("utf-8"))
    entry = {"bytes": 0, "sha256": hashlib.sha256().hexdigest()}
    if way == "many":
        document["files"] |= {f"measurements/{i}.json": entry for i in range(1_000_000)}
    elif way in ("outside", "absolute"):
        document["files"][{"outside": "../../etc/passwd", "absolute": "/etc/passwd"}[way]] = entry
    elif way == "huge size":
        document["files"]["card.json"]["bytes"] = 10**30
    elif way == "unlisted":
        del document["files"][rng.choice([name for name in document["files"] if "expected" not in name])]
    path.write_text(json.dumps(document), "utf-8")
    if way == "twice":
        path.write_text(json.dumps(document)[:-1] + ', "format": "equistrata manifest 1"}', "utf-8")
    elif way == "value":
        name, at = rng.choice([*VALUES]), rng.choice([each for each in places(document) if each])
        edited(path, at, VALUES[name])
        way = f"{at}: {name}"
    elif way == "raw":
        path.write_bytes(RAW[name := rng.choice([*RAW])])
        way = name
    elif way == "pipe":
        path.unlink()
        os.mkfifo(path)
    return f"{MANIFEST}: {way}"


def commands(folder, honest, output):
    """Return the commands that a reader or a steward may run on a folder. New files are written to `output`."""
    ask, months = ("estimate", folder), folder.parent
    described = ("--registry", output / "r.yaml", "--croissant", output / "c.json", "--dcat", output / "d.json")
    again = ("--source", "csv", "--input", output.parent / "people.csv", "--schema", output.parent / "people.yaml")
    return [
        ("verify", folder), ("verify", folder, "--json"), ("verify", folder, *described),
        (*ask, "count", "--by", "SEX"), (*ask, "proportion", "JOB=1", "--by", "SEX"), (*ask, "mean", "AGE"),
        (*ask, "median", "AGE", "--by", "SEX", "--json"), (*ask, "difference", "AGE", "--by", "SEX"),
        (*ask, "independence", "JOB", "--by", "SEX"), (*ask, "ols", "AGE", "--by", "JOB"),
        (*ask, "logit", "JOB=1", "--by", "AGE", "--plot", output / "plot.svg"),
        ("estimate", honest, folder, "mean", "AGE", "--difference"),
        ("replicate", folder, "--replicates", 2, "--workers", 1, "--output", output / "tables"),
        ("export", folder, output / "out.dta"), ("export", folder, output / "out.xml"),
        ("publish", folder, output / "public"), ("publish", folder, output / "public.zip"),
        ("audit", folder, "--public", "--output", output / "audit"),
        ("audit", folder, honest, "--target", "NONE", "--output", output / "audit"),
        ("series", "verify", months), ("series", "show", "year", "--folder", months),
        ("series", "course", months, "mean", "AGE"), ("series", "revise", months, "--output", output / "revised"),
        ("budget", "verify", "--card", folder / "card.json"), ("resume", folder),
        ("schema", "show", folder / "schema.json"),
        ("release", *again, "--dataset", "people", "--series", "year", "--former", folder, "--strata", "SEX",
         "--output", output / "again"),
    ]  # fmt: skip
