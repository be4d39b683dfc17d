"""The stratified synthesizer, which follows the conventions of scikit-learn.

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
from equistrata.data.table import CodedTable, with_labels
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
DEFAULT_COUNT_SHARE = 0.02  # the fraction of ρ for noisy sizes of the strata


def stratified_name(mechanism: Mechanism, strata: Sequence[str]) -> str:
    """Return the name of a stratified variant as in the stratification paper.

    Examples are `MST_vanilla` for a table without strata and `MST_SEX_RAC1P` for strata by two columns.
    """
    return "_".join([mechanism.name, *(strata or ["vanilla"])])


@dataclass(eq=False, repr=False)
class StratifiedSynthesizer:
    """A synthesizer that fits every stratum and draws synthetic rows.

    Parameters
    ----------
    mechanism : str or Mechanism, default="mst"
        The mechanism, or its name: "mst", "aim", "gem" or "package.module:Class" (see docs/foreign.md).
    strata : sequence of str, default=()
        The columns that define the strata. A nested column is written as `ST/PUMA`. If empty, the whole table is one
        stratum.
    epsilon, delta : float, default=1.0 and 1e-9
        The privacy cost of the whole fit, which is (ε, δ)-DP under adding or removing one row.
    weights : PublicWeights or "noisy", default="noisy"
        The sizes of the strata. If "noisy", the sizes are measured with the fraction `count_share` of ρ.
    combine_weights : bool, default=False
        If True, the public weights may be wrong. Noisy counts are then measured as well, and both are combined by
        inverse variance (`combined_weights`).
    count_share : float, default=0.02
        The fraction of ρ for noisy sizes of the strata, in [0, 1).
    engine : {"numpy", "mbi"}, default="numpy"
        The engine that estimates the models, if the mechanism is given by name. The engine "mbi" is the reference
        implementation and must be installed as an extra.
    shrinkage : bool, default=True
        If True, the estimates of small strata are shrunk toward the other strata (`predict_from_others`). This has no
        privacy cost.
    selection : {"shared", "per-stratum"} or None, default=None
        If "shared", one selection of marginals serves all strata. If "per-stratum", each stratum has its own selection.
        If None, the selection is shared if the mechanism and the schema allow it (`shared_selection`), and each stratum
        has its own selection if all strata are large.
    levels : {"auto", "strata", "none"}, default="auto"
        If "auto", marginals are measured both over all rows and within strata. If "strata", they are only measured
        within strata. If "none", they are only measured over all rows (`Levels`).
    workers : int, default=1
        The number of processes that fit strata in parallel.
    seed : int or None, default=None
        The seed of the noise, for tests only. The result is reproducible and therefore NOT private. If None, secure
        noise is used.
    random_state : int or None, default=None
        The name of `seed` in scikit-learn.
    schema : Schema or None, default=None
        The schema that encodes the data frames passed to `fit` and `score`.

    Attributes
    ----------
    model_ : StratifiedModel
        The fitted model.
    measurements_ : dict of tuple to list of Measurement
        The measurements of each stratum. If the selection is shared, the key `()` has the measurements of the whole
        table.
    rho_ : Rho
        The privacy cost of the fit in zCDP.

    Raises
    ------
    InputError
        If no table could be fitted with these settings.
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
            raise InputError(f"strata is {self.strata!r}, but must be a list; give a list of column names")
        whole("workers", self.workers, 1)
        if not 0 <= number("count_share", self.count_share) < 1:
            raise InputError(
                f"count_share is {self.count_share}, but must be a share of the budget; give at least 0 and less than 1"
            )
        if not isinstance(self.weights, PublicWeights) and self.weights != NOISY:
            raise InputError(f"unknown weights {self.weights!r}; give PublicWeights or {NOISY!r}")
        if self.combine_weights and not (isinstance(self.weights, PublicWeights) and len(self.strata)):
            raise InputError(
                "combine_weights needs public weights to combine with noisy counts; give strata and their PublicWeights"
            )
        if not isinstance(self.mechanism, str | Mechanism):
            raise InputError(f"mechanism is of type {type(self.mechanism).__name__}; give a name or a Mechanism")
        if self.seed is not None and self.random_state is not None:
            raise InputError("seed and random_state have the same meaning; give one of them")
        check_selection(self.selection, self.levels)
        self._mechanism()
        self._price()

    @property
    def name(self) -> str:
        """The name of the variant, for example `MST_SEX_RAC1P`."""
        return stratified_name(self._mechanism(), [name.rpartition(BETWEEN)[2] for name in self.strata])

    def __repr__(self) -> str:
        usual = signature(type(self)).parameters
        given = {name: repr(value) for name, value in self.get_params().items()}
        changed = (f"{name}={said}" for name, said in given.items() if said != repr(usual[name].default))
        return f"{type(self).__name__}({', '.join(changed)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the settings by name, as scikit-learn expects.

        Parameters
        ----------
        deep : bool, default=True
            This parameter is ignored because no setting has settings of its own.

        Returns
        -------
        dict of str to object
            The value of each setting.
        """
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change some settings.

        Parameters
        ----------
        **params : object
            The new values of the settings.

        Returns
        -------
        StratifiedSynthesizer
            This synthesizer.

        Raises
        ------
        InputError
            If a setting is unknown or has an invalid value. In this case, no setting is changed.
        """
        before = self.get_params()
        for name in params:
            if name not in before:
                raise InputError(f"unknown setting {name!r}; choose among {', '.join(before)}")
        type(self)(**before | params)  # the constructor checks the settings
        vars(self).update(params)
        return self

    def fit(self, table: CodedTable | pd.DataFrame, schema: Schema | None = None) -> Self:
        """Fit the synthesizer to private rows.

        Parameters
        ----------
        table : CodedTable or DataFrame
            The private rows, either encoded or as a data frame of raw values.
        schema : Schema or None, default=None
            The schema that encodes a data frame. If None, the `schema` of the synthesizer is used.

        Returns
        -------
        StratifiedSynthesizer
            This synthesizer.

        Raises
        ------
        InputError
            If the table, the strata or the weights do not match the schema, if the schema declares a unit of several
            rows, or if it declares a survey weight that the named mechanism does not support.

        Privacy
        -------
        The fit is (epsilon, delta)-DP. Neighbouring tables differ by one added or removed row.
        """
        if isinstance(table, pd.DataFrame):
            schema = self.schema if schema is None else schema
            if not isinstance(schema, Schema):
                raise InputError("a data frame needs a schema to encode it; give schema=Schema.load(...)")
            table = CodedTable.encode(table, schema)
        if not isinstance(table, CodedTable):
            raise InputError(
                f"table is of type {type(table).__name__}; give a data frame with its schema, or coded rows"
            )
        # If units are weighed, they are bounded and each unit counts as one.
        if table.schema.unit != ROW and not table.schema.weighed:
            raise InputError(
                f"schema {table.schema.name!r} declares a unit ({table.schema.unit.words}), but fit only protects "
                "one row; use equistrata.release, which bounds and protects units, or remove the unit from the schema"
            )
        if table.schema.survey_weight is not None and isinstance(self.mechanism, str):
            check_weighing(self.mechanism)
        strata = Strata.over(table.schema, self.strata)
        public = self.weights if isinstance(self.weights, PublicWeights) else None
        if public is not None and set(public.shares) != set(strata.keys):
            raise InputError(
                "the weights are for other strata; make them for the same columns and schema as these strata"
            )
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
        """Draw synthetic rows.

        Sampling has no privacy cost.

        Parameters
        ----------
        rows : int or None, default=None
            The exact number of rows. If None, the estimated number of rows of the table is used.
        where : mapping or None, default=None
            The values or labels that columns must have, for example {"SEX": 2} or {"SEX": ["Female"]}.
        seed : int or None, default=None
            The seed of the draw. A seed makes the draw reproducible and does not weaken privacy.
        labels : bool, default=False
            If True, categorical columns are returned as pandas categories with their labels, as in `Release.rows`.

        Returns
        -------
        DataFrame
            The synthetic rows as released values.

        Raises
        ------
        InputError
            If the synthesizer is not fitted yet, or if `StratifiedModel.sample` raises it.
        """
        if not self.__sklearn_is_fitted__():
            raise _not_fitted()
        rng = np.random.default_rng(self._seed if seed is None else seed)
        drawn = self.model_.sample(rows, rng, where)
        return with_labels(drawn.decode(rng), drawn.schema) if labels else drawn.decode(rng)

    def score(self, table: CodedTable | pd.DataFrame, y: None = None) -> float:
        """Compute the negative 3-way workload error of a sample.

        `GridSearchCV` can compare this score. See `equistrata.score` for more scores.

        Parameters
        ----------
        table : CodedTable or DataFrame
            The real rows.
        y : None
            This parameter is ignored. It is present for API consistency.

        Returns
        -------
        float
            The score, in [−2, 0]. The best value is 0.

        Raises
        ------
        InputError
            If the synthesizer is not fitted yet.

        Privacy
        -------
        The score is EXACT, so it is for internal use only.
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
        """Return the tags that scikit-learn reads before it clones an estimator or uses it in a search."""
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
    """Create an error that is also the error of scikit-learn."""
    from sklearn.exceptions import NotFittedError

    class NotFitted(InputError, NotFittedError):  # type: ignore[misc]
        """The synthesizer is not fitted yet."""

    return NotFitted("the synthesizer is not fitted yet; call fit first")
