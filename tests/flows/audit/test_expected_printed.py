"""Tests of the expected errors that `equistrata audit --public` prints."""

from types import SimpleNamespace

import equistrata.flows.cli.audit as command


def test_groups_that_are_not_known_stand_first(monkeypatch):
    off = {"Other": "not known", "Male": "3.0\u00a0%", "Female": "2.1\u00a0%"}
    report = SimpleNamespace(
        order=list(off),
        unknown=["Other"],
        rows={"Other": "fewer than 28", "Male": "880 to 920", "Female": "870 to 910"},
        called={"AGE": "Age"},
        worst_column=lambda group: "AGE",
        off=off.__getitem__,
        sentences=["word " * 15 + "0.65\u00a0%."],
    )
    monkeypatch.setattr(command, "expected_pages", lambda config, workers: [("expected.html", report)])
    with command.out.capture() as printed:
        command.expect(None)
    lines = printed.get().splitlines()
    rows = {name: next(i for i, line in enumerate(lines) if f"│ {name} " in line) for name in off}
    assert rows["Male"] == rows["Other"] + 2  # a rule is between both
    assert rows["Female"] == rows["Male"] + 1
    assert "fewer than 28 │ not known │" in lines[rows["Other"]]
    assert "Age" not in lines[rows["Other"]]
    assert "2.1\u00a0%" in lines[rows["Female"]]
    assert lines[-1] == "0.65\u00a0%."
