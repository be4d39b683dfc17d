"""The comparison's table, figures and child process."""

import io

import numpy as np
import pytest
from rich.console import Console

from benchmarks.child import Cost, Job, JobFailed, measure, schema_of
from benchmarks.contest import SHARED, Run, contestants, draw_peers, draw_strata, frame, show, split
from equistrata.data.table import CodedTable
from equistrata.eval.scores.scores import Scores
from equistrata.synth.registry import MECHANISMS


def run(seconds, parity, accuracy=0.75):
    return Run(
        Cost(seconds, 0.9 * seconds, 4321.4),
        Scores(parity, 1.0, 0.123456, 1.22, accuracy, parity_by_stratum={"1": 0.5, "2": parity}),
    )


RESULTS = {
    "MST_SEX_RAC1P, numpy": [run(3.14, 0.138), run(4.2, 0.17), run(3.5, 0.15)],
    "MST_vanilla, numpy": [run(1.0, 4.48)],
    "SmartNoiseMST_SEX_RAC1P": [run(1234.5, 10.138), run(1300.0, 12.17)],
    "SmartNoiseMWEM_SEX_RAC1P": [run(1.0, 0.2, None)],
}


def printed(results, width=100):
    stream = io.StringIO()
    Console(file=stream, width=width).print(show(results, "a title"))
    return stream.getvalue()


def test_the_table_fits_100_columns_and_cuts_nothing_off():
    text = printed(RESULTS)
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    for name in RESULTS:
        assert name in text
    for cell in ("3.5±0.5", "4,321", "0.150±0.016", "1267.2±32.8", "11.154±1.016", "1.220", "0.750±0.000", "—"):
        assert cell in text, cell
    assert printed(RESULTS) == text


def test_one_repetition_has_no_spread():
    line = next(line for line in printed(RESULTS).splitlines() if "MST_vanilla" in line)
    assert "±" not in line
    assert line.split()[2:] == ["1.0", "4,321", "4.480", "0.123", "1.220", "0.750"]


def test_every_run_is_in_the_csv():
    table = frame(RESULTS)
    assert len(table) == 7
    assert table["accuracy"].isna().sum() == 1
    assert list(table.columns[:4]) == ["method", "repetition", "seconds", "MiB"]


def test_the_figures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    draw_peers(RESULTS, "a title", tmp_path / "deep" / "peers.png")
    labels = {"MST_vanilla, numpy": "one", "MST_SEX_RAC1P, numpy": "per stratum"}
    draw_strata(RESULTS, labels, {"1": "Male, White"}, "MST at ε = 1", tmp_path / "strata.png")
    assert (tmp_path / "deep" / "peers.png").stat().st_size > 5000
    assert (tmp_path / "strata.png").stat().st_size > 5000


def test_all_of_our_mechanisms_take_part():
    names = [c.name for c in contestants(("SEX", "RAC1P"), (), mbi=False)]
    assert {
        "MST_SEX_RAC1P, default",
        "MST_SEX_RAC1P, shared",
        "MST_SEX_RAC1P, per-stratum",
        "AIM_vanilla, numpy",
        "GEM_SEX_RAC1P, per-stratum",
    } < set(names)
    assert len(set(names)) == len(names) == 2 * len(MECHANISMS) + 2 * len(SHARED)


def test_the_split_is_the_same_for_all_contestants():
    table = CodedTable(
        np.arange(2, dtype=np.uint8)[np.random.default_rng(0).integers(0, 2, (1000, 1))], schema_of(["SEX"])
    )
    one, other = split(table, 3), split(table, 3)
    np.testing.assert_array_equal(one[0].codes, other[0].codes)
    assert len(one[0]) + len(one[1]) == 1000
    assert abs(len(one[0]) - 800) < 60


@pytest.mark.slow
def test_a_job_in_a_process_of_its_own():
    columns = ("SEX", "MAR", "ESR", "ESR~2")
    schema = schema_of(columns)
    codes = np.random.default_rng(0).integers(0, schema.sizes, (2000, 4)).astype(np.uint8)
    cost, drawn = measure(Job("mst", ("SEX",), columns), CodedTable(codes, schema))
    assert tuple(drawn.columns) == columns
    assert abs(len(drawn) - 2000) < 400
    assert 50 < cost.mebibytes < 4000
    assert 0 < cost.seconds < 120
    assert 0 < cost.cpu_seconds < 120
    with pytest.raises(JobFailed, match="unknown synthesizer 'nope'"):
        measure(Job("nope", ("SEX",), columns), CodedTable(codes, schema))


@pytest.mark.slow
def test_a_job_without_rules_draws_what_the_schema_declares_impossible():
    schema = schema_of(("AGEP", "MIL"))
    rows = CodedTable(np.tile([1, 0], (2000, 1)).astype(np.uint8), schema)
    (age, military), *_ = rows.decode(np.random.default_rng(0)).to_numpy()
    shares = {}
    for rules in (True, False):
        _, drawn = measure(Job("mst", (), schema.names, rules=rules), rows)
        shares[rules] = ((drawn["AGEP"] == age) & (drawn["MIL"] == military)).mean()
    assert shares[True] == 0
    assert shares[False] > 0.9
