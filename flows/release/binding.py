"""The binding of a charge, which contains everything except for the rows that determines the strata of a release.

A resumed release combines strata that were measured before a crash with strata that are measured afterwards. Therefore
all of them must belong to the same partition of the same rows, must be read by the same code and must have the same
price. The journal stores the binding, and the entry of the ledger stores its hash. If anything has changed, the release
cannot be resumed and no noise is drawn. See docs/proofs/budget.md. The rows have their own digest (see
`Journal.same_rows`).
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from equistrata.data.files.formats import format_of
from equistrata.data.sources import FileSource
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.inputs import ACS_SCHEMA
from equistrata.flows.release.plan import Plan
from equistrata.flows.run.journal import Journal, state_folder
from equistrata.privacy.ledger.ledger import Charge

Binding = Mapping[str, Any]

MOST_NAMED = 3  # the largest number of differences in a schema that are named
PACKAGE = "equistrata"

# The software that reads a row determines its stratum. If a row were in one stratum before a crash and in another
# afterwards, it would be measured twice. OpenDP draws the noise and converts the price.
LIBRARIES = ("equistrata", "folktables", "numpy", "opendp", "pandas", "pyarrow")


def binding(plan: Plan) -> Binding:
    """Return the binding of a plan as plain JSON values.

    It contains only public settings and declarations. Schemas are included as declared, with labels and unused columns.
    The comments, the layout and the path of a file are not included.
    """
    weights, mechanism = plan.weights, plan.mechanism
    document = {
        "schema": asdict(plan.declared[0]),
        "means schema": asdict(plan.declared[1]) if plan.declared[1:] else None,
        "weights": None if weights is None else [weights.total, sorted(map(_text, weights.shares.items()))],
        "software": software()
        | ({"the synthesizer's own": mechanism.software} if mechanism.software else {})
        | _readers(plan),
        "unit": asdict(plan.unit),
        "strata": [plan.strata.columns, plan.strata.keys],
        "mechanism": _described(mechanism),
        "price": {"counts": plan.price.counts.exact}
        | {part: rho.exact for part, rho in plan.parts.items()}
        | {f"δ of the {part}": opening.delta for part, opening in plan.openings.items()},
    }
    if plan.controls is not None:
        document["controls"] = [plan.controls.columns, plan.controls.groups, plan.controls.totals.tolist()]
    if plan.month is not None:
        document["series"] = plan.month.bound()
    plain: Binding = json.loads(json.dumps(document, default=str))
    return plain


def _readers(plan: Plan) -> dict[str, str]:
    """Return the versions of the packages that read files in the format of the plan, by name."""
    source = plan.source
    used = {format_of(source.path, source.kind).library} if isinstance(source, FileSource) else set()
    return {name: version(name) for name in used.difference(LIBRARIES)}


def software() -> dict[str, str]:
    """Return the versions of the software by name. The entry `code` is a digest of the files of equistrata."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"code": own_code(), "python": python} | {name: version(name) for name in LIBRARIES}


@cache
def own_code() -> str:
    """Return the SHA-256 hash of the package's Python files and schemas, and of `pyproject.toml` in a checkout.

    It takes 10 ms.
    """
    whole, found = hashlib.sha256(), dict[str, Path]()
    package = Path(str(resources.files(PACKAGE)))
    # The folders are links in a checkout, which `rglob` does not follow.
    rooms = [place for place in package.iterdir() if place.is_dir()]
    for path in (*package.glob("*"), *(path for room in rooms for path in room.rglob("*"))):
        if path.suffix in (".py", ".yaml"):
            found[path.relative_to(package).as_posix()] = path
    declared = package.parent / "pyproject.toml"
    if declared.exists():
        found[declared.name] = declared
    for name in sorted(found):
        whole.update(name.encode() + b"\0" + hashlib.sha256(found[name].read_bytes()).digest())
    return whole.hexdigest()


def config_hash(config: ReleaseConfig, bound: Binding) -> str:
    """Return the value of `Entry.config` in the ledger, which is a hash of the settings and a hash of the binding."""
    return f"{config.digest}+{hashlib.sha256(_text(bound).encode()).hexdigest()}"


def settings_hash(config: str | None) -> str:
    """Return the hash of the settings from the `config` of an entry. Early entries contain only this hash."""
    return (config or "").partition("+")[0]


def differences(then: Binding, now: Binding, config: ReleaseConfig) -> list[str]:
    """Describe the differences between two bindings in words, without any values.

    Parameters
    ----------
    then, now : mapping
        The bindings at the time of the charge and now.
    config : ReleaseConfig
        The settings, which contain the names of the files.

    Returns
    -------
    list of str
        The descriptions, one per difference.
    """
    found = []
    for item, name in (("schema", config.schema_ or ACS_SCHEMA), ("means schema", config.means_schema or "of means")):
        if not _same(then.get(item), now[item]):
            found.append(f"the schema {name!r} ({_schema_differences(then.get(item) or {}, now[item] or {})})")
    if not _same(then.get("weights"), now["weights"]):
        found.append(f"the weights in {config.weights!r}")
    if not _same(then.get("controls"), now.get("controls")):
        found.append(f"the control totals in {config.controls!r}")
    if not _same(then.get("series"), now.get("series")):
        found.append("the former release of its series")
    found += _software_differences(then.get("software") or {}, now["software"])
    if found:
        return found
    # These values depend on the others, so they are named only if all others are equal.
    derived = {
        "unit": "the unit of privacy",
        "strata": "the strata",
        "mechanism": "the mechanism's settings",
        "price": "the price",
    }
    return [words for item, words in derived.items() if not _same(then.get(item), now[item])]


def check_same(now: Binding, config: ReleaseConfig, journal: Journal, charges: Sequence[Charge]) -> None:
    """Check that a release is still the one that was charged. The rows are checked by `ReleaseRun.load`.

    Raises
    ------
    InputError
        If anything has changed.
    """
    release = journal.root.name
    give_up = f"give the release up (equistrata resume --discard {release})"
    then = journal.binding
    if then is None:
        raise InputError(
            f"release {release!r} was charged by an earlier version of equistrata, which did not record the "
            f"settings that determine it; finish it with that version, or {give_up}"
        )
    if any(charge.entry.config != config_hash(config, then) for charge in charges):
        raise InputError(
            f"the saved files of release {release!r} do not match its charge in the ledger; restore its "
            f"folder in {str(state_folder())!r}, or {give_up}"
        )
    changed = differences(then, now, config)
    if changed:
        raise InputError(
            f"since release {release!r} was charged, this has changed: {'; '.join(changed)}; its measurements "
            f"cannot be used after this change, so undo the change, or {give_up}"
        )


def _schema_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    before, after = ({column["name"]: column for column in each.get("columns", [])} for each in (then, now))
    found = [f"column {name!r} is new" for name in after if name not in before]
    found += [f"column {name!r} is gone" for name in before if name not in after]
    for name in (name for name in before if name in after):
        pairs = {key: (before[name].get(key), value) for key, value in after[name].items()}
        told = [
            f"the order of its {key}" if _moved(*both) else f"its {key}"
            for key, both in pairs.items()
            if not _same(*both)
        ]
        found += [f"column {name!r}: {' and '.join(told)}"] if told else []
    if not found and list(before) != list(after):
        found.append("the order of its columns")
    found += [f"its {key}" for key, value in now.items() if key != "columns" and not _same(then.get(key), value)]
    return ", ".join(found[:MOST_NAMED]) + (" and more" if len(found) > MOST_NAMED else "")


def _moved(then: Any, now: Any) -> bool:
    """Return True if two values of a column are the same list in a different order."""
    return isinstance(then, list) and isinstance(now, list) and sorted(map(_text, then)) == sorted(map(_text, now))


def _software_differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterable[str]:
    names = [name for name in dict.fromkeys([*then, *now]) if then.get(name) != now.get(name)]
    told = [name for name in names if name != "code"]
    for name in told:
        yield f"{name} ({then.get(name, 'none')} then, {now.get(name, 'none')} now)"
    if "code" in names and "equistrata" not in told:
        yield f"the code of equistrata ({now['equistrata']} then and now, but in other files)"


def _described(value: Any) -> Any:
    """Convert settings to plain values.

    A dataclass becomes its class and its fields, and any other object becomes its class.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__qualname__} | {
            field.name: _described(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, Mapping):
        return [[_described(key), _described(each)] for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [_described(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else type(value).__qualname__


def _text(value: Any) -> str:
    """Return a value as JSON. The texts of 1, 1.0 and true differ, although Python considers these values equal."""
    return json.dumps(value, sort_keys=True)


def _same(then: Any, now: Any) -> bool:
    return _text(then) == _text(now)
