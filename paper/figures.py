"""The stratification paper's Figures 1 to 9 from measured lines, with the published numbers where there are any.

The paper numbers two pictures 7: its caption's mixture by k, and its text's panels (a) to (c). Both are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.schema import Schema
from equistrata.data.strata import Strata
from equistrata.data.weights import PublicWeights
from equistrata.inference.means.laplace import equal_log_sizes, expected_log_sizes, fit_alpha, least_log_sizes
from paper.curves import Curve, CurvePicture, Panel, by_place
from paper.grid import FINEST, MEANS, MECHANISMS, MIXTURE, SYNTHESIZERS, FigureSettings, runs_of
from paper.means import COINPRESS, ESTIMATORS, STRATIFIED, MeanLine
from paper.mixture import MixtureLine
from paper.synthesizers import REAL, VANILLA, Cell, Line

Lines = Mapping[str, Mapping[Any, Any]]

SIZES_2018 = "ny2018_sex_rac1p.csv"
SYNTHESIZERS_2018, MEANS_2018 = "stratification_synthesizers.csv", "stratification_means.csv"
PUBLISHED = "published by the paper (New York 2018)"
CLASSIFIED = ("accuracy", "demographic_parity_ratio", "fnr_difference")  # linear axes, and what real rows reach
SCORES: dict[
    int, tuple[str, str, list[tuple[str, str, str, str]]]
] = {  # figure → title, how to read it, and of each row of panels: title, axis, score, column of published numbers
    4: (
        "Figure 4: employment classifier trained on synthetic rows",
        "Accuracy of a random forest on the 20 % of real rows that no synthesizer saw.",
        [("{}", "accuracy", "accuracy", "accuracy")],
    ),
    5: (
        "Figure 5: parity error of the means",
        "Definition 11 over the strata of SEX × RAC1P with at least 0.1 % of the rows, averaged over the columns that "
        "define no strata (the published curves: over all).",
        [("{}", "parity error over SEX × RAC1P", "parity_means_sex_rac1p", "parity_sex_rac1p")],
    ),
    7: (
        "Figure 7 (a) to (c): disparity of means, demographic parity, false negatives",
        "Over SEX × RAC1P: (a) the largest relative error of a column's mean in a stratum, 0 is best; (b) least over "
        "greatest selection rate, 1 is even; (c) greatest less least false-negative rate, 0 is even.",
        [
            ("(a) Maximum disparity, {}", "largest relative error", "maximum_disparity", ""),
            (
                "(b) Demographic parity, {}",
                "ratio of selection rates",
                "demographic_parity_ratio",
                "demographic_parity_ratio",
            ),
            ("(c) False negatives, {}", "largest FNR difference", "fnr_difference", "fnr_difference"),
        ],
    ),
    9: (
        "Figure 9: parity error, where f is the 3-way marginals",
        "Workload error of all 3-way marginals, summed over strata, plus 1/k of the population's.",
        [
            ("{} by RAC1P", "parity error of 3-way marginals", "parity_workload3_rac1p", ""),
            ("{} by SEX × RAC1P", "parity error of 3-way marginals", "parity_workload3_sex_rac1p", ""),
        ],
    ),
}
MIXTURE_NAMES = {"coinpress": "Coinpress", "stratified": "StratCoinpress", "public": "PubStratCoinpress"}
FORMS = (
    "vanilla: one model for all rows; a name of columns: the paper's form, each stratum by itself; (default): "
    "equistrata's, which chooses once for all strata, measures at all levels, and shrinks small strata towards the "
    "others."
)


def pictures(settings: FigureSettings, found: Lines, rows: str) -> list[CurvePicture]:
    """The pictures of a figure.

    Args:
        found: kind → place → line; every place that `runs_of(settings)` names must be there.
        rows: what the rows are, for the note.
    """
    figure, band = settings.figure, "bands the 10 % to 90 % quantiles"
    lines = {kind: [found[kind][cell] for cell in cells] for kind, cells in runs_of(settings).cells.items()}
    seeds = f"Lines are means of {settings.runs} seeds, {band}." if settings.runs > 1 else "One seed."
    exact = f"Not private: exact scores of {rows}; noise from seeds. {seeds}"
    simulated = f"Simulated rows, noise from seeds. Lines are means over runs, {band}."
    if figure == 1:
        return [_theory()]
    if figure in (2, 8):
        return [_means(figure, lines[MEANS], exact)]
    if figure in (3, 6):
        return [_mixture_by_size(figure, lines[MIXTURE], simulated)]
    drawn = [_by_mechanism(figure, lines[SYNTHESIZERS], exact)]
    return [*drawn, _mixture_by_groups(lines[MIXTURE], simulated)] if figure == 7 else drawn


def _theory() -> CurvePicture:
    strata = Strata.over(Schema.load("acs_employment").select(["SEX", "RAC1P", "ESR"]), ["SEX", "RAC1P"])
    weights = PublicWeights.from_table(_public(SIZES_2018), strata, SIZES_2018)
    assert weights.total is not None
    race: dict[Any, float] = {}
    for (_, value), share in weights.shares.items():
        race[value] = race.get(value, 0.0) + share
    shares, n = list(race.values()), weights.total
    k = len(shares)
    alphas = np.linspace(0.1, 1.0, 91)
    fitted = {fit_alpha(shares, method="likelihood"), fit_alpha(shares, method="moments")}
    curves = (
        Curve.plain("Theorem 10", {a: expected_log_sizes(k, a, n) for a in alphas}),
        Curve.plain("α fitted to New York 2018", {a: expected_log_sizes(k, a, n) for a in fitted}, style="points"),
    )
    levels = {
        "k ln(n/k), Proposition 9": equal_log_sizes(k, n),
        "ln(n − k + 1), least": least_log_sizes(k, n),
        "New York 2018 itself": float(np.log(np.array(shares) * n).sum()),
    }
    panel = Panel(
        f"k = {k}, n = {n:,.0f}", curves, "Dirichlet α", "E Σ log|Gᵢ|", x_log=False, y_log=False, levels=levels
    )
    return CurvePicture(
        "figure-1",
        "Figure 1: Theorem 10 between its bounds",
        "Small α (one dominant group) costs little, α = 1 nearly as much as equal groups. The two points are the α of "
        "New York's race groups by moments (left: the paper's 0.13) and by maximum likelihood (right).",
        "Theory: nothing was read but the published sizes of New York 2018.",
        (panel,),
        1,
    )


def _means(number: int, lines: Sequence[MeanLine], note: str) -> CurvePicture:
    published = _public(MEANS_2018)
    outcomes = list(dict.fromkeys(line.outcome for line in lines))
    strata = {line.strata: line.declared for line in lines}
    panels = []
    for score, ending, title in (("population_error", "error", "population"), ("parity_error", "parity", "parity")):
        for outcome in outcomes:
            curves = [
                Curve.of(
                    name,
                    by_place(
                        (line.declared, getattr(line, score))
                        for line in lines
                        if (line.outcome, line.estimator) == (outcome, name)
                    ),
                )
                for name in ESTIMATORS
            ]
            told = published[(published.outcome == outcome) & published.strata.isin(strata)]
            for name, column in ((COINPRESS, f"coinpress_{ending}"), (STRATIFIED, f"strat_coinpress_{ending}")):
                points = by_place(zip((strata[by] for by in told.strata), told[column], strict=True))
                means = {x: float(np.mean(values)) for x, values in points.items()}
                curves.append(Curve.plain(f"{name}, published", means, "dotted", name))
            panels.append(Panel(f"{outcome}: {title}", tuple(curves), "declared strata k", f"{title} error"))
    return CurvePicture(
        f"figure-{number}",
        f"Figure {number}: means by Coinpress, stratified and not",
        "Above the relative error of the population's mean, below the parity error (Definition 11), against the number "
        "of declared strata; where two choices of columns give one k, both are in the mean and the band. ρ = 0.5 for "
        "each estimate. (default), (no shrinkage): as a release estimates it, with noisy sizes, without and with "
        "`--no-shrinkage`.",
        note,
        tuple(panels),
        len(outcomes),
        PUBLISHED,
    )


def _mixture_by_size(number: int, lines: Sequence[MixtureLine], note: str) -> CurvePicture:
    groups, alphas = (sorted({getattr(line, name) for line in lines}) for name in ("k", "alpha"))
    panels = []
    against = ("", "_rows") if number == 3 else ("",)
    for alpha in alphas:
        for ending in against:
            for k in groups:
                chosen = [line for line in lines if (line.k, line.alpha) == (k, alpha)]
                title = f"k = {k}, α = {alpha:g}"
                error = "error against the rows" if ending else "error"
                panels.append(Panel(title, _mixture_curves(chosen, "n", ending), "rows n", error, x_log=False))
    extra = " Above against the mixture's mean, below against the mean of the rows drawn." if number == 3 else ""
    return CurvePicture(
        f"figure-{number}",
        f"Figure {number}: means of a mixture of k Gaussians, by rows",
        "Absolute error of the mean; a group's deviation is 0.1 to 2." + extra + " ρ = 0.5.",
        note,
        tuple(panels),
        len(groups),
    )


def _mixture_by_groups(lines: Sequence[MixtureLine], note: str) -> CurvePicture:
    alphas, n = sorted({line.alpha for line in lines}), lines[0].n
    panels = [
        Panel(f"α = {a:g}", _mixture_curves([x for x in lines if x.alpha == a], "k", ""), "groups k", "error")
        for a in alphas
    ]
    return CurvePicture(
        "figure-7-groups",
        f"Figure 7 (as captioned): means of a mixture, by groups; n = {n:,}",
        "Absolute error of the mean against the mixture's own, as the number of groups grows. ρ = 0.5.",
        note,
        tuple(panels),
        len(panels),
    )


def _mixture_curves(lines: Sequence[MixtureLine], axis: str, ending: str) -> tuple[Curve, ...]:
    return tuple(
        Curve.of(shown, by_place((getattr(line, axis), getattr(line, name + ending)) for line in lines))
        for name, shown in MIXTURE_NAMES.items()
    )


def _by_mechanism(number: int, lines: Sequence[Line], note: str) -> CurvePicture:
    """Scores of the synthesizers against ε: a row of panels for each score, a panel for each mechanism."""
    panels = []
    title, reading, scores = SCORES[number]
    for name, axis, score, published in scores:
        linear = score in CLASSIFIED
        by = {"parity_workload3_rac1p": "RAC1P", "parity_workload3_sex_rac1p": FINEST}.get(score)
        shown = [line for line in lines if by is None or line.strata in (VANILLA, by)]
        real = [getattr(line, score) for line in lines if line.mechanism == REAL]
        levels = {"trained on real rows": float(np.mean(real))} if linear else None
        for mechanism in MECHANISMS:
            curves = _by_epsilon(shown, mechanism, score, published)
            called = name.format(mechanism.upper())
            panels.append(Panel(called, curves, "ε", axis, y_log=not linear, levels=levels))
    dotted = PUBLISHED if any(published for *_, published in scores) else ""
    return CurvePicture(f"figure-{number}", title, f"{reading} {FORMS}", note, tuple(panels), len(MECHANISMS), dotted)


def _by_epsilon(lines: Iterable[Line], mechanism: str, score: str, published: str) -> tuple[Curve, ...]:
    """A curve for each variant of a mechanism, and the published one of the same name where there is one."""
    mine = [line for line in lines if line.mechanism == mechanism]
    variants = {(line.strata, line.form): _name(line.strata, line.form) for line in mine}
    curves = []
    for variant, name in variants.items():
        pairs = ((line.epsilon, getattr(line, score)) for line in mine if (line.strata, line.form) == variant)
        curves.append(Curve.of(name, by_place(pairs)))
    if published:
        table = _public(SYNTHESIZERS_2018)
        table = table[(table.synthesizer == mechanism.upper()) & table.epsilon.isin({line.epsilon for line in mine})]
        for (strata, form), name in variants.items():
            part = table[table.strata == strata]
            if form != "default" and len(part):
                points = dict(zip(part.epsilon, part[published], strict=True))
                curves.append(Curve.plain(f"{name}, published", points, "dotted", name))
    return tuple(curves)


def _name(strata: str, form: str) -> str:
    return Cell("", strata, form, 0.0, 0).name.removeprefix("_")


def _public(name: str) -> pd.DataFrame:
    """A published table that comes along."""
    place = (
        resources.files("equistrata.data").joinpath("public")
        if name == SIZES_2018
        else resources.files("paper") / "published"
    )
    with resources.as_file(place.joinpath(name)) as path:
        return pd.read_csv(path)
