"""The stratified synthesizer, by scikit-learn's conventions.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> people = pd.DataFrame({"SEX": rng.integers(1, 3, 5000), "MAR": rng.integers(1, 6, 5000), "ESR": 1})
>>> schema = Schema.load("acs_employment").select(["SEX", "MAR", "ESR"])
>>> synthesizer = StratifiedSynthesizer("mst", ["SEX"], epsilon=1, delta=1e-9, seed=0).fit(people, schema)
>>> synthesizer.name, synthesizer.sample(100).shape
('MST_SEX', (100, 3))
>>> synthesizer.sample(10, where={"SEX": "Female"})["SEX"].unique().tolist()
[2]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from inspect import signature
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from equistrata.data.columns.nesting import BETWEEN
from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable, worded
from equistrata.data.units.unit import ROW
from equistrata.data.weights import PublicWeights
from equistrata.errors import InputError
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import noise_source
from equistrata.stats.checks import number, whole
from equistrata.synth.foreign.base import ForeignSynthesizer
from equistrata.synth.mechanisms.base import Mechanism
from equistrata.synth.registry import check_weighing
from equistrata.synth.registry import mechanism as named_mechanism
from equistrata.synth.strata.fitting import Fitting, StrataMeasurements
from equistrata.synth.strata.model import StratifiedModel, Where
from equistrata.synth.strata.selection import check_selection, shared_selection
from equistrata.synth.strata.weights import combined_weights

NOISY: Literal["noisy"] = "noisy"
DEFAULT_COUNT_SHARE = 0.02  # of ρ, for noisy sizes of the strata


def stratified_name(mechanism: Mechanism, strata: Sequence[str]) -> str:
    """The stratification paper's name for a variant: `MST_vanilla`, `MST_SEX_RAC1P`."""
    return "_".join([mechanism.name, *(strata or ["vanilla"])])


@dataclass(eq=False, repr=False)
class StratifiedSynthesizer:
    """Fit a synthesizer to every stratum and draw synthetic rows.

    Args:
        mechanism: a name ("mst", "aim", "gem", "package.module:Class"; see docs/foreign.md) or a Mechanism.
        strata: the columns that define strata, `ST/PUMA` for one that lies within another; none for the whole table.
        epsilon, delta: the price of the whole fit, (ε, δ)-DP under adding or removing one row.
        weights: PublicWeights, or "noisy" for sizes bought with `count_share` of ρ.
        combine_weights: whether PublicWeights may be wrong: noisy counts are bought as well, and both are joined by
            inverse variance (`combined_weights`).
        count_share: the part of ρ for noisy sizes, in [0, 1).
        engine: what estimates models, "numpy" or "mbi" (reference, an extra), for a mechanism given by name.
        shrinkage: whether small strata borrow from the others (`predict_from_others`), at no cost.
        selection: "shared" for one choice of what is measured, for all strata; "per-stratum"; None for shared where the
            mechanism and the schema allow it (`shared_selection`), or each for itself where all are large.
        levels: "auto" to measure over all rows and within strata; "strata" or "none" for one of them (`Levels`).
        workers: processes that fit strata side by side.
        seed: for tests only: reproducible, and therefore NOT private. None draws secure noise.
        random_state: scikit-learn's name for `seed`.
        schema: what codes data frames that `fit` and `score` are given.

    Attributes:
        model_: the fitted StratifiedModel.
        measurements_: stratum → measurements; with shared selection `()` → those of the whole table.
        rho_: the price in zCDP.

    Raises:
        InputError: a setting that no table could be fitted with.
    """

    mechanism: str | Mechanism = "mst"
    strata: Sequence[str] = ()
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-9
    weights: PublicWeights | Literal["noisy"] = NOISY
    combine_weights: bool = False
    count_share: float = DEFAULT_COUNT_SHARE
    engine: str = "numpy"
    shrinkage: bool = True
    selection: Literal["shared", "per-stratum"] | None = None
    levels: Literal["auto", "strata", "none"] = "auto"
    workers: int = 1
    seed: int | None = None
    random_state: int | None = None
    schema: Schema | None = None

    model_: StratifiedModel = field(init=False)
    measurements_: StrataMeasurements = field(init=False)
    rho_: Rho = field(init=False)

    def __post_init__(self) -> None:
        listed = isinstance(self.strata, Collection) and not isinstance(self.strata, str)
        if not listed or not all(isinstance(name, str) for name in self.strata):
            raise InputError(f"strata is {self.strata!r}; give a list of column names")
        whole("workers", self.workers, 1)
        if not 0 <= number("count_share", self.count_share) < 1:
            raise InputError(f"count_share is {self.count_share}, but it is a part of the budget; give 0 up to, not 1")
        if not isinstance(self.weights, PublicWeights) and self.weights != NOISY:
            raise InputError(f"unknown weights {self.weights!r}; give PublicWeights or {NOISY!r}")
        if self.combine_weights and not (isinstance(self.weights, PublicWeights) and len(self.strata)):
            raise InputError("there is nothing to combine with noisy counts; give strata and their PublicWeights")
        if not isinstance(self.mechanism, str | Mechanism):
            raise InputError(f"mechanism is a {type(self.mechanism).__name__}; give a name or a Mechanism")
        if self.seed is not None and self.random_state is not None:
            raise InputError("seed and random_state are one setting; give one of them")
        check_selection(self.selection, self.levels)
        self._mechanism()
        self._price()

    @property
    def name(self) -> str:
        """The variant's name, as `MST_SEX_RAC1P`."""
        return stratified_name(self._mechanism(), [name.rpartition(BETWEEN)[2] for name in self.strata])

    def __repr__(self) -> str:
        usual = signature(type(self)).parameters
        given = {name: repr(value) for name, value in self.get_params().items()}
        changed = (f"{name}={said}" for name, said in given.items() if said != repr(usual[name].default))
        return f"{type(self).__name__}({', '.join(changed)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as scikit-learn asks for them. None of them has settings of its own (`deep`)."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change settings. Raises InputError on an unknown or impossible one, and changes nothing then."""
        before = self.get_params()
        for name in params:
            if name not in before:
                raise InputError(f"unknown setting {name!r}; choose among {', '.join(before)}")
        type(self)(**before | params)  # checks them
        vars(self).update(params)
        return self

    def fit(self, table: CodedTable | pd.DataFrame, schema: Schema | None = None) -> Self:
        """Fit to private rows. Cost: (epsilon, delta)-DP; neighbours differ by one added or removed row.

        Args:
            table: a data frame of raw values with the `schema` that codes it, or coded rows.

        Raises:
            InputError: the table, strata or weights do not fit the schema, or it declares a unit of several rows, or a
                survey weight that the mechanism of this name does not serve.
        """
        if isinstance(table, pd.DataFrame):
            schema = self.schema if schema is None else schema
            if not isinstance(schema, Schema):
                raise InputError("a data frame needs the schema that codes it; give schema=Schema.load(...)")
            table = CodedTable.encode(table, schema)
        if not isinstance(table, CodedTable):
            raise InputError(
                f"table is of type {type(table).__name__}; give a data frame with its schema, or coded rows"
            )
        if table.schema.unit != ROW and not table.schema.weighed:  # else units are bounded, and each counts as one
            raise InputError(
                f"schema {table.schema.name!r} declares a unit, {table.schema.unit.words}, and fit protects one row; "
                "make a release, which bounds and protects units (equistrata.release), or leave the unit out"
            )
        if table.schema.survey_weight is not None and isinstance(self.mechanism, str):
            check_weighing(self.mechanism)
        strata = Strata.over(table.schema, self.strata)
        public = self.weights if isinstance(self.weights, PublicWeights) else None
        if public is not None and set(public.shares) != set(strata.keys):
            raise InputError("the weights are for other strata than these; make them for the same columns and schema")
        mechanism, rho = self._mechanism(), self._price()
        promise = None
        if isinstance(mechanism, ForeignSynthesizer):
            mechanism = replace(mechanism, delta=self.delta)
            if not mechanism.converts:
                mechanism = mechanism.promised(self.epsilon, self.delta, Rho(0))
                promise = mechanism.promise
        mechanism.try_out(strata.rest(strata.keys[0]))
        shared = shared_selection(mechanism, strata, self.selection, self.levels)
        fitting = Fitting(mechanism, strata, shared, self.shrinkage, self.workers)
        paid_counts = (public is None or self.combine_weights) and len(strata.keys) > 1 and promise is None
        rho = rho if promise is None else promise.rho
        count_rho = rho * self.count_share if paid_counts else Rho(0)
        measured, model = fitting.fit(table, Budget(rho), count_rho, noise_source(self._seed))
        if public is not None:
            weights = combined_weights(strata, measured, public) if self.combine_weights else public
            model = replace(model, weights=weights)
        self.rho_, self.measurements_, self.model_ = rho, measured, model
        return self

    def sample(
        self, rows: int | None = None, *, where: Where | None = None, seed: int | None = None, labels: bool = False
    ) -> pd.DataFrame:
        """Draw synthetic rows as released values. No further cost.

        Args:
            rows: how many, exactly; None for as many as the table has, as estimated.
            where: values or labels that columns must have, as {"SEX": 2} or {"SEX": ["Female"]}.
            seed: makes the draw reproducible, at no loss of privacy.
            labels: categorical columns as pandas categories with their words, as in `Release.rows`.

        Raises:
            InputError: not fitted yet, or see `StratifiedModel.sample`.
        """
        if not self.__sklearn_is_fitted__():
            raise _not_fitted()
        rng = np.random.default_rng(self._seed if seed is None else seed)
        drawn = self.model_.sample(rows, rng, where)
        return worded(drawn.decode(rng), drawn.schema) if labels else drawn.decode(rng)

    def score(self, table: CodedTable | pd.DataFrame, y: None = None) -> float:
        """Minus the 3-way workload error of a sample against these real rows: 0 is best, −2 worst.

        It is what `GridSearchCV` compares. `equistrata.score` has more scores. Privacy: EXACT, so internal.
        """
        if not self.__sklearn_is_fitted__():
            raise _not_fitted()
        schema = self.model_.strata.schema
        real = CodedTable.encode(table, schema) if isinstance(table, pd.DataFrame) else table.select(schema.names)
        drawn = self.model_.sample(None, np.random.default_rng(self._seed))
        errors = [
            np.abs(real.marginal(columns) / max(len(real), 1) - drawn.marginal(columns) / max(len(drawn), 1)).sum()
            for columns in combinations(schema.names, min(3, len(schema.names)))
        ]
        return -float(np.mean(errors))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator before it clones, searches or joins it."""
        from sklearn.utils import InputTags, Tags, TargetTags

        inputs = InputTags(categorical=True, string=True, allow_nan=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=inputs)

    @property
    def _seed(self) -> int | None:
        return self.random_state if self.seed is None else self.seed

    def _mechanism(self) -> Mechanism:
        return named_mechanism(self.mechanism, self.engine) if isinstance(self.mechanism, str) else self.mechanism

    def _price(self) -> Rho:
        try:
            return Rho.from_epsilon_delta(self.epsilon, self.delta)
        except (ValueError, TypeError) as error:
            raise InputError(f"settings 'epsilon' and 'delta' give no usable budget: {error}") from None


def _not_fitted() -> InputError:
    """An error that is scikit-learn's too."""
    from sklearn.exceptions import NotFittedError

    class NotFitted(InputError, NotFittedError):  # type: ignore[misc]
        """The synthesizer is not fitted yet."""

    return NotFitted("the synthesizer is not fitted yet; call fit first")
