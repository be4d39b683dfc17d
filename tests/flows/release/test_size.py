"""Tests that a release is refused before the charge if it is too large, and that a warning is given if it is slow."""

import re

import pytest
from in_process import command

import equistrata.flows.release.size
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.size import available_memory, check_audit, in_words
from equistrata.privacy.budget import Rho
from equistrata.privacy.ledger.ledger import Ledger


@pytest.fixture
def wide(tmp_path):
    """Return a function that makes a plan with the given numbers of columns and strata for a table with one row."""

    def plan(columns, values=4, strata=4, **settings):
        names = [f"c{n}" for n in range(columns)]
        lines = [f"  {name}: {{values: {list(range(strata if name == 'c0' else values))}}}\n" for name in names]
        (tmp_path / "wide.yaml").write_text("columns:\n" + "".join(lines))
        (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("0" * columns) + "\n")
        files = {"source": "csv", "input": str(tmp_path / "wide.csv"), "schema": str(tmp_path / "wide.yaml")}
        given = {"strata": "c0" if strata > 1 else "", "output": str(tmp_path / "out"), "workers": 2}
        return Plan.of(ReleaseConfig.build(**files | given | settings))

    return plan


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ({"epsilon": 1e-12}, "at this ε their number is noise, so raise epsilon, or draw fewer"),
        ({"rows": 10**6}, "draw"),
    ],
)
def test_rows_that_no_disk_holds_are_refused_before_they_are_charged(wide, monkeypatch, settings, way):
    """At ε = 1e-12 the noise gives billions of rows, which used to be drawn until the disk was full."""
    monkeypatch.setattr(equistrata.flows.release.size, "free_bytes", lambda _: 5 * 10**6)
    with pytest.raises(InputError, match=f"rows would need .* GiB or more.*{way}"):
        wide(5, evaluate="none", **settings)
    wide(5, evaluate="none", rows=1000)


def test_what_is_quick_gets_no_word(wide, tmp_path):
    assert Plan.of(ReleaseConfig.build(output=str(tmp_path / "out"), strata="SEX,RAC1P")).demand.warning is None
    assert wide(41, evaluate="none").demand.warning is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"columns": 100, "evaluate": "none"},
            r"about \d+ minutes .* MST over 100 columns in 4 strata, one fit, .*fewer columns",
        ),
        ({"columns": 60, "evaluate": "none", "synthesizer": "aim"}, "AIM over 60 columns.* or synthesizer mst"),
        ({"columns": 100, "strata": 1, "values": 2}, "MST over 100 columns in 1 stratum"),
        ({"columns": 9, "strata": 2000, "evaluate": "none"}, "in 2,000 strata.*--no-shrinkage"),
        (
            {"columns": 30, "strata": 60, "evaluate": "none", "synthesizer": "gem", "selection": "per-stratum"},
            "60 fits",
        ),
    ],
)
def test_what_takes_long_is_told_with_a_time_and_a_way_out(wide, settings, told):
    sentence = wide(**settings).demand.warning
    assert sentence is not None
    assert "\n" not in sentence
    assert re.search(told, sentence), sentence


def test_more_workers_and_fewer_scores_take_less(wide):
    slow = {"columns": 30, "strata": 60, "synthesizer": "gem", "evaluate": "none", "selection": "per-stratum"}
    assert wide(**slow, workers=8).demand.seconds < 0.5 * wide(**slow, workers=2).demand.seconds
    assert wide(100, evaluate="none").demand.seconds < wide(100).demand.seconds - 60


def test_what_would_take_weeks_is_refused(wide):
    with pytest.raises(InputError, match=r"would take about \d+ (days|years): AIM over 300 columns"):
        wide(300, synthesizer="aim")


def test_what_does_not_fit_into_memory_is_refused(wide, monkeypatch):
    monkeypatch.setattr(equistrata.flows.release.size, "available_memory", lambda: 1 << 20)
    with pytest.raises(
        InputError, match=r"about 0\.195 GiB of memory and this machine has 0\.000977: MST over 41 columns"
    ):
        wide(41)
    assert wide(
        41, runner="dask", cluster="tcp://elsewhere:1"
    ).demand.size.memory  # the memory of another machine is not known
    monkeypatch.setattr(equistrata.flows.release.size, "available_memory", lambda: None)
    assert wide(41)


def test_memory_is_the_machine_s_or_its_container_s(monkeypatch, tmp_path):
    plenty, few = tmp_path / "v2", tmp_path / "v1"
    plenty.write_text("max\n")
    monkeypatch.setattr(equistrata.flows.release.size, "_LIMITS", (str(tmp_path / "none"), str(plenty)))
    whole = available_memory()
    assert whole > 1 << 27
    few.write_text(f"{whole // 2}\n")
    monkeypatch.setattr(equistrata.flows.release.size, "_LIMITS", (str(plenty), str(few)))
    assert available_memory() == whole // 2


@pytest.mark.parametrize(
    ("time", "words"), [(5, "a minute"), (100, "2 minutes"), (86_400 * 1.4, "34 hours"), (6e7, "2 years")]
)
def test_times_are_told_in_words(time, words):
    assert in_words(time) == words


@pytest.mark.parametrize(
    ("schema", "options", "told"),
    [
        ("c0: {values: [0, 1]}", ("--rows", 10**20), "draw fewer (--rows)"),
        (
            "\n  ".join(f"c{n}: {{values: {list(range(10))}}}" for n in range(9)),
            ("--strata", "c0,c1,c2,c3,c4,c5,c6"),
            "make 10,000,000 strata, but the maximum is 10,000",
        ),
    ],
)
def test_nothing_is_charged_for_what_is_refused(tmp_path, monkeypatch, capsys, schema, options, told):
    """The command line is used with a ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    (tmp_path / "s.yaml").write_text(f"columns:\n  {schema}\n")
    names = [line.split(":")[0].strip() for line in schema.splitlines()]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + ",".join("0" * len(names)) + "\n")
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    opened = command(
        monkeypatch, capsys, "budget", "create", "people", "--epsilon", 2, "--delta", 1e-6, "--ledger", ledger
    )
    assert opened[0] in (0, None), opened
    files = ("--source", "csv", "--input", "t.csv", "--schema", "s.yaml", "--output", "out")
    code, out, err = command(
        monkeypatch, capsys, "release", *files, *options, "--dataset", "people", "--ledger", ledger
    )
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
    assert Ledger(ledger).spent("people") == Rho(0)


def test_an_audit_of_too_many_columns_is_refused(monkeypatch):
    check_audit(100, 3)
    with pytest.raises(InputError, match="2,000 columns have 1,331,334,000 such sets"):
        check_audit(2000, 1)
    monkeypatch.setattr(equistrata.flows.release.size, "available_memory", lambda: 1 << 20)
    with pytest.raises(InputError, match="100 columns have 161,700 such sets"):
        check_audit(100, 1)


def test_more_rows_than_can_be_drawn_are_refused(wide):
    with pytest.raises(
        InputError, match=r"drawing 1,0{3}(,0{3}){9} rows would take about .* years; draw fewer \(--rows\)"
    ):
        wide(4, rows=10**30)


@pytest.mark.parametrize("settings", [{"rows": 10**9}, {"epsilon": 1e-300}, {"epsilon": 1e-300, "strata": 1}])
def test_rows_that_take_long_to_draw_are_told(wide, monkeypatch, settings):
    """The number of rows is set by the user, or it is very large because of the noise at a small ε."""
    monkeypatch.setattr(equistrata.flows.release.size, "free_bytes", lambda _: 10**13)
    assert re.search(r"\d+ (minutes|hours) .*draw fewer rows", wide(4, **settings).demand.warning)
