"""Differentially private synthetic microdata that are accurate for small strata as well as for large ones.

The names in `__all__` are public. Each of them is imported when it is used for the first time. See docs/api.md.

>>> import equistrata
>>> equistrata.Schema.load("acs_employment").select(["SEX", "AGEP"]).sizes
(2, 5)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equistrata.analysis.release import Release, combine
    from equistrata.api import audit, plan, publish, ratio, read_table, release
    from equistrata.data.schema import Schema
    from equistrata.data.strata import Strata
    from equistrata.eval.scores.quality import quality_report
    from equistrata.eval.scores.scores import score
    from equistrata.inference.means.coinpress import Coinpress
    from equistrata.privacy.ledger.ledger import Ledger
    from equistrata.synth.mechanisms.aim import AIM
    from equistrata.synth.mechanisms.gem import GEM
    from equistrata.synth.mechanisms.mst import MST
    from equistrata.synth.synthesizer import StratifiedSynthesizer

__all__ = [
    "AIM", "GEM", "MST", "Coinpress", "Ledger", "Release", "Schema", "Strata", "StratifiedSynthesizer",
    "audit", "combine", "plan", "publish", "quality_report", "ratio", "read_table", "release", "score",
]  # fmt: skip

_MODULES = {
    "AIM": "synth.mechanisms.aim",
    "GEM": "synth.mechanisms.gem",
    "MST": "synth.mechanisms.mst",
    "Coinpress": "inference.means.coinpress",
    "Ledger": "privacy.ledger.ledger",
    "Release": "analysis.release",
    "Schema": "data.schema",
    "Strata": "data.strata",
    "StratifiedSynthesizer": "synth.synthesizer",
    "combine": "analysis.release",
    "quality_report": "eval.scores.quality",
    "score": "eval.scores.scores",
}  # the other names are in `equistrata.api`


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'api')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
