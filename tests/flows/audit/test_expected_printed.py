"""What `equistrata audit --public` prints: those that may be empty apart, in the unit of the page."""

from types import SimpleNamespace

import equistrata.flows.cli.audit as command


def test_groups_that_may_be_empty_stand_apart(monkeypatch):
    off = {"Male": 0.03, "Female": 0.021, "Other": 0.21}
    report = SimpleNamespace(
        order=["Male", "Female", "Other"],
        covered=frozenset({"Male", "Female"}),
        sizes=dict.fromkeys(off, 900.0),
        called={"AGE": "Age"},
        worst_column=lambda group: "AGE",
        mean=off.__getitem__,
        sentences=["word " * 15 + "0.65\u00a0%."],
    )
    monkeypatch.setattr(command, "expected_pages", lambda config: [("expected.html", report)])
    with command.out.capture() as printed:
        command.expect(None)
    lines = printed.get().splitlines()
    rows = {name: next(i for i, line in enumerate(lines) if f"│ {name} " in line) for name in off}
    assert rows["Female"] == rows["Male"] + 1
    assert rows["Other"] == rows["Female"] + 2  # a line between
    assert "2.1\u00a0%" in lines[rows["Female"]]
    assert lines[-1] == "0.65\u00a0%."
