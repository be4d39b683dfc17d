"""Tests of the audit flow and its command without an orchestrator."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from audits import audit
from in_process import command
from jsonschema import Draft202012Validator
from made_up_people import PEOPLE_SCHEMA, made_up_people
from plain_release import release

import equistrata.flows.audit.flow
from equistrata.data.sources import FileSource
from equistrata.data.texts.manifest import write_manifest
from equistrata.errors import InputError
from equistrata.eval.report.page import SCHEMA
from equistrata.flows.audit import pdf
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.audit.expected import expected_audit
from equistrata.flows.audit.plan import AuditPlan
from equistrata.flows.cli.audit import report_audit
from equistrata.flows.config.audit import AuditConfig, from_release_config
from equistrata.flows.publication.addition import held
from equistrata.flows.publication.publish import publish_release
from equistrata.flows.run.guard import StepFailed
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import BudgetExceeded, Rho
from equistrata.privacy.ledger.ledger import Ledger, LedgerError
from equistrata.privacy.noise import SeededNoise

WATERMARK = "internal: computed from private rows"
PRICE = Rho.from_epsilon_delta(1, 1e-9)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder that contains a table, the schema, a ledger and three releases.

    Only two of the releases are charged.
    """
    home = tmp_path_factory.mktemp("made")
    made_up_people(6137).to_csv(home / "people.csv", index=False)
    (home / "people.yaml").write_text(PEOPLE_SCHEMA.replace("[1, 2]", "[1, 2], labels: {1: men, 2: women}"))
    Ledger(home / "ledger.db").create("people", 10, 1e-9)
    rows = {"source": "csv", "input": str(home / "people.csv"), "schema": str(home / "people.yaml"), "workers": 1}
    charged = {"ledger": str(home / "ledger.db"), "dataset": "people"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUISTRATA_STATE", str(home / "state"))
        patch.delenv("EQUISTRATA_LEDGER_URL", raising=False)
        release(rows | {"strata": "SEX", "evaluate": "none", "output": str(home / "free"), "release_id": "free"})
        patch.setattr(
            "equistrata.flows.release.flow.noise_source", lambda seed: SeededNoise(3)
        )  # a charged release takes no seed
        patch.setattr(
            "equistrata.flows.release.steps.streams.generator", lambda plan, stream: np.random.default_rng([3, stream])
        )
        for name, settings in (
            ("stratified", {"strata": "SEX,GROUP", "means": "PAY", "evaluate": "none"}),
            ("vanilla", {"evaluate": "none"}),
        ):
            release(rows | settings | charged | {"output": str(home / name), "release_id": name})
    return home


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """Return a copy of the folder with its own state folder, because only one copy of a ledger may be charged."""
    home = tmp_path / "home"
    shutil.copytree(made, home)
    monkeypatch.setenv("EQUISTRATA_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(home)
    monkeypatch.delenv("EQUISTRATA_LEDGER_URL", raising=False)
    return home


def document_of(folder):
    (path,) = folder.glob("*audit.json")
    document = json.loads(path.read_text("utf-8"))
    schema = json.loads((folder / "audit.schema.json").read_text("utf-8"))
    assert schema == json.loads(SCHEMA.read_text("utf-8"))
    assert list(Draft202012Validator(schema).iter_errors(document)) == []
    return document


def texts(folder):
    return "\n".join(path.read_text("utf-8") for path in folder.rglob("*") if path.is_file())


def test_an_internal_audit_of_one_release(place):
    folder, shown = audit("stratified", ledger="ledger.db")
    assert folder == Path("stratified.internal/audit")
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    document = document_of(folder)
    assert (document["mode"], document["warning"]) == ("internal", WATERMARK)
    assert WATERMARK in (folder / "internal-audit.html").read_text("utf-8")
    frame = pd.read_csv("people.csv")
    (entry,) = document["releases"]
    sizes = frame.groupby(["SEX", "GROUP"]).size()
    assert entry["audit"]["sizes"] == {f"SEX={s},GROUP={g}": sizes[s, g] for s in (1, 2) for g in "abc"}
    means = entry["audit"]["means"]
    assert {name.split(" (")[0] for name in means} == {"PAY"}
    for of in means.values():
        assert of["all"]["exact"] == pytest.approx(frame["PAY"].mean())
    assert document["ledger"]["dataset"] == "people"
    assert [charge["release"] for charge in document["ledger"]["charges"]] == ["stratified", "vanilla"]
    ((text, about),) = shown  # the path of the page, without any number of the audit
    assert "stratified.internal/audit" in text
    assert about["key"] == "internal-audit"
    assert not set("0123456789") & set(text)
    assert Ledger("ledger.db").charges("people", "stratified")[0].outcome == "committed"
    assert len(Ledger("ledger.db").charges("people")) == 2


def test_means_of_a_column_whose_name_has_brackets_are_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = made_up_people(600).rename(columns={"PAY": "PAY (gross)"})
    frame.to_csv("people.csv", index=False)
    Path("people.yaml").write_text(PEOPLE_SCHEMA.replace("PAY:", "PAY (gross):"))
    rows = {"source": "csv", "input": "people.csv", "schema": "people.yaml", "seed": 1, "evaluate": "none"}
    release(rows | {"strata": "SEX", "means": "PAY (gross)", "columns": "SEX,JOB", "output": "out"}, served=False)
    folder, _ = audit("out")
    means = document_of(folder)["releases"][0]["audit"]["means"]
    assert means
    for name, of in means.items():
        assert name.startswith("PAY (gross) (")
        assert of["all"]["exact"] == pytest.approx(frame["PAY (gross)"].mean())


def test_a_public_audit_of_two_releases_is_charged_once(place):
    folder, shown = audit("stratified", "vanilla", mode="public", ledger="ledger.db", delta=1e-9, output="out/compared")
    document = document_of(folder)
    assert document["mode"] == "public"
    assert [entry["name"] for entry in document["releases"]] == ["MST_SEX_GROUP", "MST_vanilla"]
    assert document["strata"]["columns"] == ["SEX", "GROUP"]
    assert document["price"]["rho"] == float(PRICE)
    assert document["price"]["private"] is True
    (charge,) = (c for c in Ledger("ledger.db").charges("people") if c.entry.release_id.startswith("audit-"))
    assert charge.entry.release_id == document["price"]["charged_as"]
    assert charge.entry.rho == PRICE
    assert charge.outcome == "committed"
    spent = sum(
        entry["audit"]["charges"][s] for entry in document["releases"] for s in ("calibration", "rates", "workload")
    )
    spent += sum(document["releases"][0]["audit"]["charges"][section] for section in ("sizes", "means"))
    assert spent == pytest.approx(float(PRICE))  # sizes and means are measured once for both
    assert document["releases"][0]["audit"]["means"] == document["releases"][1]["audit"]["means"]
    assert document["ledger"]["charges"][-1]["outcome"] == "this audit"
    assert set(document["ledger"]["mine"]) == {"stratified", "vanilla", charge.entry.release_id}
    ((text, about),) = shown
    assert text == (folder / "audit.md").read_text("utf-8")
    assert about["key"] == "public-audit"
    assert "## Side by side" in text
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.slow
def test_no_exact_number_of_the_rows_is_in_a_public_audit(place, monkeypatch):
    """Search every exact number of the internal audit in the files of the public audit, to eight digits.

    The seed is fixed. The probability of a chance hit is about 10⁻³ over all numbers.
    """
    inside, _ = audit("stratified", "vanilla", output="inside")
    monkeypatch.setattr(audit_steps, "noise_source", lambda seed: SeededNoise(0))
    outside, _ = audit("stratified", "vanilla", mode="public", ledger="ledger.db", output="outside")
    synthetic = json.dumps([entry["synthetic"] for entry in document_of(inside)["releases"]])

    def exact(tree):
        if isinstance(tree, dict):
            for name, branch in tree.items():
                yield from () if name == "synthetic" else exact(branch)
        elif isinstance(tree, list):
            for branch in tree:
                yield from exact(branch)
        elif isinstance(tree, float):
            yield tree

    entries = document_of(inside)["releases"]
    numbers = [x for entry in entries for part in ("audit", "served", "errors") for x in exact(entry[part])]

    def rare(x):
        """Return True if the value is not a ratio of small integers, such as 5/11, which may also be a ratio of noisy
        counts.
        """
        return abs(float(Fraction(x).limit_denominator(500)) - x) > 1e-7

    canaries = {
        text for x in numbers if rare(x) and len(text := f"{x:.10f}"[:10].rstrip("0")) == 10 and text not in synthetic
    }
    assert len(canaries) > 50
    text = texts(outside)
    assert 'class="chart"' in text  # charts are searched as well
    assert [canary for canary in canaries if canary in text] == []
    assert sum(canary in texts(inside) for canary in canaries) > 50
    assert "PAY" not in document_of(outside)["columns"]
    assert "people.csv" not in [path.name for path in outside.rglob("*")]


def test_a_public_audit_without_a_ledger_says_so(place):
    folder, _ = audit("free", mode="public", epsilon=0.5, delta=1e-6)
    assert folder == Path("free/audit")
    document = document_of(folder)
    assert (document["price"]["epsilon"], document["price"]["delta"]) == (0.5, 1e-6)
    assert document["price"]["charged_as"] == ""
    assert document["ledger"] is None
    assert any("No ledger was charged" in caveat for caveat in document["verdict"]["caveats"])
    audit("free", mode="internal", output="after")  # an added audit is no edit of the release


def manifest_of(folder):
    return json.loads((Path(folder) / "manifest.json").read_text())["files"]


def card_of(folder):
    return json.loads((Path(folder) / "card.json").read_text("utf-8"))


def test_the_card_of_a_release_with_public_audits_has_the_price_of_all(place):
    """The total is the sum of the price of the release and the prices of both audits."""
    own = card_of("free")["guarantee"]
    one, _ = audit("free", mode="public", epsilon=0.5, delta=1e-6)
    two, _ = audit("free", mode="public", output="free/again")
    assert (one, two) == (Path("free/audit"), Path("free/again"))
    card, price = card_of("free"), Rho.from_epsilon_delta(0.5, 1e-6)
    total = Rho(own["rho"]) + price + PRICE
    assert card["guarantee"]["rho"] == pytest.approx(float(total), rel=1e-15)
    assert total.epsilon(1e-9) <= card["guarantee"]["epsilon"] < 1.0002 * total.epsilon(1e-9)
    assert [each["folder"] for each in card["audits"]] == ["audit", "again"]
    files = manifest_of("free")
    assert {f"{name}/{file}" for name in ("audit", "again") for file in ("audit.html", "audit.json")} <= set(files)
    before, after = document_of(one), document_of(two)
    assert before["price"]["together"] == pytest.approx((Rho(own["rho"]) + price).epsilon(1e-6))
    assert after["price"]["together"] == pytest.approx(total.epsilon(1e-9))
    assert after["releases"][0]["rho"] == own["rho"], "the report tells the release's own price"
    assert "Together, the release and this audit cost at most" in before["verdict"]["opening"][1]
    assert "Together, the release, 1 earlier audit in its folder and this audit cost" in after["verdict"]["opening"][1]


def test_a_release_named_in_two_ways_is_one_release(place):
    with pytest.raises(InputError, match="twice"):
        expected_audit(AuditConfig.build(releases=["vanilla", "./vanilla"]))
    with pytest.raises(InputError, match="twice"):
        AuditPlan.of(AuditConfig.build(releases=["vanilla", "./vanilla"], input="people.csv"))


def test_a_comparison_in_a_release_pays_for_the_other_release_too(place):
    audit("vanilla", "stratified", mode="public", ledger="ledger.db")
    card, other = card_of("vanilla"), card_of("stratified")
    assert card["guarantee"]["rho"] == pytest.approx(3 * float(PRICE))
    (listed,) = card["audits"]
    assert (listed["folder"], listed["compared"][0]["name"]) == ("comparison", other["name"])
    assert listed["charged_as"].startswith("audit-")
    assert card["private"] is False
    assert "audits" not in other
    plan = AuditPlan.of(AuditConfig.build(releases=["vanilla", "stratified"], input="people.csv"))
    assert float(plan.together) == pytest.approx(3 * float(PRICE)), "both releases and one comparison"


def test_an_audit_that_would_spoil_a_private_release_is_refused(place):
    before = sorted(place.rglob("*"))
    for releases, settings in ((["free"], {"seed": 1}), (["free", "free-seeded"], {})):
        if len(releases) > 1:
            shutil.copytree("free", "free-seeded")
            card = card_of("free-seeded") | {"private": False}
            Path("free-seeded/card.json").write_text(json.dumps(card))
            Path("free-seeded/synthetic.csv").write_text("other rows\n")
            Path("free-seeded/manifest.json").unlink()
            write_manifest(Path("free-seeded"))
        with pytest.raises(InputError, match="is seeded and therefore not private"):
            audit(*releases, mode="public", **settings)
    shutil.rmtree("free-seeded")
    assert sorted(place.rglob("*")) == before
    assert (
        AuditPlan.of(AuditConfig.build(releases=["free"], input="people.csv", mode="public", seed=1, output="x")).host
        is None
    )


@pytest.mark.parametrize("output", ["vanilla/inside", "vanilla/internal/audit", "free/inside", "link/inside"])
def test_an_internal_audit_does_not_lie_in_a_release(place, output):
    Path("link").symlink_to("vanilla")
    with pytest.raises(InputError, match=r"contains exact numbers, and .* is in release .*; leave out --output"):
        audit("vanilla", output=output)
    assert not Path(output).exists()


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("free/inside", "which is not one of the audited releases"),
        ("vanilla/deep/inside", "is too deep inside the release"),
        ("vanilla/.hidden", "is too deep inside the release"),
        ("vanilla/internal", "is too deep inside the release"),
        ("vanilla/means.json", "is too deep inside the release"),
        ("vanilla/measurements", "exists already"),
    ],
)
def test_a_place_in_a_release_that_is_none_for_a_public_audit(place, output, sentence):
    with pytest.raises(InputError, match=sentence):
        audit("vanilla", mode="public", ledger="ledger.db", output=output)
    assert len(Ledger("ledger.db").charges("people")) == 2


def test_a_release_that_cannot_take_an_audit_up_is_told_before_a_charge(place, monkeypatch):
    monkeypatch.setattr("equistrata.flows.publication.addition.PATIENCE", 0.1)
    public = {"mode": "public", "ledger": "ledger.db"}
    with held(Path("vanilla")), pytest.raises(InputError, match="held by another process"):
        audit("vanilla", **public)
    card = card_of("vanilla")
    del card["guarantee"]["composition"]
    Path("vanilla/card.json").write_text(json.dumps(card))
    Path("vanilla/manifest.json").unlink()
    write_manifest(Path("vanilla"))
    with pytest.raises(InputError, match="the card of release 'vanilla' was made by another version"):
        audit("vanilla", **public)
    assert len(Ledger("ledger.db").charges("people")) == 2
    audit("vanilla", **public, output="elsewhere")


def test_a_second_audit_gets_a_name_of_its_own(place):
    def output(release, **settings):
        return AuditPlan.of(AuditConfig.build(releases=[release], **{"input": "people.csv"} | settings)).output

    for name in ("free.internal/audit", "free/audit"):
        Path(name).mkdir(parents=True)
    assert output("free") == Path("free.internal/audit-2")
    assert output("free", mode="public") == Path("free/audit-2")
    os.chdir("free")
    assert output(".", input="../people.csv").resolve() == place / "free.internal" / "audit-2"


@pytest.mark.parametrize("terminal", [True, False])
def test_an_exact_verdict_is_printed_to_a_terminal_only(place, monkeypatch, capsys, terminal):
    folder, _ = audit("vanilla")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    report_audit(folder)
    told = " ".join(capsys.readouterr().out.split())
    verdict = " ".join(document_of(folder)["verdict"]["releases"]["MST_vanilla"][0].split())
    assert (verdict in told) is terminal
    assert "vanilla.internal/audit/internal-audit.html" in told


def test_a_published_zip_holds_no_exact_number(made, tmp_path, monkeypatch):
    """Search the exact numbers of the scores and of both audits in the files of a published release, to eight digits.

    The probability of a chance hit is about 10⁻⁴.
    """
    monkeypatch.chdir(tmp_path)
    settings = {"source": "csv", "input": str(made / "people.csv"), "schema": str(made / "people.yaml"), "workers": 1}
    release(settings | {"strata": "SEX", "evaluate": "full", "means": "PAY", "output": "out"})
    rows = {"input": settings["input"]}
    inside, _ = audit("out", **rows)
    audit("out", **rows, mode="public", epsilon=0.5)
    with zipfile.ZipFile("whole.zip", "w") as whole:  # the owner packs the folder by hand
        for path in Path("out").rglob("*"):
            whole.write(path)
    publish_release(Path("out"), Path("published.zip"))
    documents = [
        json.loads(Path(name).read_text()) for name in ("out.internal/scores.json", inside / "internal-audit.json")
    ]
    price = {f"{documents[1]['releases'][0][name]:.10f}"[:10] for name in ("epsilon", "rho", "delta")}
    rare = (x for x in floats(documents) if abs(float(Fraction(x).limit_denominator(2000)) - x) > 1e-9)
    canaries = {f"{x:.10f}"[:10] for x in rare} - price
    files = [path for path in Path("out").rglob("*") if path.is_file()]
    assert {path.relative_to("out").as_posix() for path in files} == {*manifest_of("out"), "manifest.json"}
    text = "\n".join(path.read_text("latin-1") for path in files)
    noisy = [json.loads(Path(f"out/{name}.json").read_text()) for name in ("means", "card")]
    shown = floats([noisy[0], noisy[1]["relations"]["expected"]])  # these noisy numbers may equal exact ones
    published = {f"{x:.10f}"[:10] for x in shown}
    assert [canary for canary in canaries - published if canary in text] == []
    assert len(canaries - published) > 50
    for name in ("whole.zip", "published.zip"):
        with zipfile.ZipFile(name) as archive:
            assert not [each for each in archive.namelist() if "internal" in each or "scores" in each]
    with zipfile.ZipFile("published.zip") as archive:
        assert sorted(archive.namelist()) == sorted([*manifest_of("out"), "manifest.json"])
        card = json.loads(archive.read("card.json"))
        audits = [json.loads(archive.read(name)) for name in archive.namelist() if name.endswith("audit.json")]
    own = Rho.from_epsilon_delta(1, 1e-9)
    total = own + sum((Rho(each["price"]["rho"]) for each in audits), start=Rho(0))
    assert len(audits) == 1
    assert card["guarantee"]["rho"] == pytest.approx(float(total), rel=1e-15)


def floats(tree):
    """Return all numbers of a document, except those of synthetic rows."""
    if isinstance(tree, dict | list):
        branches = [tree[name] for name in tree if name != "synthetic"] if isinstance(tree, dict) else tree
        yield from (number for branch in branches for number in floats(branch))
    if isinstance(tree, float):
        yield tree


def test_a_failing_audit_stays_charged_and_leaves_nothing(place):
    failing = mock.patch.object(audit_steps, "write_report", side_effect=ValueError("a cell: 731924.6481"))
    with failing, pytest.raises(StepFailed) as caught:
        audit("vanilla", mode="public", ledger="ledger.db")
    assert "731924" not in str(caught.value)
    (charge,) = (c for c in Ledger("ledger.db").charges("people") if c.entry.release_id.startswith("audit-"))
    assert charge.outcome == "failed"
    assert not Path("vanilla/audit").exists()


@pytest.mark.parametrize("mode", ["internal", "public"])
def test_a_report_that_cannot_be_put_in_its_place_leaves_nothing(place, mode):
    ledger = {"ledger": "ledger.db"} if mode == "public" else {}
    full = mock.patch("equistrata.flows.run.landing.sync_tree", side_effect=OSError(errno.ENOSPC, "no space left"))
    with full, pytest.raises(InputError, match="disk full: no space is left on the disk of"):
        audit("vanilla", mode=mode, output="out/report", **ledger)
    assert not Path("out").exists()


KILLED = """
import os
from pathlib import Path

import equistrata.flows.run.landing
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.config.audit import AuditConfig
from equistrata.flows.audit.plan import AuditPlan
from equistrata.flows.run.workspace import private_workspace

equistrata.flows.run.landing.sync_tree = lambda folder: os._exit(9)  # no handler, no `finally`: as by kill -9
plan = AuditPlan.of(AuditConfig.build(releases=["vanilla"], input="people.csv"))
with private_workspace() as work:
    work.staging.mkdir()
    (work.staging / "page.html").write_text("exact")
    audit_steps.deliver(plan, work)
"""


def test_the_next_audit_removes_the_half_copied_report_of_a_killed_one(place, monkeypatch):
    (place / "tmp").mkdir()
    program = [sys.executable, "-c", KILLED]
    killed = subprocess.run(program, env=os.environ | {"TMPDIR": "tmp"}, capture_output=True, text=True, check=False)
    assert killed.returncode == 9, killed.stderr
    half = place / "vanilla.internal" / ".audit.part"
    assert [path.read_text() for path in half.rglob("page.html")] == ["exact"]
    assert stat.S_IMODE(half.stat().st_mode) == stat.S_IMODE(half.parent.stat().st_mode) == 0o700
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    audit("vanilla", output="elsewhere")
    assert not half.exists()
    assert list((place / "tmp").iterdir()) == []


def test_rows_that_cannot_be_read_cost_nothing(place):
    frame = pd.read_csv("people.csv")
    frame.loc[3, "GROUP"] = "731924"
    frame.to_csv("people.csv", index=False)
    with pytest.raises(InputError, match="'GROUP' holds a value") as caught:
        audit("vanilla", mode="public", ledger="ledger.db")
    assert "731924" not in str(caught.value)
    assert len(Ledger("ledger.db").charges("people")) == 2


def test_rows_that_change_while_they_are_read_cost_nothing(place, monkeypatch):
    frame, honest = pd.read_csv("people.csv"), audit_steps.load_rows

    def load_rows(plan, work):
        honest(plan, work)
        frame.iloc[:-1].to_csv("people.csv", index=False)

    monkeypatch.setattr(audit_steps, "load_rows", load_rows)
    with pytest.raises(InputError, match="the input changed while it was read"):
        audit("vanilla", mode="public", ledger="ledger.db")
    assert len(Ledger("ledger.db").charges("people")) == 2


@pytest.mark.parametrize(
    ("releases", "settings", "error", "sentence"),
    [
        ([], {}, InputError, "no release is named"),
        (["vanilla"], {"epsilon": 1.0}, InputError, "an internal audit has no privacy cost"),
        (["vanilla"], {"delta": 1e-9}, InputError, "an internal audit has no privacy cost"),
        (["vanilla"], {"mode": "secret"}, InputError, "mode"),
        (["vanilla"], {"target": "PAY"}, InputError, "target 'PAY' is not among"),
        (["vanilla"], {"strata": "NONE"}, InputError, "NONE"),
        (["vanilla"], {"output": "free"}, InputError, "exists already"),
        (["vanilla"], {"input": None}, InputError, "does not say where its rows are"),
        (["vanilla"], {"input": None, "source": "stata"}, InputError, "does not say where its rows are"),
        (["vanilla"], {"input": "other.csv"}, InputError, "other.csv"),
        (["vanilla"], {"mode": "public"}, InputError, "must be charged to its ledger; name it with --ledger"),
        (["vanilla"], {"mode": "public", "ledger": "empty.db"}, LedgerError, "empty.db"),
        (["vanilla"], {"mode": "public", "ledger": "ledger.db", "epsilon": 30}, BudgetExceeded, "left"),
        (["free"], {"mode": "public", "ledger": "ledger.db"}, InputError, "a ledger is named, but no data set"),
        (["vanilla"], {"mode": "public", "ledger": "ledger.db", "seed": 0}, InputError, "noise from a seed can be"),
        (["vanilla"], {"mode": "public", "seed": 1}, InputError, "noise from a seed can be"),
        (
            ["free"],
            {"mode": "public", "ledger": "ledger.db", "dataset": "people", "seed": 1},
            InputError,
            "noise from a seed",
        ),
    ],
)
def test_what_is_refused_costs_nothing_and_leaves_nothing(place, releases, settings, error, sentence):
    before = sorted(place.rglob("*"))
    settings = {k: v for k, v in ({"input": "people.csv"} | settings).items() if v is not None}

    def prepare():
        return AuditPlan.of(AuditConfig.build(releases=releases, **settings))

    with pytest.raises(error, match=sentence):
        prepare()
    assert [path for path in sorted(place.rglob("*")) if path not in before and "empty.db" not in path.name] == []
    assert len(Ledger("ledger.db").charges("people")) == 2


def test_releases_that_cannot_be_compared(place):
    """In the first case the columns are different, and in the second case the rows are different."""
    rows = {
        "source": "csv",
        "input": "people.csv",
        "schema": "people.yaml",
        "workers": 1,
        "evaluate": "none",
        "seed": 1,
    }
    release(rows | {"columns": "SEX,AGE,JOB", "output": "narrow", "release_id": "narrow"})
    with pytest.raises(InputError, match="different schemas or columns"):
        audit("free", "narrow")
    shutil.copy("people.csv", "elsewhere.csv")
    release(rows | {"input": "elsewhere.csv", "output": "other", "release_id": "other"})
    with pytest.raises(InputError, match="made from different rows"):
        audit("free", "other")


def spoil(folder, fault):
    path = folder / fault[1]
    if fault[0] == "missing":
        path.unlink()
    elif fault[0] == "cut off":
        path.write_bytes(path.read_bytes()[:-10])
    elif fault[0] == "edited":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    elif fault[0] == "longer":
        path.write_bytes(path.read_bytes() + b"\n")


ROWS, CARD = ("synthetic.parquet", "synthetic.csv"), ("card.json", "card.md", "schema.json")
FILES = (*ROWS, *CARD, "measurements/all.json", "means.json")
SENTENCES = {"missing": "lacks its file", "cut off": "is cut off", "edited": "was edited", "longer": "was edited"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", SENTENCES)
def test_a_damaged_release_is_told_in_one_sentence_with_exit_2(place, monkeypatch, capsys, kind, name):
    assert (place / "stratified" / name).is_file()
    spoil(place / "stratified", (kind, name))
    code, out, err = command(monkeypatch, capsys, "audit", "vanilla", "stratified", "--input", "people.csv")
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert SENTENCES[kind] in line
    assert repr(name) in line
    assert "stratified" in line
    assert "download the whole folder again" in line


@pytest.mark.parametrize("kind", ["missing", "cut off", "edited"])
def test_a_damaged_manifest(place, monkeypatch, capsys, kind):
    if kind == "edited":
        path = place / "vanilla" / "manifest.json"
        path.write_text(path.read_text().replace('"sha256": "', '"sha256": "0', 1))
    else:
        spoil(place / "vanilla", (kind, "manifest.json"))
    code, out, err = command(monkeypatch, capsys, "audit", "vanilla", "--input", "people.csv")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "manifest.json" in err if kind != "edited" else "was edited" in err


def test_no_such_folder_and_no_release(place, monkeypatch, capsys):
    (place / "nothing").mkdir()
    for name, sentence in (
        ("none", "is not a folder"),
        ("nothing", "has no manifest.json"),
        ("people.csv", "is not a folder"),
    ):
        code, _, err = command(monkeypatch, capsys, "audit", name)
        assert (code, len(err.splitlines())) == (2, 1)
        assert sentence in err


def test_where_the_rows_lie_is_told_by_the_releases_configuration(place):
    Path("release.yaml").write_text(
        "source: csv\ninput: people.csv\nschema: people.yaml\nstrata: [SEX]\nledger: ledger.db\ndataset: people\n"
    )
    assert from_release_config("release.yaml") == {
        "source": "csv", "input": "people.csv", "ledger": "ledger.db", "dataset": "people",
    }  # fmt: skip
    plan = AuditPlan.of(AuditConfig.build(**from_release_config("release.yaml"), releases=("vanilla",), mode="public"))
    assert plan.account.dataset == "people"
    assert plan.sections == ["sizes", "means", "calibration", "rates", "workload"]


def test_pdf_needs_a_printer_which_is_told_before_a_charge(place, monkeypatch):
    monkeypatch.setattr(pdf.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="no program that prints PDF was found; install Chromium"):
        audit("vanilla", mode="public", ledger="ledger.db", pdf=True)
    assert len(Ledger("ledger.db").charges("people")) == 2


def test_a_printer_that_fails_leaves_the_report(place, monkeypatch):
    def broken(page, target):
        target.write_bytes(b"half")
        raise OSError("a row: 731924")

    monkeypatch.setattr(pdf, "printer", lambda: broken)
    with pytest.raises(InputError, match=r"the report in .* is complete, but it could not be printed") as caught:
        audit("vanilla", pdf=True)
    assert "731924" not in str(caught.value)
    assert sorted(path.suffix for path in Path("vanilla.internal/audit").iterdir() if path.is_file()) == [
        ".html", ".json", ".json",
    ]  # fmt: skip


@pytest.mark.skipif(not any(shutil.which(name) for name in pdf.BROWSERS), reason="no Chromium on PATH to print with")
def test_pdf_is_printed_from_the_page(place):
    folder, _ = audit("vanilla", mode="public", ledger="ledger.db", pdf=True)
    printed = (folder / "audit.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 30_000


def test_a_page_is_called_as_the_steward_says_or_as_its_release(place):
    folder, _ = audit("stratified", report={"contact": "a@b.org"})
    document = document_of(folder)
    title = "Fairness audit of people: stratified"
    assert document["report"] == {"title": title, "agency": None, "contact": "a@b.org"}
    assert f"<h1>{title}</h1>" in (folder / "internal-audit.html").read_text("utf-8")
    (entry,) = document["releases"]
    assert entry["title"] == "people: stratified"
    assert entry["how"].endswith(" 6 declared strata of SEX × GROUP")
    folder, _ = audit("stratified", report={"title": "Dogs & cats", "agency": "Kennel club"})
    assert document_of(folder)["report"] == {"title": "Dogs & cats", "agency": "Kennel club", "contact": None}


def test_the_command_takes_the_texts_of_its_page_one_by_one(place, monkeypatch, capsys):
    given = ("--report-title", "Dogs\nand cats", "--report-agency", "Kennel club")
    code, _, err = command(monkeypatch, capsys, "audit", "stratified", *given)
    assert code == 2
    assert "'report.title' contains a line break" in " ".join(err.split())
    assert not Path("stratified.internal/audit").exists()


def test_a_public_audit_without_a_price_reads_no_row_and_charges_nothing(place, monkeypatch):
    """The result is the same for the command and the Python function.

    This setting used to mean ε = 1 in Python and in deployments.
    """
    before = Ledger("ledger.db").spent("people")
    shown = []
    monkeypatch.setattr(
        "equistrata.flows.audit.flow.create_markdown_artifact", lambda text, **about: shown.append((text, about))
    )
    Path("people.csv").unlink()
    config = AuditConfig.build(releases=["vanilla"], mode="public", ledger="ledger.db")
    assert config.free
    folder = Path(equistrata.flows.audit.flow.audit.fn(config))
    assert sorted(each.name for each in folder.iterdir()) == ["expected.csv", "expected.html", "expected.json"]
    assert folder.resolve() == Path("vanilla-expected").resolve()
    assert "expected to be" in shown[0][0]
    assert Ledger("ledger.db").spent("people") == before


def test_rows_that_come_in_several_batches_are_all_audited(place, monkeypatch):
    whole = FileSource.batches

    def halves(source, columns):
        for frame in whole(source, columns):
            yield frame.iloc[: len(frame) // 2]
            yield frame.iloc[len(frame) // 2 :]

    monkeypatch.setattr(FileSource, "batches", halves)
    plan = AuditPlan.of(AuditConfig.build(releases=["stratified"], input="people.csv"))
    work = Workspace(place / "work")
    work.root.mkdir()
    audit_steps.load_rows(plan, work)
    people = pd.read_csv("people.csv")
    assert len(work.load(work.root / audit_steps.ROWS)) == len(people)
    strata = range(len(plan.strata.keys))
    assert sum(len(work.load(work.outcome("PAY", i))) for i in strata) == people["PAY"].notna().sum()
