"""Tests of units with several rows, with their true privacy cost and known faults.

A release of a table is repeated on the table with one additional unit (`replay`). The true cost must be less than or
equal to the charge, and the files must not contain any other information about the unit.
"""

import json
from dataclasses import replace
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release as released
from replay import MORE, replayed

import equistrata.synth.counting
from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults
from equistrata.data.texts.manifest import MANIFEST, write_manifest
from equistrata.data.units import bounding
from equistrata.data.units.bounding import UsedRows, chosen_rows
from equistrata.data.units.hashes import contents, unit_ids
from equistrata.data.units.unit import UNIT_ROWS, Unit
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import reading
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger

OPEN = PEOPLE_SCHEMA.replace("[a, b, c]", "open")


def households(rows=300):
    """Return a table in which each household has up to three people."""
    return made_up_people(rows).assign(HOME=np.sort(np.random.default_rng(5).integers(0, rows // 2, rows)))


def unit_of(rows, where):
    """Return an additional household. The rows are equal, or they are in different strata, or both."""
    groups = {"one cell": ["c"], "many strata": list("abc"), "mixed": list("ccab")}[where]
    sexes = [2] if where == "one cell" else [1, 2]
    more = [MORE | {"GROUP": groups[i % len(groups)], "SEX": sexes[i % len(sexes)]} for i in range(rows)]
    return pd.DataFrame(more).assign(HOME=10**6)


def replacing(rows, stratum):
    """Return two tables that differ in one household. All rows of a household are in the same cell."""
    other = {"AGE": 20, "JOB": "no", "PAY": 0.0} | ({} if stratum == "same" else {"SEX": 1, "GROUP": "a"})
    units = (pd.DataFrame([person] * rows).assign(HOME=10**6) for person in (MORE, MORE | other))
    return tuple(pd.concat([households(), unit], ignore_index=True) for unit in units)


def with_unit(frame, unit):
    """Insert the rows of the unit at random positions."""
    whole, places = pd.concat([frame, unit], ignore_index=True), np.random.default_rng(1)
    return whole.iloc[places.permutation(len(whole))]


def assert_kept(both, price, found, least=0.2):
    cost, _ = found
    assert least * price < cost <= price * (1 + 1e-9)
    one, two = both
    assert list(one) == list(two)
    assert [name for name in one if one[name] != two[name]] == []


MECHANISMS = {
    "mst, shared": {"synthesizer": "mst"},
    "aim, held-out rows": {"synthesizer": "aim", "evaluate": "full", "holdout": 0.01},
    "gem": {"synthesizer": "gem", "means_estimator": "vanilla"},
    "mst, for each stratum": {"synthesizer": "mst", "selection": "per-stratum"},
    "open column": {"declared": OPEN, "strata": "SEX", "synthesizer": "mst"},
}
OPEN_UNITS = ("open column", "units")


def slow_but_for(cases, fast):
    """Return the parameters of a product, in which all cases that are not in `fast` are slow.

    Each setting is in at least one fast case.
    """
    assert set(fast) <= set(cases)
    return [pytest.param(*case, marks=() if case in fast else pytest.mark.slow) for case in cases]


# A unit of one row has the same count for both weights, and texts of an open column are counted in full.
FORMS = [(name, weights) for name in MECHANISMS for weights in ("rows", "units") if (name, weights) != OPEN_UNITS]
PLACES = [(1, "one cell"), (2, "mixed"), (4, "one cell"), (8, "many strata")]


@pytest.mark.parametrize(
    ("name", "weights", "at_most", "where"),
    slow_but_for(
        [(*form, *place) for form in FORMS for place in PLACES if (form[1], place[0]) != ("units", 1)],
        [
            ("mst, shared", "rows", 4, "one cell"),
            ("mst, shared", "units", 8, "many strata"),
            ("aim, held-out rows", "units", 4, "one cell"),
            ("gem", "rows", 1, "one cell"),
            ("mst, for each stratum", "rows", 2, "mixed"),
            ("open column", "rows", 4, "one cell"),
        ],
    ),
)
def test_a_whole_unit_costs_at_most_what_is_charged(tmp_path, name, weights, at_most, where):
    frame, unit = households(), unit_of(at_most, where)
    settings = MECHANISMS[name] | {"unit": "HOME", "at_most": at_most, "epsilon": 12, "unit_weights": weights}
    least = 0.2 if where == "one cell" else 0.01
    more = with_unit(frame, unit)
    if "declared" in settings:  # the texts are counted in the order of the rows
        more = pd.concat([frame, unit])
    assert_kept(*replayed(tmp_path, frame, more, at_most, **settings), least)


@pytest.mark.parametrize("weights", ["rows", "units"])
@pytest.mark.parametrize("shrinkage", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_means_by_public_weights_of_units_of_whom_some_have_no_value(tmp_path, weights, shrinkage):
    """Each row is in the count of its stratum.

    If the value is not missing, the row is also included in a second count and in the sums.
    """
    strata = [(sex, group) for sex in (1, 2) for group in "abc"]
    sizes = pd.DataFrame(strata, columns=["SEX", "GROUP"]).assign(Population=[400, 300, 200, 100, 50, 0])
    sizes.to_csv(tmp_path / "sizes.csv", index=False)
    unit = unit_of(4, "mixed")
    unit.loc[1:2, "PAY"] = np.nan
    settings = {"unit": "HOME", "at_most": 4, "epsilon": 12, "unit_weights": weights, "shrinkage": shrinkage}
    given = settings | {"weights": str(tmp_path / "sizes.csv")}
    assert_kept(*replayed(tmp_path, households(), with_unit(households(), unit), 4, **given), 0.01)


@pytest.mark.parametrize("weights", ["rows", "units"])
def test_a_unit_over_the_bound_is_cut_and_costs_no_more(tmp_path, weights):
    frame, unit = households(), unit_of(40, "one cell")
    settings = {"unit": "HOME", "at_most": 4, "unit_weights": weights, "epsilon": 12}
    assert_kept(*replayed(tmp_path, frame, with_unit(frame, unit), 4, **settings))


@pytest.mark.parametrize(
    ("name", "weights", "at_most", "stratum"),
    slow_but_for(
        [
            (*form, at_most, stratum)
            for form in FORMS
            for at_most, stratum in [(1, "same"), (3, "same"), (3, "another")]
            if form[0] != "open column" and (form[1], at_most) != ("units", 1)
        ],
        [
            ("mst, shared", "rows", 1, "same"),
            ("mst, shared", "units", 3, "another"),
            ("aim, held-out rows", "rows", 3, "another"),
            ("gem", "units", 3, "same"),
            ("mst, for each stratum", "rows", 3, "another"),
        ],
    ),
)
def test_a_unit_that_is_replaced_costs_at_most_what_is_charged(tmp_path, name, weights, at_most, stratum):
    one, two = replacing(at_most, stratum)
    settings = MECHANISMS[name] | {"relation": "replace-one", "means": "", "epsilon": 12}
    if at_most > 1:  # otherwise one row replaces another
        settings |= {"unit": "HOME", "at_most": at_most, "unit_weights": weights}
    # Each measurement changes by √2 times the change for one additional unit, and so does each selection.
    rows = at_most if weights == "rows" else 1
    assert_kept(*replayed(tmp_path, one, two, sqrt(2) * rows, **settings))


def test_a_replaced_unit_s_means_move_twice(tmp_path):
    one, two = replacing(3, "another")
    settings = {"unit": "HOME", "at_most": 3, "relation": "replace-one", "epsilon": 12, "means_share": 0.9}
    assert_kept(*replayed(tmp_path, one, two, 2 * 3, **settings))


@pytest.mark.parametrize(
    ("forgotten", "found"), [("synthesis_cost", 1), ("choice_sensitivity", 1.0)], ids=["noise", "choices"]
)
def test_a_replaced_unit_that_is_paid_for_as_an_added_one_is_caught(monkeypatch, tmp_path, forgotten, found):
    one, two = replacing(1, "another")
    monkeypatch.setattr(Unit, forgotten, found)
    settings = {"relation": "replace-one", "means": "", "epsilon": 12, "synthesizer": "aim"}
    with pytest.raises(AssertionError):
        assert_kept(*replayed(tmp_path, one, two, sqrt(2), **settings))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"declared": OPEN, "strata": "SEX"}, "column 'GROUP' is open, and open values can only be found under"),
        ({"synthesizer": "smartnoise-mst"}, "'smartnoise-mst' has its own guarantee, which is for one row only"),
    ],
)
def test_what_is_not_accounted_for_replaced_units_is_refused(tmp_path, more, says):
    one, two = replacing(1, "same")
    with pytest.raises(InputError, match=says):
        replayed(tmp_path, one, two, **({"relation": "replace-one", "means": ""} | more))


def test_a_unit_s_rows_counted_once_are_caught(monkeypatch, tmp_path):
    for cost in ("synthesis_cost", "sum_cost"):
        monkeypatch.setattr(Unit, cost, 1)
    frame, settings = households(), {"unit": "HOME", "at_most": 4, "unit_weights": "rows", "epsilon": 12}
    _, price, (cost, _) = replayed(tmp_path, frame, with_unit(frame, unit_of(4, "one cell")), 4, **settings)
    assert cost > 4 * price


def test_a_weight_of_one_for_each_row_is_caught(monkeypatch, tmp_path):
    """The noise is only sufficient if each unit is counted once."""
    monkeypatch.setattr(
        equistrata.synth.counting, "row_parts", lambda schema: np.tile([1024, 0], (schema.unit.at_most, 1))
    )
    frame, settings = households(), {"unit": "HOME", "at_most": 4, "unit_weights": "units", "epsilon": 12}
    _, price, (cost, _) = replayed(tmp_path, frame, with_unit(frame, unit_of(4, "one cell")), 4, **settings)
    assert cost > 4 * price


def test_truncation_by_place_in_the_file_is_caught(monkeypatch, tmp_path):
    """In this case the rows that are used depend on the rows of another unit."""

    def by_place(ids, content, at_most, key):
        chosen, used = chosen_rows(ids, content, at_most, key)
        chosen[200:] = False
        return chosen, used

    monkeypatch.setattr(bounding, "chosen_rows", by_place)
    monkeypatch.setattr(bounding, "FILES", 1)
    monkeypatch.setattr(bounding, "id_hashes", lambda ids, key: np.zeros(len(ids), dtype=np.uint64))
    frame, unit = households(), unit_of(4, "one cell")
    settings = {"unit": "HOME", "at_most": 4, "unit_weights": "rows", "epsilon": 12, "means": ""}
    with pytest.raises(AssertionError, match=r"moves by|costs"):
        replayed(tmp_path, frame, pd.concat([unit, frame]), 4, **settings)


def test_a_size_of_units_that_is_read_off_is_caught(monkeypatch, tmp_path):
    honest = Plan.of

    def observed(config, *given, **more):
        plan = honest(config, *given, **more)
        return replace(plan, unit=Unit("HOME", int(pd.read_csv(config.input)["HOME"].value_counts().max())))

    monkeypatch.setattr(Plan, "of", observed)
    frame, settings = households(), {"unit": "HOME", "at_most": 4, "unit_weights": "rows", "epsilon": 12}
    with pytest.raises(AssertionError, match=r"drawn with other noise|one table only|another call"):
        replayed(tmp_path, frame, with_unit(frame, unit_of(9, "one cell")), 9, **settings)


def test_rows_of_a_unit_are_chosen_by_the_key_and_its_own_rows_alone(tmp_path):
    rng, key = np.random.default_rng(0), b"k" * 32
    table = pd.DataFrame({"HOME": rng.integers(0, 300, 2000), "ROW": rng.integers(0, 40, 2000)})  # some rows are equal

    def used(frame, key=key, texts=False, batch=512):
        place = tmp_path / str(rng.integers(2**60))
        place.mkdir()
        frame = frame.astype({"HOME": str}) if texts else frame
        rows = UsedRows(
            lambda: (frame[i : i + batch] for i in range(0, len(frame), batch)), Unit("HOME", 3), key, place
        )
        parts = [*rows.batches()]
        assert not list(place.glob("units*"))
        kept, sizes = pd.concat([part for part, _ in parts]), np.concatenate([sizes for _, sizes in parts])
        assert (sizes == kept.groupby("HOME")["ROW"].transform("size")).all()
        assert sum(rows.sizes) == frame["HOME"].nunique()
        return kept.astype({"HOME": int})

    for texts in (False, True):
        kept = used(table, texts=texts)
        whole = table["HOME"].value_counts()
        assert kept["HOME"].value_counts().sort_index().equals(whole.clip(upper=3).sort_index())
        # An additional unit, another order of the rows and other batches must not change the rows of other units.
        more = pd.concat([table, pd.DataFrame({"HOME": 1000, "ROW": [None, 1.5] * 9})], ignore_index=True)
        again = used(more.iloc[rng.permutation(2018)], texts=texts, batch=int(rng.integers(1, 700)))
        others = again[again["HOME"] < 1000].sort_values(["HOME", "ROW"])
        assert others.astype(int).to_numpy().tolist() == kept.sort_values(["HOME", "ROW"]).to_numpy().tolist()
        assert (again["HOME"] == 1000).sum() == 3
    assert sorted(used(table)["ROW"]) != sorted(used(table, b"l" * 32)["ROW"])


def test_each_row_of_a_unit_has_the_same_chance():
    """Most of the 100 rows are equal. For each of 1,000 keys, 3 rows are selected."""
    rows, often = pd.DataFrame({"CODE": np.repeat([0, 1, 2], [90, 9, 1])}), np.zeros(100)
    ids = unit_ids(pd.Series([1] * 100), "HOME", b"any")  # a number is its own id
    for i in range(1000):
        key = i.to_bytes(32, "big")
        often += chosen_rows(ids, contents(rows, key), 3, key)[0]
    assert often.sum() == 3000
    # The expected number is 30 for each row, and the standard deviation of a sum over k equal rows is about √(30k).
    for equal in (slice(0, 90), slice(90, 99), slice(99, 100)):
        k = len(often[equal])
        assert abs(often[equal].sum() - 30 * k) < 4.5 * np.sqrt(30 * k)  # this fails by chance in one of 50,000 tests
    held = bounding.share_of_units(unit_ids(pd.Series(range(10_000)), "HOME", b"k"), 0.2, b"k")
    assert abs(held.mean() - 0.2) < 4.5 * np.sqrt(0.16 / 10_000)


def test_ids_are_the_same_however_they_are_stored():
    key = b"k" * 32
    as_text = unit_ids(pd.Series(["1", "2 ", "1"]), "HOME", key)
    assert (as_text == unit_ids(pd.Series([" 1", "2", "1"]).astype("category"), "HOME", key)).all()
    assert (as_text[0] == as_text[2]).all()
    assert (as_text[0] != as_text[1]).any()
    assert (unit_ids(pd.Series([3, 4], dtype="Int64"), "H", key) == unit_ids(pd.Series([3, 4]), "H", key)).all()
    for kind in ("str", object, "category"):
        assert (as_text == unit_ids(pd.Series(["1\t", "\u20032", "1"], dtype=kind), "HOME", key)).all()


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["1", None], "has empty cells; give each of these rows the id"),
        ([1.0, np.nan], "has empty cells"),
        (["1", " \u2003\t"], "has empty cells"),  # otherwise all rows without an id would be one unit
        (["", "1"], "has empty cells"),
        ([1.0, 2.0**53], "has floating-point numbers that are too large to distinguish ids"),
        ([1.0, np.inf], "has floating-point numbers"),
        (
            pd.Series([1.0, 2.0**24], dtype="float32"),
            "has floating-point numbers that are too large to distinguish ids",
        ),
        (
            pd.Series([1.0, 2.0**24], dtype="Float32"),
            "has floating-point numbers that are too large to distinguish ids",
        ),
        ([[1], [2]], "has lists or mappings in its cells"),
    ],
)
def test_what_is_no_id_is_refused(cells, says):
    with pytest.raises(InputError, match=f"unit column 'HOME' {says}"):
        unit_ids(pd.Series(cells), "HOME", b"k" * 32)
    assert len(unit_ids(pd.Series([2**53, 2**53 + 1]), "HOME", b"k").tolist()) == 2


def test_ids_that_are_numbers_with_a_point_differ_where_they_do():
    ids = unit_ids(pd.Series([0.5, 1.0, -0.0, 0.0, 0.5 + 2.0**-52]), "HOME", b"k" * 32)
    assert pd.factorize(ids[:, 0])[0].tolist() == [0, 1, 2, 2, 3]


@pytest.fixture(scope="module")
def texts():
    """Return a list of texts with up to 90 bytes.

    They contain NUL characters, Unicode spaces at the ends and multibyte characters.
    """
    rng = np.random.default_rng(0)
    letters = np.array(list("ab\0\u2003é😀 "))[rng.integers(0, 7, (20_000, 30))]
    lengths = np.concatenate([rng.integers(1, 14, 15_000), rng.integers(14, 31, 5_000)])
    found = ["".join(row[:length]) for row, length in zip(letters.tolist(), lengths, strict=True)]
    return [text if text.strip() else "a" for text in found]


@pytest.mark.parametrize("kind", ["str", object, "category"])
def test_ids_differ_where_texts_do(kind, texts):
    found = pd.factorize(pd.MultiIndex.from_arrays(unit_ids(pd.Series(texts, dtype=kind), "HOME", b"k").T))[0]
    assert np.array_equal(found, pd.factorize(np.array([text.strip() for text in texts], dtype=object))[0])
    parts = pd.concat([pd.Series(part, dtype=kind) for part in (texts[:7], texts[7:9000], texts[9000:])])
    assert np.array_equal(unit_ids(parts, "HOME", b"k"), unit_ids(pd.Series(texts, dtype=kind), "HOME", b"k"))
    cut = pd.Series(texts, dtype=kind)[10_000:]  # this slice starts in the middle of a buffer of Arrow
    assert np.array_equal(unit_ids(cut, "HOME", b"k"), unit_ids(pd.Series(texts, dtype=kind), "HOME", b"k")[10_000:])


def test_long_ids_differ_if_a_byte_does():
    """Compare texts of 16 to 70 bytes.

    For each text, a byte is changed at the start, in the middle or at the end, or a NUL character is added.
    """
    texts = []
    for length in range(16, 71):
        text = "".join(chr(97 + i % 26) for i in range(length))
        places = (0, length // 2, length - 1)
        texts += [text, text + "\0", *(f"{text[:i]}#{text[i + 1 :]}" for i in places)]
    assert len(np.unique(unit_ids(pd.Series(texts), "HOME", b"k" * 32), axis=0)) == len(set(texts))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a folder with a table and a schema without a unit, and the settings of a release."""
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    households().to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.yaml").write_text(PEOPLE_SCHEMA)
    given = {"source": "csv", "input": str(tmp_path / "people.csv"), "schema": str(tmp_path / "people.yaml")}
    return tmp_path, given | {"output": str(tmp_path / "out")}


def test_the_schema_s_unit_holds_unless_a_setting_says_otherwise(place):
    folder, given = place
    assert Plan.of(ReleaseConfig.build(**given)).unit == Unit()
    (folder / "people.yaml").write_text(PEOPLE_SCHEMA + "unit: {column: HOME, at_most: 3}\n")
    assert Plan.of(ReleaseConfig.build(**given)).unit == Unit("HOME", 3)
    given |= {"units": 150}
    plan = Plan.of(ReleaseConfig.build(**given))
    assert plan.unit == Unit("HOME", 3, weights="units")
    # With many units the noise is small, so that the error of the model for their sizes is larger than the noise.
    assert Plan.of(ReleaseConfig.build(**given | {"units": 10**5})).unit.weights == "rows"
    assert Plan.of(ReleaseConfig.build(**given | {"epsilon": 500})).unit.weights == "rows"
    assert "HOME" in plan.columns
    assert plan.price == plan.drawn
    plan = Plan.of(ReleaseConfig.build(**given, unit_weights="rows"))
    assert plan.price.total == plan.drawn.total * 9
    assert Plan.of(ReleaseConfig.build(**given, at_most=2)).unit == Unit("HOME", 2)
    # If all units have the same size, the cost of a column of sizes is larger than the noise that it saves.
    assert Plan.of(ReleaseConfig.build(**given, unit_sizes="0,0,1")).unit == Unit("HOME", 3)
    assert Plan.of(ReleaseConfig.build(**given, unit_sizes="0.9,0,0.1")).unit.weights == "units"
    assert Plan.of(ReleaseConfig.build(**given, unit="PAY", at_most=2)).unit == Unit("PAY", 2)
    assert sum(plan.parts.values(), start=Rho(0)) == plan.price.total
    assert plan.relation == "add-remove of all rows with one HOME"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"at_most": 3}, "'at_most' needs a unit; give its column with --unit"),
        ({"unit": "SEX", "at_most": 3}, "unit column 'SEX' identifies people, so it must not be released"),
        ({"unit": "HOUSE", "at_most": 3}, "no column 'HOUSE'"),
        ({"unit": " "}, "setting 'unit' is blank"),
        ({"unit": ""}, "setting 'unit' is blank"),  # as of a shell's empty variable: each row had been a unit
        ({"unit": "PAY", "at_most": 3, "means": "PAY"}, "its mean must not be released"),
        ({"unit_sizes": "0.5,0.5"}, "'unit_sizes' needs a unit; give its column"),
        ({"unit": "HOME", "at_most": 3, "unit_sizes": "0.5,x"}, "shares of units with 1, 2, 3"),
        ({"unit": "HOME", "at_most": 0}, "at_most"),
        ({"unit": "HOME", "at_most": True}, "setting 'at_most' is true, but it should be a number"),
        ({"unit": "HOME", "units": True}, "setting 'units' is true, but it should be a number"),
        (
            {"unit": "GROUP", "at_most": 2, "strata": "GROUP"},
            "unit column 'GROUP' identifies people, so it must not be released",
        ),
        (
            {"unit": "GROUP", "at_most": 2, "strata": "GROUP", "columns": "AGE,JOB"},
            "stratum column 'GROUP' is not among the released columns",
        ),
        ({"unit": "HOME", "at_most": 17, "unit_weights": "units"}, "if 'at_most' is from 2 to 16"),
        ({"unit_weights": "units"}, "if 'at_most' is from 2 to 16"),
        ({"unit": "HOME", "at_most": 2, "synthesizer": "smartnoise-mst"}, "is for one row only"),
    ],
)
def test_a_unit_that_makes_no_sense_is_refused(place, settings, says):
    with pytest.raises(InputError, match=says):
        Plan.of(ReleaseConfig.build(**place[1], **settings))


@pytest.mark.parametrize(
    "unit",
    [
        "HOME",
        "{at_most: 3}",
        "{column: HOME, at_most: 0}",
        "{column: HOME, at_most: true}",
        "{column: HOME, at_most: }",
        "{column: 3, at_most: 1}",
    ],
)
def test_a_schema_s_unit_is_checked(place, unit):
    folder, given = place
    (folder / "people.yaml").write_text(PEOPLE_SCHEMA + f"unit: {unit}\n")
    with pytest.raises(InputError, match="unit"):
        Plan.of(ReleaseConfig.build(**given))


def test_no_column_of_the_rows_is_taken_for_the_sizes_of_units(place):
    """If a column had this name, it was used as the weight of the rows, so that the weight of a unit was too large."""
    folder, given = place
    named = PEOPLE_SCHEMA + f"  {UNIT_ROWS!r}: {{values: [1, 2]}}\n"
    (folder / "people.yaml").write_text(named + "unit: {column: HOME, at_most: 3}\n")
    with pytest.raises(InputError, match="which is a reserved name; rename it"):
        Plan.of(ReleaseConfig.build(**given, unit_weights="units"))


def test_rows_are_bounded_before_anything_else_and_the_same_ones_again(place, monkeypatch):
    folder, given = place
    plan = Plan.of(ReleaseConfig.build(**given, unit="HOME", at_most=1, means="PAY", strata="SEX"))
    homes = pd.read_csv(folder / "people.csv")["HOME"]
    sizes = []
    for run in range(2):
        work = Workspace(folder / f"work{run}")
        work.root.mkdir()
        if run:
            (work.root / "unit_key").write_bytes((folder / "work0" / "unit_key").read_bytes())
        reading.partition(plan, work)
        values = [np.sort(work.load(work.outcome("PAY", i))) for i in range(2)]
        assert sum(map(len, values)) == homes.nunique()
        assert not list(work.root.glob("units*"))
        sizes.append(np.concatenate(values))
    assert (sizes[0] == sizes[1]).all()
    assert "HOME" not in json.dumps(sorted(path.name for path in work.root.iterdir()))


def test_an_id_that_repeats_is_refused_before_anything_is_charged(place):
    folder, given = place
    plan = Plan.of(ReleaseConfig.build(**given, unit="HOME"))
    assert plan.unit == Unit("HOME", 1, unique=True)
    work = Workspace(folder / "work")
    work.root.mkdir()
    with pytest.raises(InputError, match="unit column 'HOME' has the same value in several rows"):
        reading.partition(plan, work)
    households().assign(HOME=range(300)).to_csv(folder / "people.csv", index=False)
    other = Workspace(folder / "other")
    other.root.mkdir()
    reading.partition(plan, other)
    assert len(other.load(other.stratum(0))) == 300


@pytest.mark.parametrize(
    ("more", "scores"), [({"seed": 1}, "no row was held out"), ({"seed": 2}, "all rows were held")]
)
def test_a_table_of_one_unit_is_released(place, more, scores):
    """The number of rows that are used is at most `at_most`. All rows of a unit are held out together."""
    folder, given = place
    households().assign(HOME=1).to_csv(folder / "people.csv", index=False)
    settings = {"unit": "HOME", "at_most": 1000, "evaluate": "full", "holdout": 0.5, "epsilon": 20, "rows": 50}
    released(settings | given | more)
    assert scores in (folder / "out.internal" / "scores.json").read_text()


def test_a_key_that_is_gone_once_noise_was_drawn_is_not_made_anew(tmp_path):
    """If the key is different, the remaining measurements are based on other rows of the unit.

    The number of rows that are used may then be twice as large.
    """
    work = Workspace(tmp_path)
    key = work.unit_key(np.random.default_rng(0))
    assert work.unit_key(np.random.default_rng(1)) == key
    (tmp_path / "unit_key").unlink()
    assert work.unit_key(np.random.default_rng(1)) != key  # no noise was drawn with this key
    work.count_start("synthesis")
    (tmp_path / "unit_key").unlink()
    with pytest.raises(InputError, match="the key that was used to choose the rows of units is missing"):
        work.unit_key(np.random.default_rng(0))


def test_releases_for_rows_and_for_units_share_no_account(place):
    """The second release is refused before the charge, because the unit is not the same."""
    folder, given = place
    ledger = Ledger(folder / "ledger.db")
    household = {"unit": "HOME", "at_most": 2}
    charged = {"ledger": str(folder / "ledger.db"), "evaluate": "none", "epsilon": 2, "rows": 50} | given
    for dataset, relation, first, second in [
        ("rows", "add-remove", {}, household),
        ("homes", "add-remove of all rows with one HOME", household, {}),
    ]:
        ledger.create(dataset, 50, 1e-9, relation=relation, same_people_as=["rows"] if dataset == "homes" else [])
        one, two = (
            {"dataset": dataset, "release_id": f"{dataset}-{n}", "output": str(folder / f"{dataset}-{n}")} for n in "12"
        )
        released(charged | first | one)
        with pytest.raises(InputError, match=f"budget of data set '{dataset}' is for '{relation}', but this"):
            released(charged | second | two)
        assert len(ledger.charges(dataset, f"{dataset}-1")) == 1
        assert ledger.charges(dataset, f"{dataset}-2") == []
        assert not (folder / f"{dataset}-2").exists()


SIZES = {"unit": "HOME", "at_most": 2, "bound_share": 0.2, "means": "", "epsilon": 12}


@pytest.mark.parametrize("rows", [2, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (1, 3, 4)), 9])
def test_counts_of_units_by_their_rows_are_private_and_paid_for(tmp_path, rows):
    frame = households()
    more = with_unit(frame, unit_of(rows, "one cell"))
    both = replayed(tmp_path, frame, more, 2, **SIZES)
    (one, _), price, _ = both
    assert_kept(*both)
    card = json.loads(one["card.json"])
    assert card["guarantee"]["split_of_rho"]["counts of units by their rows"] == pytest.approx(0.2 * price)
    exact = np.bincount(np.minimum(frame["HOME"].value_counts(), 4))[1:]
    # This fails by chance with probability 10⁻⁹
    assert (np.abs(card["unit_sizes"]["units"] - exact) < 6 * card["unit_sizes"]["sigma"]).all()


def test_counts_of_units_that_are_replaced_cost_twice_as_much(tmp_path):
    one = pd.concat([households(), unit_of(1, "one cell")], ignore_index=True)
    two = pd.concat([households(), unit_of(9, "one cell")], ignore_index=True)
    assert_kept(*replayed(tmp_path, one, two, sqrt(2) * 2, relation="replace-one", **SIZES), 0.1)


def test_how_many_rows_are_left_out_is_told_for_a_price(place):
    folder, given = place
    frame = households()
    with pytest.raises(InputError, match="counts of the rows that a bound leaves out, but there is no unit"):
        Plan.of(ReleaseConfig.build(**given, bound_share=0.1))
    with pytest.raises(InputError, match="counts of the rows that a bound leaves out, but there is no unit"):
        Plan.of(ReleaseConfig.build(**given, unit="HOME", bound_share=0.1))
    told = {"unit": "HOME", "at_most": 1, "bound_share": 0.1, "evaluate": "none", "epsilon": 20, "rows": 200}
    released(told | given)
    sizes = json.loads((folder / "out" / "card.json").read_text())["unit_sizes"]
    # One row of each unit with two or more
    left = np.minimum(frame["HOME"].value_counts(), 2).sum() - frame["HOME"].nunique()
    assert abs(sizes["left_out"]["rows"] - left) < 6 * sizes["left_out"]["standard_deviation"]
    words = (folder / "out" / "card.md").read_text()
    assert f"about {sizes['left_out']['rows']:,.0f} ± " in words
    assert "how many is private" not in words
    assert faults(Release.open(folder / "out")) == []
    card = json.loads((folder / "out" / "card.json").read_text())
    card["unit_sizes"]["sigma"] *= 0.9
    (folder / "out" / "card.json").write_text(json.dumps(card))
    (folder / "out" / MANIFEST).unlink()
    write_manifest(folder / "out")
    assert any("counts of units by their rows cost" in fault for fault in faults(Release.open(folder / "out")))


def test_counts_of_units_that_were_drawn_and_lost_are_charged_again(place, monkeypatch):
    folder, given = place
    ledger = Ledger(folder / "ledger.db")
    ledger.create("people", 50, 1e-9, relation="add-remove of all rows with one HOME")
    charged = {"dataset": "people", "ledger": str(folder / "ledger.db"), "release_id": "one", "evaluate": "none"}
    charged |= given | {"unit": "HOME", "at_most": 2, "bound_share": 0.1, "epsilon": 2, "rows": 50}
    keep, lost = Workspace.keep_found, []

    def lose(work, part, entry):
        if not lost:
            lost.append(entry)
            raise KeyboardInterrupt
        keep(work, part, entry)

    monkeypatch.setattr(Workspace, "keep_found", lose)
    with pytest.raises(KeyboardInterrupt):
        released(charged)
    with pytest.raises(InputError, match="other settings"):  # another bound is also refused
        released(charged | {"at_most": 3})
    released(charged)
    parts = [list(charge.entry.parts) for charge in ledger.charges("people", "one")]
    assert parts == [["synthesis", "counts of units by their rows"], ["counts of units by their rows"]]
    card = json.loads((folder / "out" / "card.json").read_text())
    assert card["unit_sizes"]["units"] != lost[0]["units"]
    assert card["guarantee"]["rho"] == pytest.approx(sum(card["guarantee"]["split_of_rho"].values()))
    assert "in parallel" not in card["guarantee"]["composition"]  # the rows of a unit may be in several strata
    assert faults(Release.open(folder / "out")) == []


def test_delta_follows_the_declared_number_of_units(place):
    _, given = place
    assert ReleaseConfig.build(**given).delta == 1e-9
    assert ReleaseConfig.build(**given, units=90_000).delta == 1e-8
    assert ReleaseConfig.build(**given, units=90_000, delta=1e-6).delta == 1e-6
    assert ReleaseConfig.build(**given, units=12_000_000).delta <= 12_000_000**-1.5
