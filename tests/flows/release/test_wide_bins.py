import json

import numpy as np
import pytest

from equistrata.data.schema import Schema
from equistrata.flows.release.card.wide_bins import wide_bin_notes, wide_bins


def schema(**columns):
    for column in columns.values():
        column |= {"lower": column["edges"][0], "upper": column["edges"][-1]} if "edges" in column else {}
    return Schema.from_dict({"columns": columns}, "people")


def test_what_a_bin_may_do_to_the_mean_is_true_of_rows_at_its_ends():
    """No row outside of the bin changes.

    If all rows of the bin are at one of the ends instead of uniformly distributed, the mean changes by `mean_off`.
    """
    of = schema(X={"edges": [0, 10, 20, 100]})
    counts = [300, 500, 200]
    [found] = wide_bins(of, {"X": counts})
    assert (found["bin"], found["share"]) == ("over 20 to 100", 0.2)
    evenly = np.concatenate([np.linspace(*ends, n) for ends, n in
                             zip([(0, 10), (10, 20), (20, 100)], counts, strict=True)])  # fmt: skip
    for end in (20, 100):
        moved = np.append(evenly[:800], np.full(200, end))
        assert abs(moved.mean() - evenly.mean()) == pytest.approx(found["mean_off"], rel=1e-9)
    assert found["deviations"] == pytest.approx(found["mean_off"] / evenly.std(), abs=0.01)


def test_narrow_bins_bounds_alone_and_bins_without_rows_are_not_told():
    decades = {"edges": list(range(0, 101, 10))}
    counts = {"A": np.ones(10), "B": np.ones(200), "C": [500, 500, 0]}
    of = schema(A=decades, B={"lower": 0, "upper": 100, "integer": True}, C={"edges": [0, 10, 20, 1000]})
    assert [(each["column"], each["bin"]) for each in wide_bins(of, counts)] == [
        ("C", "0 to 10"),
        ("C", "over 10 to 20"),
    ]
    assert wide_bins(of, {"A": counts["A"], "B": counts["B"], "C": [0, 0, 0]}) == []


def test_each_column_has_one_sentence_with_its_widest_bin():
    found = wide_bins(schema(C={"edges": [0, 10, 20]}, D={"edges": [0, 1]}), {"C": [60, 40], "D": [5]})
    notes = wide_bin_notes(json.loads(json.dumps(found)))
    assert [note.split(":")[0] for note in notes] == ["D", "C"]
    assert "100\N{NO-BREAK SPACE}% of the values are in the bin 0 to 1." in notes[0]
    assert (
        "60\N{NO-BREAK SPACE}% of the values are in the bin 0 to 10. Therefore, the mean may be off by up to 3 (0.53"
        in notes[1]
    )
