"""Tests of the configuration, which is the same for YAML, Prefect parameters and options."""

import os
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from equistrata.errors import InputError
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.config.release import ReleaseConfig


def test_yaml_and_options_say_the_same(tmp_path):
    path = tmp_path / "release.yaml"
    path.write_text("strata: [SEX, RAC1P]\nepsilon: 0.5\ndelta: 1e-9\nmeans-share: 0.1\n")  # YAML reads 1e-9 as text
    config = ReleaseConfig.load(path, epsilon=2)
    assert config == ReleaseConfig.build(strata="SEX,RAC1P", epsilon=2, delta=1e-9, means_share=0.1)


def test_a_configuration_survives_the_way_through_prefect_parameters():
    config = ReleaseConfig.build(schema="acs_employment", strata="SEX", seed=3)
    assert ReleaseConfig.build(**yaml.safe_load(yaml.safe_dump(config.public()))) == config


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"delta": 0}, "delta"),
        ({"rows": 0}, "rows"),
        ({"workers": 0}, "workers"),
        ({"synthesizer": "magic"}, "synthesizer"),
        ({"no_such": 1}, "unknown setting 'no_such'"),
        ({"year": "soon"}, "year"),
    ],
)
def test_a_wrong_setting_gets_one_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        ReleaseConfig.build(**settings)
    assert "\n" not in str(caught.value)


def test_what_a_ledger_is_charged_for_takes_no_seed():
    with pytest.raises(InputError, match="noise from a seed can be repeated and subtracted") as caught:
        ReleaseConfig.build(dataset="people", ledger="ledger.db", seed=0)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValidationError, match="noise from a seed"):  # the parameters of a deployment
        ReleaseConfig(dataset="people", seed=7)


@pytest.mark.parametrize(
    "text",
    [
        "just text",
        "a: [",
        "- 1\n- 2",
        "",
        "seed: 1\nseed: 2",
        "count-share: 0.1\ncount_share: 0.2",
        "state: &s [NY]\ncolumns: *s",
    ],
)
def test_a_broken_config_file_gets_one_sentence(tmp_path, text):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"broken\.yaml"):
        ReleaseConfig.load(path)


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 61, "Jahr ü"])
def test_a_series_that_cannot_have_that_name(name):
    with pytest.raises(InputError, match=r"a name consists of letters, digits, .* and has at most 60 characters$"):
        ReleaseConfig.build(source="sample", series={"name": name, "horizon": 3})


def test_a_series_may_be_that_of_the_year():
    config = ReleaseConfig.build(dataset="d", output="out/{month}", series={"name": "people-{year}", "horizon": 12})
    assert config.at(datetime(2027, 1, 1, 3, tzinfo=UTC)).series.name == "people-2027"
    west = config.changed(time_zone="America/New_York")
    assert west.at(datetime(2027, 1, 1, 3, tzinfo=UTC)).series.name == "people-2026"
    assert west.at(datetime(2027, 1, 1, 3, tzinfo=UTC)).series.horizon == 12
    with pytest.raises(InputError, match="is not a placeholder"):
        ReleaseConfig.build(dataset="d", series={"name": "people-{season}", "horizon": 12})


def test_a_missing_config_file_gets_one_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        ReleaseConfig.load(tmp_path / "none.yaml")


def test_a_copy_validates_what_changes_and_nothing_else(monkeypatch):
    config = ReleaseConfig.build(dataset="people", output="out/{month}", release_id="a" * 93 + "{time}")
    with pytest.raises(
        InputError, match=r"setting 'release_id' is 'a{40}…', but .* at most 100 characters"
    ):  # it is longer when it is filled in
        config.at(datetime(2026, 11, 1, tzinfo=UTC))
    with pytest.raises(InputError, match="setting 'workers' is 0"):
        config.changed(workers=0)
    monkeypatch.setattr(ReleaseConfig, "__init__", None)
    named = config.changed(release_id="people-{month}").at(datetime(2026, 11, 1, tzinfo=UTC))
    assert (named.output, named.release_id) == ("out/2026-11", "people-2026-11")
    assert named.at(datetime(2030, 1, 1, tzinfo=UTC)) is named
    assert named.model_fields_set == {"dataset", "output", "release_id"}


@pytest.mark.parametrize("kind", [ReleaseConfig, AuditConfig])
def test_a_password_is_no_setting_and_is_not_quoted(kind):
    named = "postgresql://steward:hunter2hunter2@db.example/ledger"
    with pytest.raises(InputError, match="must not be given with a password") as told:
        kind.build(ledger=named)
    with pytest.raises(ValidationError) as logged:  # an orchestrator sees this error, because it does not call `build`
        kind(ledger=named)
    assert "hunter2" not in str(told.value) + str(logged.value)
    assert kind.build(ledger="postgresql://steward@db.example/ledger").ledger


@pytest.mark.parametrize("setting", ["output", "input", "schema", "strata", "scratch", "dataset"])
def test_a_name_that_is_not_utf8_is_refused_in_one_sentence(setting):
    with pytest.raises(InputError, match=f"^setting '{setting}' contains bytes that are not UTF-8; use") as told:
        ReleaseConfig.build(**{setting: os.fsdecode(b"caf\xe9")})
    str(told.value).encode()
    assert ReleaseConfig.build(**{setting: "café \U0001f600"})


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({}, "sample"),
        ({"input": "people.csv"}, "csv"),
        ({"input": "people.txt"}, "csv"),
        ({"input": "people.parquet"}, "parquet"),
        ({"input": "people.dat", "source": "parquet"}, "parquet"),
        ({"state": "NY"}, "folktables"),
    ],
)
def test_rows_come_from_what_is_named(given: dict[str, Any], source: str) -> None:
    assert ReleaseConfig.build(**given).source == source


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": "sample", "input": "people.csv"}, "source 'sample' does not read a file"),
        ({"source": "folktables", "state": "NY", "input": "people.csv"}, "source 'folktables' does not read a file"),
        ({"source": "csv", "input": "people.csv", "state": "NY"}, "source 'csv' has no states"),
    ],
)
def test_two_sources_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ReleaseConfig.build(**given)


@pytest.mark.parametrize("kind", [ReleaseConfig, AuditConfig])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"title": "x" * 201}, "'report.title' has 201 characters, but it must have 1 to 200"),
        ({"agency": "  "}, "'report.agency' has 0 characters"),
        ({"contact": "a@b.org\n# A heading"}, "'report.contact' contains a line break"),
        ({"title": "left\u202eright"}, "'report.title' contains a line break or another control"),
        ({"title": 2026}, "setting 'report.title' is 2026, but"),
        ({"name": "x"}, "unknown setting 'report.name'; the settings are agency, contact, title"),
        ("a title", "setting 'report' is 'a title', but"),
    ],
)
def test_a_page_s_texts_are_checked(kind: Any, given: Any, sentence: str) -> None:
    with pytest.raises(InputError) as told:
        kind.build(report=given)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)
    assert kind.build(report={"title": " <Dogs & cats> "}).report.title == "<Dogs & cats>"


def test_options_complete_the_texts_of_a_file_and_do_not_change_what_is_released(tmp_path) -> None:
    path = tmp_path / "release.yaml"
    path.write_text("report: {title: Dogs, agency: Kennel club}\n")
    config = ReleaseConfig.load(path, report={"title": "Cats", "contact": "a@b.org"})
    assert config.report.model_dump() == {"title": "Cats", "agency": "Kennel club", "contact": "a@b.org"}
    assert config.digest == ReleaseConfig.build().digest  # a title may be corrected before a release is resumed


@pytest.mark.parametrize("setting", ["state", "columns", "strata", "means"])
def test_a_list_names_nothing_twice(setting):
    """If a state was in the list twice, each person was included twice in the data."""
    with pytest.raises(InputError, match=f"setting '{setting}': 'WY' is given twice, so it would count twice"):
        ReleaseConfig.build(**{setting: "WY,VT,WY", "source": "folktables"})
    assert ReleaseConfig.build(unit_sizes="0.5,0.5").unit_sizes == ("0.5", "0.5")
