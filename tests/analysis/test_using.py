"""docs/using-a-release.md: what it has people copy works."""

import re

from in_process import command

from equistrata.analysis.release import Release


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


def test_estimates_are_drawn(folder, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "jobs.svg"
    code, _, _ = command(
        monkeypatch, capsys, "estimate", folder, "proportion", "ESR=1", "--by", "SEX", "--plot", picture
    )
    assert code == 0
    drawn = picture.read_text("utf-8")
    assert drawn.count("<use") + drawn.count("<path") > 4
    for place, bad in ((tmp_path / "jobs.txt", "must end in"), (tmp_path / "no" / "jobs.svg", "no folder that exists")):
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
