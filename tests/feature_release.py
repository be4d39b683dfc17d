"""Releases of a small table that combine several features, and releases of its neighbours with the same noise.

A configuration has one value for each of the FACTORS. It is run for one or two months, and in some cases a paid audit
is added. All of the steps are charged to a ledger. Each neighbour differs from the table by one unit in each month. All
rows of the first unit are in a cell that no other unit has. The second unit has more rows than are used, in several
strata and with its own texts in the open columns.
"""

import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
from audits import audit
from models_once import models_once
from recorder import Recorder, load_call
from replay import Frozen, here, without_prefect

import equistrata.flows.release.flow
import equistrata.privacy.ledger.ledger
import equistrata.privacy.ledger.transaction
from equistrata.analysis.answers import Answers
from equistrata.analysis.release import Release
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.texts.manifest import check_manifest
from equistrata.flows.audit import account as audit_account
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.publication.verified import release_faults
from equistrata.flows.release.steps import streams
from equistrata.flows.release.undertaking import under_way
from equistrata.flows.run.workspace import Workspace
from equistrata.privacy.budget import Rho, relation_of
from equistrata.privacy.ledger.ledger import Ledger

# The number of rows of a unit that are used, and the number of rows of the units of both neighbours
AT_MOST, ALIKE, SPREAD = 3, 5, 200
EPSILON, DELTA = 12.0, 1e-6
ACCOUNT = 400.0, 1e-5
PARTS = {
    streams.SYNTHESIS: "synthesis", streams.MEANS: "means", streams.FINDING: "finding", streams.SIZES: "sizes"
}  # fmt: skip
STRATA = {"none": (), "flat": ("SEX",), "nested": ("AREA", "SEX")}

FACTORS = {
    "synthesizer": ("mst", "aim", "gem"),
    "selection": ("shared", "per-stratum", None),
    "levels": ("auto", "strata", "none"),
    "shrinkage": (True, False),
    "unit": ("row", "unique", "rows", "units"),
    "relation": ("add-remove", "replace-one"),
    "bound_share": (0.0, 0.1),
    "open": (False, True),
    "strata": tuple(STRATA),
    "weights": ("noisy", "public", "combined"),
    "means": ("none", "stratified", "vanilla", "both"),
    "means_target": ("rows", "population"),
    "month": ("none", "first", "later"),
    "audit": (False, True),
    "rules": (False, True),
    "dates": (False, True),
    "missing": (False, True),
    "evaluate": ("none", "full"),
    "rows": (None, 90),
    "survey": ("none", "weight", "controls", "expand"),
    "replicates": (0, 2),
}


def schema_of(chosen):
    """Return the schema as YAML."""
    absent, code = (", missing: own", ", codes: {-1: refused}") if chosen["missing"] else ("", "")
    groups = "open" if chosen["open"] else "[a, b, c, none]"
    lines = [
        "name: people",
        "target: JOB",
        f"default: [AREA, SEX, GROUP, AGE, JOB{', BORN, SEEN' if chosen['dates'] else ''}]",
        "columns:",
        "  AREA: {within: ST, values: {1: [10, 11], 2: [10]}}",
        "  SEX: {values: [1, 2, 3]}",
        f"  GROUP: {{values: {groups}, missing: none}}",
        f"  AGE: {{lower: 0, upper: 99, edges: [0, 17, 64, 99], integer: true, sigma: 25{code}{absent}}}",
        "  JOB: {values: ['no', 'yes']}",
        f"  PAY: {{lower: 0, upper: 1000, sigma: 300{code}{absent}}}",
        f'  BORN: {{type: date, format: "%Y-%m-%d", lower: "2000-01-01", upper: "2009-12-31"{absent}}}',
        f'  SEEN: {{type: date, format: "%d.%m.%Y", lower: "2000-01-01", upper: "2019-12-31"{absent}}}',
        "  GROWN: {from: AGE, bins: [0, 17, 99], labels: ['no', 'yes']}",
    ]
    lines += [] if chosen["survey"] == "none" else ["survey_weight: {column: W, upper: 50}"]
    if chosen["rules"]:
        lines += ["impossible:", "  - {AGE: ['<18'], JOB: ['yes']}", "  - {AREA: ['2/10'], SEX: [3]}"]
        lines += ["rules:", "  - BORN <= SEEN or JOB == 'yes'"] if chosen["dates"] else []
    return "\n".join(lines) + "\n"


def people(rows, seed, chosen):
    """Return a table with the given number of rows, in which SEX is never 3 and area 11 is rare."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    frame = pd.DataFrame(
        {
            "ST": rng.integers(1, 3, rows),
            "AREA": 10,
            "SEX": rng.integers(1, 3, rows),
            "GROUP": rng.choice(["a", "b"], rows).astype(object),
            "AGE": age.astype(object),
            "JOB": np.where((age >= 18) & (rng.random(rows) < 0.5), "yes", "no"),
            "PAY": np.round(rng.gamma(2.0, 100.0, rows).clip(0, 1000), 2).astype(object),
            "BORN": [f"200{year}-0{month}-15" for year, month in rng.integers(1, 10, (rows, 2))],
            "SEEN": [f"20.0{month}.201{year}" for year, month in rng.integers(1, 10, (rows, 2))],
            "W": rng.integers(1, 30, rows),
            "HOME": np.arange(rows) if chosen["unit"] == "unique" else np.sort(rng.integers(0, rows // 2, rows)),
        }
    )
    frame.loc[0, ["ST", "AREA"]] = 1, 11
    if chosen["missing"]:
        for name in ("AGE", "PAY", "BORN", "SEEN", "GROUP"):
            frame.loc[rng.random(rows) < 0.1, name] = None
        frame.loc[rng.random(rows) < 0.1, "PAY"] = -1
    return frame


def unit_of(kind, chosen):
    """Return the rows of one unit.

    The rows of the kind `alike` are in a cell of their own, and the rows of the kind `spread` are in several strata.
    """
    usual = {
        "ST": 1,
        "AREA": 10,
        "SEX": 1,
        "GROUP": "a",
        "AGE": 20,
        "JOB": "no",
        "PAY": 0.0,
        "BORN": "2001-01-15",
        "SEEN": "01.02.2011",
        "W": 0,
    }
    far = usual | {"AREA": 11, "SEX": 3, "GROUP": "b", "AGE": 90, "JOB": "yes", "PAY": 1000.0, "BORN": "2009-09-15"}
    far["W"] = 10**6  # This is above the bound of the weight.
    many = chosen["unit"] in ("rows", "units")
    if kind != "spread":
        rows = [usual if kind == "usual" else far] * (ALIKE if many else 1)
    else:
        rows = []
        for i in range(SPREAD if many else 1):
            row = far | {"SEX": 3 - i % 3, "PAY": 1000.0 - i, "BORN": f"200{i % 9 + 1}-09-15", "W": 50 * (i % 2)}
            row |= {"GROUP": f"~own {i:03}"} if chosen["open"] else {}
            row |= {"AGE": None, "PAY": (None, -1, 1000.0)[i % 3]} if chosen["missing"] else {}
            rows.append(row)
    return pd.DataFrame(rows).assign(HOME=10**6)


def tables_of(neighbour, chosen):
    """Return one table per month, including the unit of the given neighbour."""
    months = [people(60, month, chosen) for month in range(2 if chosen["month"] == "later" else 1)]
    kind = "usual" if neighbour is None and chosen["relation"] == "replace-one" else neighbour
    units = [] if kind is None else [unit_of(kind, chosen)]
    # If rows have a unit id, the unit may be anywhere in the table. If they have none, the order of the rows decides
    # which of them are held out.
    first = kind == "spread" and chosen["unit"] != "row"
    return [pd.concat([*units, month] if first else [month, *units], ignore_index=True) for month in months]


def settings_of(chosen, home):
    """Return the settings that are the same for all months, and write the schema and the weights to files."""
    schema, weights = home / "people.yaml", home / "weights.csv"
    schema.write_text(schema_of(chosen))
    by = STRATA[chosen["strata"]]
    if by:
        strata = Strata.over(Schema.load(schema).selected().largest_possible(), by)
        shares = [dict(zip(by, key, strict=True)) | {"share": 1 / len(strata.keys)} for key in strata.keys]
        pd.DataFrame(shares).to_csv(weights, index=False)
    else:
        weights.write_text("SEX,share\n1,0.5\n2,0.5\n3,0\n")
    survey = {"none": {}, "weight": {}, "controls": {}, "expand": {"expand": True}}[chosen["survey"]]
    if chosen["survey"] in ("controls", "expand"):
        (home / "totals.csv").write_text("SEX,people\n1,200\n2,150\n3,0.5\n")
        survey["controls"] = str(home / "totals.csv")
    unit = {"row": {}, "unique": {"unit": "HOME"}}.get(chosen["unit"], {"unit": "HOME", "at_most": AT_MOST})
    if "at_most" in unit:
        unit["unit_weights"] = chosen["unit"]
    means = {} if chosen["means"] == "none" else {"means": "PAY,AGE", "means_estimator": chosen["means"]}
    same = {
        "synthesizer",
        "selection",
        "levels",
        "shrinkage",
        "relation",
        "bound_share",
        "means_target",
        "evaluate",
        "rows",
        "replicates",
    }
    return {
        "source": "csv", "schema": str(schema), "strata": by, "epsilon": EPSILON, "delta": DELTA, "holdout": 0.05,
        "weights": "noisy" if chosen["weights"] == "noisy" else str(weights),
        "combine_weights": chosen["weights"] == "combined", "runner": "threads", "workers": 1, "dataset": "people",
        "series": {} if chosen["month"] == "none" else {"name": "year", "horizon": 2, "front": 1.5},
        "rows": chosen["rows"],
    } | {name: chosen[name] for name in same} | unit | means | survey  # fmt: skip


class FindingRecorder(Recorder):
    """A recorder for open columns, in which a neighbour may have additional texts at the end of the list.

    The probability that one of these texts is kept is limited by the threshold and paid for with δ. The counts of the
    additional texts are stored in a separate folder, and the answer for them is far below all thresholds.
    """

    private, name = True, "a recorder"  # the command `verify` expects this of a valid release

    @property
    def more(self):
        """Return the folder of the counts of additional texts."""
        return self.folder.with_name(f"{self.folder.name} more")

    def _call(self, kind, given, scale, sensitivity, rho, draw):
        name = f"{'-'.join(map(str, self._sequence.spawn_key))}.{self.calls}"
        if self.answers is None or not name.startswith(f"{streams.FINDING}-"):
            return super()._call(kind, given, scale, sensitivity, rho, draw)
        there = len(load_call(self.answers / name).given)
        self.more.mkdir(exist_ok=True)
        np.save(self.more / name, given[there:])
        answer = super()._call(kind, given[:there], scale, sensitivity, rho, draw)
        return np.append(answer, np.full(len(given) - there, -(10**6)))


@dataclass(frozen=True)
class Step:
    """The release of a month or an audit, with its price, its published files and its guarantee.

    Attributes
    ----------
    name : str
        The name of its folder in the recorded calls of a table.
    price : float
        The ρ that is charged to the ledger.
    drawn : float
        The price for one row, in ρ.
    published : dict
        The content of each file, except for the parts that depend on the key of the ledger.
    stated : tuple
        The (ε, δ) of the complete folder.
    parts : dict
        The part of the price for each noise stream, in ρ.
    thresholds : tuple
        The thresholds of open columns, as in the card.
    """

    name: str
    price: float
    drawn: float
    published: dict
    stated: tuple
    parts: dict
    thresholds: tuple = ()


@contextmanager
def one_process(noise):
    """Run releases and audits without Prefect, with the given noise and with the same public randomness each time."""
    with (
        without_prefect(noise, here),
        mock.patch.object(streams, "generator", lambda plan, stream: np.random.default_rng([4, stream])),
        mock.patch.object(audit_steps, "noise_source", return_value=noise),
        mock.patch.object(audit_steps, "datetime", Frozen),
        mock.patch.object(audit_account, "new_id", return_value="first"),
        mock.patch.object(Workspace, "unit_key", return_value=bytes(32)),
        mock.patch.object(equistrata.privacy.ledger.transaction, "datetime", Frozen),
        mock.patch.object(equistrata.privacy.ledger.ledger, "datetime", Frozen),
        mock.patch("equistrata.analysis.release.Answers", partial(Answers, count=2)),
    ):
        yield


def made(home, name, tables, chosen, answers=None):
    """Run all steps of a configuration and return them with the last folder. The calls are recorded in
    `home/calls/<name>`.

    Parameters
    ----------
    answers : str, optional
        The name of the recorded calls from which the answers are taken.
    """
    out, calls = home / name, home / "calls"
    out.mkdir()
    ledger = Ledger(out / "ledger.db")
    settings, steps = settings_of(chosen, home), []
    with one_process(None):
        ledger.create("people", *ACCOUNT, relation=relation_of(settings.get("unit"), settings["relation"]))
    with mock.patch.dict("os.environ", EQUISTRATA_STATE=str(out / "state")):
        for month, frame in enumerate(tables, start=1):
            table, folder = home / f"people{month}.csv", out / f"m{month}"
            frame.to_csv(table, index=False)
            config = ReleaseConfig.build(
                **settings, input=str(table), output=str(folder), release_id=f"m{month}", ledger=str(out / "ledger.db")
            )
            with one_process(_recorder(calls, name, folder.name, answers)), under_way(config) as run:
                equistrata.flows.release.flow._make(run)
            price, plan, card = _charged(ledger, folder.name), run.plan, json.loads((folder / "card.json").read_text())
            parts = {stream: float(getattr(plan.price, name)) for stream, name in PARTS.items()}
            parts[streams.SYNTHESIS] += float(plan.price.counts)
            drawn = price * float(plan.drawn.total) / float(plan.price.total)
            told = _published(folder, ledger), _stated(folder)
            steps.append(Step(folder.name, price, drawn, *told, parts, tuple(card["open"])))
        if chosen["audit"] and chosen["survey"] != "expand":  # these releases cannot be audited
            steps.append(_audited(folder, table, ledger, plan.unit, _recorder(calls, name, "audit", answers)))
    return steps, folder


def _recorder(calls, name, step, answers):
    seed = int.from_bytes(step.encode())
    return FindingRecorder(calls / name / step, None if answers is None else calls / answers / step, seed)


def _audited(folder, table, ledger, unit, noise):
    """Run a paid audit of the release in this folder."""
    audited = (folder / "manifest.json").read_bytes()
    paid = {"mode": "public", "epsilon": 8.0, "delta": DELTA, "dataset": "people", "ledger": str(ledger.path)}
    with one_process(noise):
        audit(str(folder), input=str(table), **paid)
    price = _charged(ledger, "audit-first")
    return Step("audit", price, price / unit.sum_cost, _published(folder, ledger, audited), _stated(folder), {})


def _charged(ledger, release):
    return float(sum((charge.entry.rho for charge in ledger.charges("people", release)), start=Rho(0)))


def _stated(folder):
    guarantee = json.loads((folder / "card.json").read_text())["guarantee"]
    return guarantee["epsilon"], guarantee["delta"]


def _published(folder, ledger, *hashed):
    """Return the content of each file in the manifest, without the name and the hashes of the ledger, because they
    depend on its key.

    The manifest is not included because it depends only on these files. If the content of a file in `hashed` has a hash
    in another file, this hash is removed as well.
    """
    check_manifest(folder)
    names = json.loads((folder / "manifest.json").read_text())["files"]
    found = {name: (folder / name).read_bytes() for name in names}
    hashed += tuple(content for name, content in found.items() if name.endswith("audit.json"))
    told = [ledger.identity, *(entry.hash for entry in ledger.history())]
    told += [hashlib.sha256(content).hexdigest() for content in hashed]
    for text in told:
        found = {name: content.replace(text.encode(), b"(ledger)") for name, content in found.items()}
    return found


def replayed_features(home, chosen, neighbours=("alike", "spread")):
    """Run the configuration on its table, and on each neighbour with the same answers.

    Returns
    -------
    steps : list of Step
        The steps on the table.
    played : dict
        The steps on each neighbour, by name.
    faults : list of str
        The faults that `verify` finds in the last folder.
    """
    with models_once():
        steps, folder = made(home, "table", tables_of(None, chosen), chosen)
        with one_process(None):  # the same engines are used
            faults = release_faults(Release.open(folder))
        played = {name: made(home, name, tables_of(name, chosen), chosen, "table")[0] for name in neighbours}
    return steps, played, faults


def calls_of(home, name, step):
    """Return the recorded calls of a step as a mapping from the name to the call."""
    return {path.name: load_call(path) for path in sorted((home / "calls" / name / step).iterdir())}


def more_of(home, name, step):
    """Return the counts of the texts that are only in the neighbour, for each call."""
    folder = home / "calls" / name / f"{step} more"
    return {path.stem: np.load(path) for path in sorted(folder.iterdir())} if folder.exists() else {}
