"""Tests of rules for rows, so that no released row contradicts a rule."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from edited_release import edited_copy
from in_process import command

from equistrata.analysis.release import Release
from equistrata.analysis.verify import faults

BOOK = """name,type,values,lower,upper,format
SEX,nominal,1=Male; 2=Female,,,
AGE,integer,,12,99,
CHARGE,nominal,a=traffic; b=theft; c=other,,,
JAIL_IN,date,,2015-01-01,2024-12-31,%Y-%m-%d
JAIL_OUT,date,,2015-01-01,2024-12-31,%Y-%m-%d
"""
MORE = """rules: ["JAIL_IN <= JAIL_OUT", "AGE >= 18 or CHARGE != 'b'"]
"""


def people(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    start = np.datetime64("2015-01-01") + rng.integers(0, 3000, rows)
    age = rng.integers(12, 70, rows)
    out = start + np.floor(rng.exponential(20, rows)).astype(int)
    return pd.DataFrame(
        {
            "SEX": rng.integers(1, 3, rows),
            "AGE": age,
            "CHARGE": np.where(age < 18, rng.choice(["a", "c"], rows), rng.choice(["a", "b", "c"], rows)),
            "JAIL_IN": start,
            "JAIL_OUT": out,
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder that contains a release of people in jail. The schema has two rules and a derived column."""
    folder = tmp_path_factory.mktemp("rules")
    people().to_csv(folder / "jail.csv", index=False)
    (folder / "book.csv").write_text(BOOK)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        from equistrata.flows.cli.main import main

        def run(*arguments):
            patch.setattr("sys.argv", ["equistrata", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code

        run("schema", "draft", "jail.csv", "--codebook", "book.csv", "--output", "jail.yaml")
        schema = folder / "jail.yaml"
        grown = '  GROWN: {from: AGE, bins: [12, 17, 99], labels: ["no", "yes"], label: Of age}\n'
        schema.write_text(schema.read_text().replace("columns:\n", f"columns:\n{grown}") + MORE)
        run("release", "--input", "jail.csv", "--schema", "jail.yaml", "--strata", "SEX", "--output", "out",
            "--evaluate", "none")  # fmt: skip
    return folder


def test_no_row_contradicts_itself_and_the_card_says_what_it_took(home):
    rows = pd.read_csv(home / "out" / "synthetic.csv", keep_default_na=False)
    assert len(rows) > 2500
    assert (rows["JAIL_IN"] <= rows["JAIL_OUT"]).all()
    assert not ((rows["AGE"] < 18) & (rows["CHARGE"] == "b")).any()
    assert rows["GROWN"].tolist() == np.where(rows["AGE"] >= 18, "yes", "no").tolist()
    said = json.loads((home / "out" / "card.json").read_text())["rules"]
    assert said["in_order"] == ["JAIL_IN <= JAIL_OUT"]
    assert 0 < said["exchanged"] < len(rows)
    page = (home / "out" / "card.md").read_text()
    assert "Every row obeys `JAIL_IN <= JAIL_OUT`. Some of the drawn rows did not, so they were changed. " in page
    assert f" {said['exchanged']:,} rows exchanged" in page


def test_a_reader_opens_asks_exports_and_verifies_it(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    release = Release.open(home / "out")
    assert faults(release) == []
    assert release.rows()["GROWN"].cat.categories.tolist() == ["no", "yes"]
    by_group = release.estimate("count", by="GROWN").set_index("GROWN")["estimate"]
    by_age = release.estimate("count", where={"AGE": ">=18"})["estimate"].iloc[0]
    assert by_group["yes"] == pytest.approx(by_age)
    code, out, _ = command(monkeypatch, capsys, "estimate", "out", "proportion", "CHARGE", "--where", "GROWN=no")
    assert code == 0
    assert "CHARGE" in out
    assert "GROWN" in release.codebook()["column"].tolist()
    for name in ("rows.dta", "rows.sav"):
        assert command(monkeypatch, capsys, "export", "out", name)[0] == 0
    assert pd.read_stata(home / "rows.dta")["GROWN"].tolist() == release.rows(labels=False)["GROWN"].tolist()


def test_rows_that_break_the_rule_are_refused_with_its_words_and_counted_for_the_steward(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    frame = people(200)
    frame.loc[:1, "JAIL_OUT"] = np.datetime64("2015-01-01")
    frame.loc[:1, "JAIL_IN"] = np.datetime64("2015-01-02")
    frame.to_csv("late.csv", index=False)
    code, _, err = command(
        monkeypatch, capsys, "release", "--input", "late.csv", "--schema", "jail.yaml", "--output", "no"
    )
    assert code
    assert "breaks the rule 'JAIL_IN <= JAIL_OUT' of schema" in err
    assert "2015-01-0" not in err
    assert not (home / "no").exists()
    code, out, _ = command(monkeypatch, capsys, "schema", "check", "jail.yaml", "--input", "late.csv", "--json")
    assert code
    [misfit] = json.loads(out)["misfits"]
    assert (misfit["columns"], misfit["fault"], misfit["cells"]) == (["JAIL_IN", "JAIL_OUT"], "impossible", 2)


def test_what_is_forged_about_rules_is_found(home, tmp_path):
    def found(name, change):
        return " ".join(faults(Release.open(edited_copy(home / "out", tmp_path / name, change))))

    def card(**changes):
        def change(folder):
            document = json.loads((folder / "card.json").read_text())
            document["rules"] = document["rules"] | changes if changes else None
            (folder / "card.json").write_text(json.dumps(document))

        return change

    def rows(name, value):
        def change(folder):
            frame = pd.read_parquet(folder / "synthetic.parquet")
            frame.loc[0, name] = value
            frame.to_parquet(folder / "synthetic.parquet", index=False)
            frame.to_csv(folder / "synthetic.csv", index=False)

        return change

    assert "breaks the rule 'JAIL_IN <= JAIL_OUT'" in found("late", rows("JAIL_OUT", "2015-01-01"))
    assert "derived column 'GROWN' of the rows does not match its source 'AGE'" in found(
        "grown", rows("GROWN", "maybe")
    )
    hidden = rows("HIDDEN", "a column more")
    assert "synthetic.parquet has columns that schema.json does not declare: HIDDEN" in found("hidden", hidden)
    assert "lists other rules than schema.json" in found("other", card(in_order=["JAIL_OUT <= JAIL_IN"]))
    assert "changed more rows than there are" in found("many", card(moved=10**6))
    assert "lacks parts that each card of its format has: the effect of its rules" in found("none", card())
    shutil.rmtree(tmp_path)
