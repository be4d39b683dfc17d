"""Descriptions of a release without its rows: a DDI code book, and an OpenLineage event."""

import json
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree

import pytest
import yaml
from in_process import command

from equistrata.analysis.interchange.ddi import ddi_codebook
from equistrata.analysis.interchange.exports import export
from equistrata.analysis.interchange.lineage import openlineage_event
from equistrata.analysis.release import Release
from equistrata.data.drafting.books import read_book
from equistrata.data.drafting.doubt import decide_declaration
from equistrata.data.schema import Schema
from equistrata.errors import InputError

# Each column as it is declared, and the released column as a draft from the code book declares it.
DATES = {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"}
NUMBERS = {"type": "number", "lower": 0, "upper": 9000}
SAME = {
    "SEX": {"label": "Sex & <gender>", "type": "nominal", "values": [1, 2], "labels": {1: "men", 2: "women"}},
    "AREA": {"type": "ordinal", "values": ["01", "02", "none"]},
    "SCORE": {"type": "nominal", "values": ["0.5", "1.0"]},
    "PAY": {"label": "Pay", **NUMBERS, "integer": True, "codes": {"N": "not asked", -9: "refused"}},
    "RATE": {**NUMBERS, "decimals": 2, "missing": "own"},
    "RAW": {**NUMBERS, "upper": 0.5},
    "VISIT": {"label": "Visit", **DATES, "format": "%Y-%m-%d", "codes": {"U": "unknown"}},
    "SEEN": {**DATES, "format": "%d.%m.%Y", "missing": "own"},
}
BINS = {"lower": 0, "upper": 99, "edges": [0, 17, 99]}
OTHERS = {
    "AGE": ({**BINS, "release": "index"}, {"type": "ordinal", "values": [0, 1]}),
    "DRAWN": ({**BINS, "release": "draw", "integer": True}, {"type": "number", "lower": 0, "upper": 99}),
    "W": ({"lower": 0, "upper": 30.5, "weight": True}, {"type": "number", "lower": 0, "upper": 30.5}),
}
# The order of elements in the schema of DDI-Codebook 2.5, as far as they are used here.
ORDER = {
    "codeBook": "stdyDscr fileDscr dataDscr", "stdyDscr": "citation stdyInfo method notes",
    "citation": "titlStmt prodStmt distStmt", "titlStmt": "titl IDNo", "prodStmt": "producer prodDate software",
    "distStmt": "contact", "stdyInfo": "abstract sumDscr", "sumDscr": "anlyUnit universe dataKind",
    "method": "dataProcessing", "fileDscr": "fileTxt", "fileTxt": "fileName dimensns fileType",
    "dimensns": "caseQnty varQnty", "dataDscr": "var", "var": "labl valrng catgry derivation varFormat",
    "valrng": "range", "catgry": "catValu labl", "derivation": "drvdesc",
}  # fmt: skip
CARD = {
    "name": "MST", "created": "2026-11-29T10:30:34+00:00", "software": "equistrata 0.1.0", "rows": 1234,
    "private": True,
    "source": "file 'p.csv'", "mechanism": "MST", "not_covered": "the schema is public",
    "report": {"title": "People", "agency": "An \x00agency", "contact": "a@b.org"},
    "guarantee": {"epsilon": 1.0, "delta": 1e-9, "rho": 0.01, "unit": "one row", "relation": "add-remove"},
}  # fmt: skip


@dataclass(frozen=True)
class ColumnDescription:
    """What a description asks of a release."""

    schema: Schema
    card: dict
    manifest: str = "ab" * 32
    folder: Path = Path("a-release")


def described(**card):
    weight = OTHERS["W"][0]
    columns = SAME | {name: declared for name, (declared, _) in OTHERS.items() if name != "W"}
    columns = {**columns, "SCORE": {"values": [0.5, 1.0]}}
    spec = {"columns": columns, "survey_weight": {"column": "W", "upper": weight["upper"]}}
    return ColumnDescription(Schema.from_dict(spec, "people"), CARD | card)


def test_a_ddi_code_book_is_read_back_as_the_released_columns(tmp_path):
    export(described(), tmp_path / "x.xml")
    book = read_book(tmp_path / "x.xml").columns
    drafts = {name: decide_declaration(column) for name, column in book.items()}
    assert {name: drafts[name].why for name in drafts if drafts[name].why} == {}
    assert {name: drafts[name].spec for name in SAME} == SAME
    for name, (_, expected) in OTHERS.items():
        assert drafts[name].spec.items() >= expected.items(), name
    assert drafts["AGE"].spec["labels"] == {0: "0 to 17", 1: "over 17 to 99"}
    assert drafts["DRAWN"].spec["integer"] is True


def test_a_ddi_code_book_has_the_published_structure():
    """The documents of four releases were valid by the published XML Schema (November 2026)."""
    root = ElementTree.fromstring(ddi_codebook(described()))
    assert root.tag == "{ddi:codebook:2_5}codeBook"
    for each in root.iter():
        order = ORDER.get(each.tag.rpartition("}")[2], "").split()
        places = [order.index(child.tag.rpartition("}")[2]) for child in each]
        assert places == sorted(places), each.tag
    texts = {each.tag.rpartition("}")[2]: each.text for each in root.iter()}
    assert (texts["titl"], texts["producer"], texts["caseQnty"]) == ("People", "An agency", "1234")
    assert texts["drvdesc"] == "Drawn from these bins: 0 to 17; over 17 to 99"
    assert "ε = 1, δ = 1e-09" in texts["notes"]
    (weight,) = root.findall(".//*[@wgt='wgt']")
    assert weight.get("name") == "W"
    assert "not private" in ddi_codebook(described(private=False))


def test_the_command_writes_a_code_book_that_drafts_every_column(folder, tmp_path, monkeypatch, capsys):
    book, draft = tmp_path / "x.xml", tmp_path / "draft.yaml"
    assert command(monkeypatch, capsys, "export", folder, book)[0] == 0
    options = ("--codebook", book, "--output", draft)
    assert command(monkeypatch, capsys, "schema", "draft", folder / "synthetic.csv", *options)[0] == 0
    columns = yaml.safe_load(draft.read_text("utf-8"))["columns"]
    drafted = Schema.from_dict({"columns": columns}, "s")
    for column in Release.open(folder).schema.published:
        words = [column.words(key) for key in column.keys]
        assert [drafted[column.name].words(key) for key in drafted[column.name].keys] == words


def test_an_event_names_what_the_card_publishes(folder, tmp_path, monkeypatch, capsys):
    file = tmp_path / "event.json"
    assert command(monkeypatch, capsys, "export", folder, file)[0] == 0
    event, release = json.loads(file.read_text("utf-8")), Release.open(folder)
    assert event == openlineage_event(release)
    assert event.keys() == {"eventType", "eventTime", "producer", "schemaURL", "run", "job", "inputs", "outputs"}
    assert (event["eventType"], event["eventTime"]) == ("COMPLETE", release.card["created"])
    assert event["inputs"] == [{"namespace": "equistrata", "name": release.card["source"]}]
    (output,) = event["outputs"]
    fields = output["facets"]["schema"]["fields"]
    assert [field["name"] for field in fields] == [column.name for column in release.schema.published]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == release.card["rows"]
    for facet in (*output["facets"].values(), *output["outputFacets"].values()):
        assert facet["_producer"] == event["producer"]
        assert facet["_schemaURL"].startswith("https://openlineage.io/spec/facets/")
    assert str(folder.parent) not in file.read_text("utf-8")


def test_the_run_of_an_event_is_that_of_the_release_in_the_ledger():
    def run(release):
        return str(UUID(openlineage_event(release)["run"]["runId"]))

    charged = described(ledger={"ledger": "abc", "release_id": "2026-11", "dataset": "people"})
    other = described(ledger={"ledger": "abc", "release_id": "2026-12", "dataset": "people"})
    assert openlineage_event(charged)["inputs"] == [{"namespace": "equistrata", "name": "people"}]
    assert run(charged) == run(replace(charged, manifest="cd" * 32)) != run(other)
    assert run(described()) == run(described()) != run(replace(described(), manifest="cd" * 32))


@pytest.mark.skipif(find_spec("openlineage") is None, reason="openlineage-python is not installed")
def test_facets_are_of_the_versions_that_the_client_writes():
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        documentation_dataset,
        output_statistics_output_dataset,
        schema_dataset,
    )

    (output,) = openlineage_event(described())["outputs"]
    known = {
        "schema": schema_dataset.SchemaDatasetFacet,
        "version": dataset_version_dataset.DatasetVersionDatasetFacet,
        "documentation": documentation_dataset.DocumentationDatasetFacet,
        "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    }
    facets = output["facets"] | output["outputFacets"]
    assert {name: facet["_schemaURL"] for name, facet in facets.items()} == {
        name: kind._get_schema() for name, kind in known.items()
    }


@pytest.mark.parametrize("ending", [".xml", ".json"])
def test_a_card_of_an_early_version_is_a_sentence(tmp_path, ending):
    release = described()
    del release.card["software"]
    with pytest.raises(InputError, match=r"card.json of 'a-release' has no 'software'; export .dta"):
        export(release, tmp_path / f"x{ending}")
    assert list(tmp_path.iterdir()) == []
