"""Rows of two tables with one id: joint counts as a merge of data frames gives them, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from equistrata.data.units.linking import BEFORE, NOW, Linking
from equistrata.errors import InputError


def two_tables(rows=3000, seed=1):
    """Most people are in both, in another order; ids are of several lengths."""
    rng = np.random.default_rng(seed)
    ids = [f"{'person number ' * (n % 3 == 0)}{n}" for n in range(rows + 200)]
    before = pd.DataFrame({"ID": ids[:rows], "A": rng.integers(0, 3, rows), "B": rng.integers(0, 5, rows)})
    now = pd.DataFrame({"ID": ids[200:], "A": rng.integers(0, 3, rows), "B": rng.integers(0, 5, rows)})
    return before, now.sample(frac=1, random_state=2).reset_index(drop=True)


def joint(folder, before, now, sizes=(3, 5), parts=4):
    linking = Linking(folder, "ID", len(sizes))
    names = [name for name in now.columns if name != "ID"]
    for table, frame in ((NOW, now), (BEFORE, before)):
        for part in np.array_split(np.arange(len(frame)), parts):
            some = frame.iloc[part]
            linking.add(table, some["ID"], some[names].to_numpy().astype(np.uint8))
    return linking.joint(list(sizes))


@pytest.mark.parametrize("kind", [object, "string", "category"])
def test_joint_counts_are_those_of_a_merge(tmp_path, kind):
    before, now = two_tables()
    found = joint(tmp_path, before.astype({"ID": kind}), now.astype({"ID": kind}))
    merged = before.merge(now, on="ID", suffixes=("_then", "_now"))
    for counts, name, size in zip(found, ("A", "B"), (3, 5), strict=True):
        slow = np.zeros((size, size), dtype=int)
        for then, later in zip(merged[f"{name}_then"], merged[f"{name}_now"], strict=True):
            slow[then, later] += 1
        assert (counts == slow).all()
        assert counts.sum() == 2800
    assert list(tmp_path.iterdir()) == []


def test_an_id_is_the_same_as_a_number_as_text_and_with_blanks(tmp_path):
    codes = {"A": [0, 1, 2], "B": [4, 3, 2]}
    texts = pd.DataFrame({"ID": ["1", " 20 ", "300"], **codes})
    for kind in ("int64", "Int64", "float64", "float32", "uint16"):
        numbers = pd.DataFrame({"ID": pd.Series([1, 20, 300]).astype(kind), **codes})
        assert joint(tmp_path, texts, numbers)[0].tolist() == np.eye(3).astype(int).tolist()
    assert joint(tmp_path, texts, texts.assign(ID=["01", "2 0", "3000"]))[0].sum() == 0


def test_adding_a_person_to_either_month_or_both_moves_one_cell_by_one_at_most(tmp_path):
    before, now = two_tables(500)
    more = {"ID": "somebody", "A": 2, "B": 0}
    whole = joint(tmp_path, before, now)
    for where in ((before, more), (now, more)), ((before, more),), ((now, more),):
        one, two = (
            pd.concat([frame, pd.DataFrame([more])]) if any(frame is each for each, _ in where) else frame
            for frame in (before, now)
        )
        gaps = [np.abs(a - b).sum() for a, b in zip(joint(tmp_path, one, two), whole, strict=True)]
        assert gaps == ([1, 1] if len(where) == 2 else [0, 0])


@pytest.mark.parametrize("table", [BEFORE, NOW])
def test_ids_that_repeat_are_refused_without_a_value(tmp_path, table):
    before, now = two_tables(300)
    frames = {BEFORE: before, NOW: now}
    frames[table] = pd.concat([frames[table], frames[table].iloc[:1]])
    with pytest.raises(
        InputError, match=r"values of the panel's column 'ID' repeat in (this month|the month before)'s"
    ):
        joint(tmp_path, frames[BEFORE], frames[NOW])


@pytest.mark.parametrize("cell", [None, "", "  ", float("nan")])
def test_empty_ids_are_refused(tmp_path, cell):
    before, now = two_tables(300)
    now["ID"] = now["ID"].astype(object)
    now.loc[7, "ID"] = cell
    with pytest.raises(InputError, match="the panel's column 'ID' has empty cells; give each row the id of its person"):
        joint(tmp_path, before, now)


def test_nobody_in_both_and_no_column(tmp_path):
    before, now = two_tables(300)
    assert joint(tmp_path, before, now.assign(ID=now["ID"] + "x"))[1].sum() == 0
    assert joint(tmp_path, before[["ID"]], now[["ID"]], ()) == []


def test_ids_that_share_a_hash_are_told_apart(tmp_path, monkeypatch):
    """By a hash of few values: every file has ids that share one."""
    before, now = two_tables(500)
    honest = joint(tmp_path, before, now)
    monkeypatch.setattr("equistrata.data.units.linking.id_hashes", lambda ids, key: ids[:, 0] % np.uint64(3))
    assert all((one == two).all() for one, two in zip(joint(tmp_path, before, now), honest, strict=True))
    with pytest.raises(InputError, match="repeat"):
        joint(tmp_path, pd.concat([before, before.iloc[:1]]), now)
    apart = [pd.DataFrame({"ID": [name], "A": [0], "B": [0]}) for name in ("ab", "cd")]
    monkeypatch.setattr("equistrata.data.units.linking.id_hashes", lambda ids, key: np.zeros(len(ids), np.uint64))
    monkeypatch.setattr("equistrata.data.units.linking.split_by_hash", lambda ids, key: [(0, np.arange(len(ids)))])
    (tmp_path / "other").mkdir()
    assert joint(tmp_path / "other", *apart, parts=1)[0].sum() == 0
