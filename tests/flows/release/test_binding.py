"""Tests of the data and settings that a charge is bound to, which are named in an error message after a change."""

import json
from importlib.metadata import version

import pandas as pd
import pytest

from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release import binding as bindings
from equistrata.flows.release.binding import binding, config_hash, differences, own_code, settings_hash
from equistrata.flows.release.plan import Plan
from equistrata.synth.foreign.smartnoise import SmartNoise
from equistrata.synth.mechanisms.aim import AIM

SCHEMA = """
name: people
target: JOB
default: [SEX, AGE, JOB]
impossible: [{AGE: [0], JOB: ['yes']}]
columns:
  SEX: {values: [1, 2], labels: {1: men, 2: women}}
  AGE: {lower: 0, upper: 120, edges: [0, 17, 120], integer: true}
  JOB: {values: ['no', 'yes']}
  PAY: {lower: 0, upper: 1000000, sigma: 25000}
"""
JOB = "  JOB: {values: ['no', 'yes']}\n"


@pytest.fixture
def plan(tmp_path):
    """Return a function that makes a plan of a release by SEX with a mean."""

    def plan_of(text=SCHEMA, **settings):
        (tmp_path / "people.yaml").write_text(text)
        (tmp_path / "people.csv").write_text("SEX,AGE,JOB,PAY\n1,20,no,5\n")
        given = {"schema": str(tmp_path / "people.yaml"), "source": "csv", "input": str(tmp_path / "people.csv")}
        given |= {"strata": "SEX", "means": "PAY", "output": str(tmp_path / "out")}
        return Plan.of(ReleaseConfig.build(**given | settings))

    return plan_of


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("{values: [1, 2]", "{values: [2, 1]", "column 'SEX': the order of its values"),
        ("{values: [1, 2]", "{values: [1.0, 2.0]", "column 'SEX': its values"),
        ("{values: [1, 2]", "{values: [1, 2, 3]", "column 'SEX': its values"),
        ("1: men", "1: boys", "column 'SEX': its labels"),
        ("1: men, 2: women", "2: women, 1: men", "column 'SEX': the order of its labels"),
        ("AGE: {", "AGE: {label: years, ", "column 'AGE': its label"),
        ("17, 120]", "18, 120]", "column 'AGE': its edges"),
        ("integer: true", "integer: false", "column 'AGE': its integer"),
        ("upper: 120, edges: [0, 17, 120]", "upper: 99, edges: [0, 17, 99]", "column 'AGE': its upper and its edges"),
        ("sigma: 25000", "sigma: 2500", "column 'PAY': its sigma"),
        (JOB, f"{JOB}  MORE: {{values: [1]}}\n", "column 'MORE' is new"),
        ("target: JOB\n", "", "its target"),
        ("[SEX, AGE, JOB]", "[AGE, SEX, JOB]", "its default"),
        ("name: people", "name: persons", "its name"),
        ("JOB: ['yes']", "JOB: ['no']", "its impossible"),
        ("", "description: of 2026\n", "its description"),
    ],
)
def test_what_has_changed_in_a_schema_is_named_without_a_value(plan, old, new, told):
    then = plan()
    assert old in SCHEMA
    now = plan(SCHEMA.replace(old, new, 1))
    assert differences(binding(then), binding(now), now.config) == [f"the schema {now.config.schema_!r} ({told})"]
    assert config_hash(then.config, binding(then)) != config_hash(now.config, binding(now))


def test_a_few_differences_are_named_and_more_are_hinted_at(plan):
    then = plan()
    fewer = SCHEMA.replace(JOB, "").replace(", JOB]", "]").replace("target: JOB\n", "")
    now = plan("\n".join(line for line in fewer.splitlines() if "impossible" not in line))
    (told,) = differences(binding(then), binding(now), now.config)
    assert told.endswith("(column 'JOB' is gone, its target, its impossible and more)")


def test_the_order_of_columns_counts_and_the_layout_of_the_file_does_not(plan):
    then = plan()
    moved = plan(SCHEMA.replace(JOB, "").replace("columns:\n", f"columns:\n{JOB}"))
    (told,) = differences(binding(then), binding(moved), moved.config)
    assert told.endswith("(the order of its columns)")
    same = plan("# said otherwise\n" + SCHEMA.replace("{values: [1, 2], labels: {1: men, 2: women}}", """
    labels: {1: "men", 2: women}
    values:
      - 1
      - 2"""))  # fmt: skip
    assert differences(binding(then), binding(same), same.config) == []
    assert config_hash(then.config, binding(then)) == config_hash(same.config, binding(same))


def test_the_content_of_weights_and_of_the_means_schema_counts(plan, tmp_path):
    weights, means = tmp_path / "weights.csv", tmp_path / "means.yaml"
    settings = {"weights": str(weights), "combine_weights": True, "means_schema": str(means)}
    weights.write_text("SEX,count\n1,10\n2,30\n")
    means.write_text("columns: {PAY: {lower: 0, upper: 10, sigma: 2}, DAYS: {lower: 0, upper: 7, sigma: 1}}\n")
    then = binding(plan(**settings))
    for content in ("SEX,count\n1,11\n2,30\n", "SEX,count\n1,100\n2,300\n", "SEX,share\n1,0.25\n2,0.75\n"):
        weights.write_text(content)
        now = plan(**settings)
        assert differences(then, binding(now), now.config) == [f"the weights in {str(weights)!r}"], content
    weights.write_text("SEX,count\n2,30\n1,10\n")
    means.write_text("columns: {PAY: {lower: 0, upper: 10, sigma: 3}, DAYS: {lower: 0, upper: 7, sigma: 1}}\n")
    now = plan(**settings)
    assert differences(then, binding(now), now.config) == [f"the schema {str(means)!r} (column 'PAY': its sigma)"]
    means.write_text("columns: {PAY: {lower: 0, upper: 10, sigma: 2}, DAYS: {lower: 0, upper: 7, sigma: 1}}\n")
    turned = plan(SCHEMA.replace("[1, 2]", "[2, 1]"), **settings)
    (told,) = differences(then, binding(turned), turned.config)  # the order of the weights has no effect
    assert told.endswith("(column 'SEX': the order of its values)")


def test_what_follows_from_settings_and_code_is_named_where_nothing_else_has_changed(plan):
    bound = binding(plan())
    config = plan().config
    other = {
        "mechanism": {"mechanism": {**bound["mechanism"], "trees": 5}},
        "the price": {"price": {**bound["price"], "synthesis": "1/7"}},
        "the strata": {"strata": [["SEX"], [[2], [1]]]},
        "pandas (1.0 then": {"software": {**bound["software"], "pandas": "1.0"}},
        "python (3.1 then": {"software": {**bound["software"], "python": "3.1"}},
        "opendp (none then": {"software": {k: v for k, v in bound["software"].items() if k != "opendp"}},
        "the code of equistrata (": {"software": {**bound["software"], "code": "0" * 64}},
        "equistrata (0.0 then": {"software": {**bound["software"], "code": "0" * 64, "equistrata": "0.0"}},
    }
    for told, changed in other.items():
        (found,) = differences(bound | changed, bound, config)
        assert told in found
        assert config_hash(config, bound | changed) != config_hash(config, bound)
    assert differences(bound, bound, config) == []


def test_every_setting_of_a_mechanism_is_bound(plan, monkeypatch):
    found = {json.dumps(binding(plan(synthesizer=name))["mechanism"]) for name in ("mst", "aim", "gem")}
    found |= {json.dumps(binding(plan(levels=levels))["mechanism"]) for levels in ("strata", "none")}
    assert len(found) == 5
    for other in (AIM(rounds=3), AIM(workload={("SEX", "AGE"): 2.0}), AIM(workload={("SEX", "AGE"): 3.0})):
        with monkeypatch.context() as patch:
            patch.setattr("equistrata.flows.release.plan.mechanism", lambda *named, other=other: other)
            found.add(json.dumps(binding(plan(selection="per-stratum"))["mechanism"]))
    assert len(found) == 8


def test_other_peoples_software_is_bound(plan, monkeypatch):
    monkeypatch.setattr("equistrata.flows.release.plan.mechanism", lambda *named: SmartNoise())
    bound = []
    for number in ("1.0", "1.1"):
        monkeypatch.setattr(SmartNoise, "software", f"smartnoise-synth {number}")
        bound.append(binding(plan()))
    (told,) = differences(*bound, plan().config)
    assert told == "the synthesizer's own (smartnoise-synth 1.0 then, smartnoise-synth 1.1 now)"


def test_what_reads_an_spss_file_is_bound(plan, tmp_path, monkeypatch):
    """The stratum of a row depends on the reader of the file."""
    pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'labelled' is not installed")
    rows = pd.DataFrame({"SEX": [1.0], "AGE": [20.0], "JOB": ["no"], "PAY": [5.0]})
    pyreadstat.write_sav(rows, str(tmp_path / "people.sav"))
    told = []
    for settings in ({}, {"source": "spss", "input": str(tmp_path / "people.sav")}):
        then = binding(plan(**settings))
        with monkeypatch.context() as patch:
            patch.setattr(bindings, "version", lambda name: "0.1" if name == "pyreadstat" else version(name))
            now = plan(**settings)
            told.append(differences(then, binding(now), now.config))
    assert told == [[], [f"pyreadstat ({pyreadstat.__version__} then, 0.1 now)"]]


def test_what_reads_a_workbook_is_bound(plan, tmp_path):
    pytest.importorskip("openpyxl", reason="the extra 'excel' is not installed")
    pd.DataFrame({"SEX": [1], "AGE": [20], "JOB": ["no"], "PAY": [5]}).to_excel(tmp_path / "people.xlsx", index=False)
    bound = binding(plan(source="excel", input=str(tmp_path / "people.xlsx")))
    assert bound["software"]["openpyxl"] == version("openpyxl")
    assert "openpyxl" not in binding(plan())["software"]


def test_settings_have_a_hash_of_their_own(plan):
    one, two = plan(), plan(SCHEMA.replace("[1, 2]", "[2, 1]"))
    hashes = [config_hash(each.config, binding(each)) for each in (one, two)]
    assert hashes[0] != hashes[1]
    assert {settings_hash(each) for each in hashes} == {one.config.digest}
    assert settings_hash(one.config.digest) == one.config.digest, "as in the entries of earlier versions"
    assert settings_hash(None) == ""


def test_the_code_is_its_files(tmp_path, monkeypatch):
    ours = own_code()  # The result is cached. If it were first called below, other tests would use the wrong value.
    room = tmp_path / "a_package"
    (room / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py", "inner/module.py", "schema.yaml"):
        (room / name).write_text("# nothing\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("equistrata.flows.release.binding.PACKAGE", "a_package")
    seen = [own_code.__wrapped__()]
    (room / "notes.txt").write_text("no code")
    assert own_code.__wrapped__() == seen[0]
    for path in (room / "inner" / "module.py", room / "schema.yaml", room / "new.py", tmp_path / "pyproject.toml"):
        path.write_text("# something\n")
        seen.append(own_code.__wrapped__())
    (room / "new.py").rename(room / "renamed.py")
    seen.append(own_code.__wrapped__())
    assert len(set(seen)) == 6
    assert ours != seen[0]
