"""Tests of the metadata of a release: the entry for the registry and the Croissant file in JSON-LD."""

import hashlib
import json
import shutil

import pytest
import yaml
from in_process import command
from jsonschema import Draft202012Validator
from plain_release import release

from equistrata.analysis.interchange.metadata import TO_FILL, data_type
from equistrata.data.schema import Schema
from equistrata.data.sources import read_frame

# The fields of the registry's schema of November 2026. A required field ends with "!".
FIELDS = {
    "basic": "name! data_curators! description! intended_use! data_product_type! data_product_region! "
    "publication_date! data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details data_source_type "
    "data_source_type_details access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors!",
}
LICENSE = "https://creativecommons.org/licenses/by/4.0/"
DATES = {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"}
LISTS = {"data_curators", "registry_authors"}
CHOICES = {
    "data_product_type": [
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries",
    ],
    "variant_name": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"],
    "data_product_sector": ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"],
    "model_name": ["Local", "Central", "Shuffle", "Federated", "Varies"],
    "release_type": ["One release", "Many releases"],
    "data_source_type": ["Static", "Dynamic"],
    "access_type": ["Interactive", "Non-interactive"],
}  # fmt: skip


def registry_schema():
    def field(name):
        if name == "privacy_parameters":
            numbers = {each: {"type": "number"} for each in ("epsilon", "delta", "rho")}
            return {"type": "object", "additionalProperties": False, "properties": numbers}
        if name in LISTS:
            return {"type": "array", "items": {"type": "string"}, "minItems": 1}
        return {"enum": CHOICES[name]} if name in CHOICES else {"type": "string"}

    def part(names):
        return {
            "type": "object",
            "additionalProperties": False,
            "required": [name.rstrip("!") for name in names.split() if name.endswith("!")],
            "properties": {name.rstrip("!"): field(name.rstrip("!")) for name in names.split()},
        }

    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["url_slug", "status", "tier", "deployment"],
        "properties": {
            "url_slug": {"type": "string"},
            "status": {"enum": ["Draft"]},
            "tier": {"enum": [1, 2, 3]},
            "deployment": {
                "type": "object",
                "additionalProperties": False,
                "required": ["basic"],
                "properties": {name: part(names) for name, names in FIELDS.items()},
            },
        },
    }


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return the folder of a release with secure noise and the name of an agency."""
    folder = tmp_path_factory.mktemp("metadata") / "honest"
    release({"evaluate": "none", "output": str(folder), "report": {"agency": "An agency: its name", "title": "People"}})
    return folder


def test_an_honest_release_is_described_for_registry_and_catalogue(honest, tmp_path, monkeypatch, capsys):
    files = tmp_path / "entry.yaml", tmp_path / "croissant.json", tmp_path / "dcat.json"
    options = ("--registry", files[0], "--croissant", files[1], "--dcat", files[2], "--license", LICENSE)
    assert command(monkeypatch, capsys, "verify", honest, *options)[0] == 0
    card = json.loads((honest / "card.json").read_text("utf-8"))

    entry = yaml.safe_load(files[0].read_text("utf-8"))
    assert [error.message for error in Draft202012Validator(registry_schema()).iter_errors(entry)] == []
    parts = entry["deployment"]
    assert parts["basic"]["data_curators"] == ["An agency: its name"]
    assert parts["basic"]["name"] == "People"
    assert entry["url_slug"] == f"people-an-agency-its-name-{card['created'][:4]}"
    assert parts["privacy_loss"]["privacy_parameters"] == {
        name: card["guarantee"][name] for name in ("epsilon", "delta", "rho")
    }
    assert TO_FILL in parts["basic"]["intended_use"]
    assert all(fields for fields in parts.values())

    described = json.loads(files[1].read_text("utf-8"))
    columns = read_frame(honest / "synthetic.parquet").columns
    rows, *categories = described["recordSet"]
    assert [field["name"] for field in rows["field"]] == list(columns)
    for file in described["distribution"]:
        content = (honest / file["contentUrl"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
        assert file["contentSize"] == f"{len(content)} B"
    sources = {file["@id"] for file in described["distribution"]}
    assert {field["source"]["fileObject"]["@id"] for field in rows["field"]} <= sources
    assert described["creator"]["name"] == "An agency: its name"
    assert described["license"] == LICENSE
    assert {each["key"]["@id"] for each in categories} == {
        field["references"]["field"]["@id"] for field in rows["field"] if "references" in field
    }
    assert TO_FILL not in files[1].read_text("utf-8")

    catalogued = json.loads(files[2].read_text("utf-8"))
    assert (catalogued["@type"], catalogued["dct:title"]) == ("dcat:Dataset", "People")
    assert {file["dct:title"] for file in catalogued["dcat:distribution"]} == sources
    for file in catalogued["dcat:distribution"]:
        content = (honest / file["dcat:accessURL"]["@id"]).read_bytes()
        assert file["spdx:checksum"]["spdx:checksumValue"]["@value"] == hashlib.sha256(content).hexdigest()
        assert file["dcat:byteSize"]["@value"] == str(len(content))
    assert catalogued["dct:license"] == {"@id": LICENSE}
    prefixes = {key.partition(":")[0] for key in catalogued if not key.startswith("@")}
    assert prefixes <= catalogued["@context"].keys()
    assert catalogued["dct:publisher"]["foaf:name"] == "An agency: its name"

    before = files[0].read_bytes()
    code, _, said = command(monkeypatch, capsys, "verify", honest, "--registry", files[0])
    assert (code, files[0].read_bytes()) == (2, before)
    assert "exists already" in said


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of mlcroissant's own dependencies
def test_the_catalogue_metadata_are_valid_and_load_the_rows(honest, tmp_path, monkeypatch, capsys, caplog):
    reason = "mlcroissant is not installed, which is the validator of Croissant"
    mlcroissant = pytest.importorskip("mlcroissant", reason=reason)
    shutil.copytree(honest, copy := tmp_path / "copy")
    options = ("--croissant", copy / "c.json", "--license", LICENSE)
    assert command(monkeypatch, capsys, "verify", honest, *options)[0] == 0
    data = mlcroissant.Dataset(jsonld=str(copy / "c.json"))
    assert data.metadata.ctx.issues.report() == ""
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []
    rows = read_frame(honest / "synthetic.parquet")
    loaded = [{name.removeprefix("rows/"): cell for name, cell in row.items()} for row in data.records("rows")]
    assert loaded == rows.to_dict("records")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"values": [1, 2]}, "Integer"), ({"values": [0.5, 1]}, "Float"), ({"values": ["1", "b"]}, "Text"),
        ({"lower": 0, "upper": 9, "integer": True, "codes": {-1: "no"}}, "Integer"),
        ({"lower": 0, "upper": 9, "codes": {-1: "no"}}, "Float"),
        ({"lower": 0, "upper": 9, "codes": {"N": "no"}}, "Text"),
        ({"lower": 0, "upper": 9, "integer": True, "edges": [0, 4, 9], "release": "midpoint"}, "Float"),
        ({"lower": 0.5, "upper": 9, "edges": [0.5, 4, 9], "release": "index"}, "Integer"),
        ({**DATES}, "Date"), ({**DATES, "codes": {"U": "unknown"}}, "Text"), ({**DATES, "format": "%d.%m.%Y"}, "Text"),
    ],
)  # fmt: skip
def test_types_are_those_of_the_released_cells(said, kind):
    (column,) = Schema.from_dict({"columns": {"X": said}}, "s").published
    assert data_type(column) == f"sc:{kind}"


def test_a_release_that_does_not_verify_is_not_described(folder, tmp_path, monkeypatch, capsys):
    """The release is not private because its noise has a seed."""
    code, _, said = command(monkeypatch, capsys, "verify", folder, "--registry", tmp_path / "entry.yaml")
    assert code == 2
    assert "not private" in said
    assert not list(tmp_path.iterdir())
