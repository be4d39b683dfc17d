"""Synthetic microdata with a differential-privacy guarantee, small strata served as well as large ones.

The public names, each imported when it is first used:

- `Schema`: what each column may hold; `Strata`: the groups that columns cut a table into.
- `read_table`: a file as coded rows.
- `StratifiedSynthesizer`: fit to private rows, sample synthetic ones; `MST`, `AIM`, `GEM`: its mechanisms.
- `Coinpress`: private means, stratified or not; `ratio`: a private ratio of two sums, with an interval.
- `plan`: what can be read per stratum at which price, before anything is spent.
- `Ledger`: the lifetime privacy budgets of data sets.
- `release`, `audit`, `publish`: the commands of these names. `score`: how near synthetic rows are to the private ones.

>>> import equistrata
>>> equistrata.Schema.load("acs_employment").select(["SEX", "AGEP"]).sizes
(2, 5)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equistrata.api import audit, plan, publish, ratio, read_table, release
    from equistrata.data.schema import Schema
    from equistrata.data.strata import Strata
    from equistrata.eval.scores.scores import score
    from equistrata.inference.means.coinpress import Coinpress
    from equistrata.privacy.ledger.ledger import Ledger
    from equistrata.synth.mechanisms.aim import AIM
    from equistrata.synth.mechanisms.gem import GEM
    from equistrata.synth.mechanisms.mst import MST
    from equistrata.synth.synthesizer import StratifiedSynthesizer

__all__ = [
    "AIM", "GEM", "MST", "Coinpress", "Ledger", "Schema", "Strata", "StratifiedSynthesizer",
    "audit", "plan", "publish", "ratio", "read_table", "release", "score",
]  # fmt: skip

_MODULES = {
    "AIM": "synth.mechanisms.aim",
    "GEM": "synth.mechanisms.gem",
    "MST": "synth.mechanisms.mst",
    "Coinpress": "inference.means.coinpress",
    "Ledger": "privacy.ledger.ledger",
    "Schema": "data.schema",
    "Strata": "data.strata",
    "StratifiedSynthesizer": "synth.synthesizer",
    "score": "eval.scores.scores",
}  # the others are in `equistrata.api`


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'api')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
