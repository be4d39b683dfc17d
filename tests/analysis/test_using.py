"""Tests of the code and the commands in docs/using-a-release.md."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from in_process import command

from equistrata.analysis.release import Release
from equistrata.flows.cli.reading.asking import words_of


def test_the_script_of_the_page_runs(folder, repo_root, monkeypatch, capsys):
    page = (repo_root / "docs" / "using-a-release.md").read_text("utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(script.strip().splitlines()) <= 15
    monkeypatch.chdir(folder.parent)
    (folder.parent / "my-release").symlink_to(folder)
    exec(compile(script, "using-a-release.md", "exec"), {})
    shown = capsys.readouterr().out
    for word in ("estimate", "p_value", "SEX=2", "measured"):
        assert word in shown
    assert "..." not in shown  # pandas shows all of the columns


def test_a_regression_s_terms_are_whole_and_in_words(folder, monkeypatch, capsys):
    terms = ["(intercept)", "SEX=2", "AGEP"]
    numbers = {"estimate": -1.004, "lower": -1.268, "upper": -0.007653, "sampling_error": 0.0, "basis": "implied"}
    monkeypatch.setattr(Release, "estimate", lambda *_, **asked: pd.DataFrame({"term": terms}).assign(**numbers))
    code, printed, _ = command(monkeypatch, capsys, "estimate", folder, "logit", "ESR=1", "--by", "SEX,AGEP")
    assert code == 0
    assert "…" not in printed
    for term in ("(intercept)", "SEX=Female", "AGEP"):
        assert f"│ {term} " in printed
    assert "●" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_a_median_is_a_quantile(folder, monkeypatch, capsys):
    release = Release.open(folder)
    with pytest.warns(UserWarning, match="numbers of its bins"):
        expected = release.estimate("quantile", "AGEP", "SEX", q=0.5)
    with pytest.warns(UserWarning, match="numbers of its bins"):
        found = release.estimate("median", "AGEP", "SEX", q=0.9)
    pd.testing.assert_frame_equal(found, expected)
    code, printed, _ = command(monkeypatch, capsys, "estimate", folder, "median", "AGEP", "--by", "SEX", "--json")
    assert code == 0
    assert [line["estimate"] for line in json.loads(printed)] == expected["estimate"].tolist()


def test_values_of_the_same_words_are_told_apart(folder):
    release = Release.open(folder)
    place = release.schema.names.index("SEX")
    sexes = replace(release.schema.columns[place], labels=((1, "Other"), (2, "Other")))
    columns = (*release.schema.columns[:place], sexes, *release.schema.columns[place + 1 :])
    alike = SimpleNamespace(schema=replace(release.schema, columns=columns))
    assert [words_of(alike, "SEX", value) for value in (1, 2)] == ["Other (1)", "Other (2)"]
    assert words_of(release, "SEX", 2) == "Female"


@pytest.mark.parametrize(
    "asked", [("mean", "AGEP"), ("median", "AGEP"), ("difference", "AGEP", "SEX"), ("ols", "DIS", "AGEP")]
)
def test_a_mean_of_numbers_of_bins_says_so_in_python_and_in_the_command(asked, folder, monkeypatch, capsys):
    """Regression test for a missing warning in Python and with --json. The values are the numbers of the bins."""
    said = "AGEP was released as the numbers of its bins, from 0 (0 to 19) to 4 (over 76 to 99)"
    with pytest.warns(UserWarning, match=re.escape(said)):
        found = Release.open(folder).estimate(*asked)
    given = [*asked[:2], *(["--by", asked[2]] if asked[2:] else [])]
    code, printed, noted = command(monkeypatch, capsys, "estimate", folder, *given, "--json")
    assert code == 0
    assert noted.count(said) == 1
    assert [line["estimate"] for line in json.loads(printed)] == pytest.approx(found["estimate"].tolist())


def test_a_share_of_a_bin_has_no_such_warning(folder, monkeypatch, capsys):
    Release.open(folder).estimate("proportion", "AGEP")
    assert "numbers of its bins" not in command(monkeypatch, capsys, "estimate", folder, "proportion", "AGEP")[2]


def test_estimates_are_drawn(folder, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "jobs.svg"
    code, _, _ = command(
        monkeypatch, capsys, "estimate", folder, "proportion", "ESR=1", "--by", "SEX", "--plot", picture
    )
    assert code == 0
    drawn = picture.read_text("utf-8")
    assert drawn.count("<use") + drawn.count("<path") > 4
    for place, bad in (
        (tmp_path / "jobs.txt", "must end in"),
        (tmp_path / "no" / "jobs.svg", "a folder that does not exist"),
    ):
        code, _, said = command(monkeypatch, capsys, "estimate", folder, "count", "--plot", place)
        assert code == 2
        assert bad in " ".join(said.split())


def test_a_difference_of_columns_that_were_never_measured_together_has_no_p(folder, monkeypatch, capsys):
    by, of = next(pair for pair in Release.open(folder).not_measured() if "SEX" not in pair)
    value = Release.open(folder).schema[of].keys[1]
    code, printed, _ = command(monkeypatch, capsys, "estimate", folder, "difference", f"{of}={value}", "--by", by)
    assert code == 0
    assert "nan" not in printed
    assert "no p: these columns were never measured together" in " ".join(printed.split())
    code, printed, _ = command(monkeypatch, capsys, "estimate", folder, "difference", "ESR=1", "--by", "SEX")
    assert code == 0
    assert "no p" not in printed
