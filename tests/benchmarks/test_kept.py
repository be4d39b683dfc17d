"""Results that are added to: what is there is known, and comes back as it was written."""

import pandas as pd

from benchmarks.kept import Kept


def test_lines_come_back_by_place_and_seed(tmp_path):
    path, lines = tmp_path / "new" / "results.csv", pd.DataFrame({"group": ["", "large"], "width": [0.5, float("nan")]})
    first = Kept(path, texts=("group",))
    assert not first.has("here", 1)
    first.add("here", 1, lines)
    first.add("there", 1, lines.iloc[1:])
    again = Kept(path, texts=("group",))
    assert (again.has("here", 1), again.has("here", 2), again.has("there", 1)) == (True, False, True)
    again.add("here", 2, lines)
    pd.testing.assert_frame_equal(
        Kept(path, texts=("group",)).of(["here"]).reset_index(drop=True),
        pd.concat([lines.assign(seed=seed) for seed in (1, 2)], ignore_index=True)
        .assign(place="here")[["place", "seed", "group", "width"]],
    )  # fmt: skip
