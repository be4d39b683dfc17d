"""docs/using-a-release.md: what it has people copy works."""

import re


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
