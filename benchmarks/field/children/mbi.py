"""MST and AIM by their papers over mbi 2: its datasets, estimation, junction trees and sampling, unchanged.

mbi's wheel has no mechanisms, so selection, noise and the budget are ours here: MST as McKenna, Miklau and Sheldon
(arXiv:2108.04978, with rare codes merged), AIM as McKenna et al. (arXiv:2201.12677, over all sets of three columns, 80
MB). Noise is NumPy's, seeded: not private as a program, which changes no score.
"""

from importlib.metadata import version
from itertools import combinations
from math import pi, sqrt

import numpy as np

RARE = 3  # standard deviations, under which MST merges a code
MST_STEPS, SELECT_STEPS, AIM_STEPS = 10_000, 2_500, 1_000
DEGREE, MEGABYTES = 3, 80


def load():
    """Import mbi, with the 64-bit floats that it asks for."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi  # noqa: F401

    return f"mbi {version('mbi')}"


def fit_mst(rows, settings):
    """A third of ρ each for columns, the choice of a tree, and its pairs."""
    import mbi

    rng, rho = np.random.default_rng(settings["seed"]), settings["rho"] / 3
    data = dataset(rows, settings)
    names = list(data.domain.attributes)
    columns = [measured(data, (name,), sqrt(len(names) / (2 * rho)), rng) for name in names]
    groups = {m.clique[0]: merged(np.asarray(m.noisy_measurement) >= RARE * m.stddev) for m in columns}
    total = mbi.estimation.minimum_variance_unbiased_total(columns)  # mbi finds none (1.0) once codes are merged
    small = data.compress(groups)
    columns = [m.compress(groups, data.domain) for m in columns]
    model = mbi.estimation.MirrorDescent().estimate(small.domain, columns, total, iters=SELECT_STEPS)
    pairs = list(combinations(names, 2))
    apart = {pair: distance(small, model, pair) for pair in pairs}
    tree = []
    for _ in names[1:]:
        pairs = [pair for pair in pairs if not linked(tree, *pair)]
        tree.append(pairs[chosen(np.array([apart[p] for p in pairs]), sqrt(8 * rho / (len(names) - 1)), 1.0, rng)])
    both = columns + [measured(small, pair, sqrt(len(tree) / (2 * rho)), rng) for pair in tree]
    model = mbi.estimation.MirrorDescent().estimate(small.domain, both, total, iters=MST_STEPS)
    drawn = model.synthetic_data(settings["draw"], method="sample").decompress(groups).to_dict()
    return np.stack([drawn[name] for name in names], axis=1)


def fit_aim(rows, settings):
    """Rounds that measure the set of columns which the model has worst, and pay more when one taught nothing."""
    import mbi

    rng, rho = np.random.default_rng(settings["seed"]), settings["rho"]
    data = dataset(rows, settings)
    names = list(data.domain.attributes)
    weights = workload(names)
    spent, measurements = 0.0, []
    sigma, epsilon = prices(rho / (16 * len(names)))
    for name in names:
        measurements.append(measured(data, (name,), sigma, rng))
        spent += 1 / (2 * sigma**2)
    model = mbi.estimation.MirrorDescent().estimate(data.domain, measurements, iters=AIM_STEPS)
    last = False
    while not last:
        if rho - spent < 2 * price(sigma, epsilon):
            sigma, epsilon = prices(rho - spent)
            last = True
        spent += price(sigma, epsilon)
        sets = [s for s in weights if fits(model, s, MEGABYTES * spent / rho)]
        gaps = [distance(data, model, s) - sqrt(2 / pi) * sigma * data.domain.size(s) for s in sets]
        scores = np.array([weights[s] * gap for s, gap in zip(sets, gaps, strict=True)])
        clique = sets[chosen(scores, epsilon, max(weights[s] for s in sets), rng)]
        measurements.append(measured(data, clique, sigma, rng))
        before = np.asarray(model.project(clique).datavector())
        model = mbi.estimation.MirrorDescent().estimate(data.domain, measurements, iters=AIM_STEPS, warm_start=model)
        moved = np.abs(np.asarray(model.project(clique).datavector()) - before).sum()
        if moved <= sqrt(2 / pi) * sigma * before.size:
            sigma, epsilon = sigma / 2, 2 * epsilon
    drawn = model.synthetic_data(settings["draw"], method="sample").to_dict()
    return np.stack([drawn[name] for name in names], axis=1)


def dataset(rows, settings):
    import mbi

    columns = {name: rows[:, j] for j, name in enumerate(settings["names"])}
    return mbi.Dataset(columns, mbi.Domain(settings["names"], settings["sizes"]))


def measured(data, clique, sigma, rng):
    import mbi

    exact = np.asarray(data.project(clique).datavector())
    return mbi.LinearMeasurement(exact + rng.normal(0, sigma, exact.size), clique, sigma)


def distance(data, model, clique):
    """The L1 distance of a marginal's counts from the model's."""
    real, made = (np.asarray(source.project(clique).datavector()) for source in (data, model))
    return float(np.abs(real - made).sum())


def merged(kept):
    """A code's group: its own where it is kept, one for all others.

    >>> merged(np.array([True, False, True, False])).tolist(), merged(np.array([True, True])).tolist()
    ([0, 2, 1, 2], [0, 1])
    """
    return np.where(kept, np.cumsum(kept) - 1, kept.sum())


def linked(tree, one, other):
    """Whether the pairs of a tree connect two columns.

    >>> linked([("A", "B"), ("B", "C")], "A", "C"), linked([("A", "B")], "A", "C")
    (True, False)
    """
    found = {one}
    while True:
        more = found | {name for pair in tree if found & set(pair) for name in pair}
        if more == found:
            return other in found
        found = more


def workload(names):
    """Every set of up to three columns → its weight: the columns that it shares with sets of three, added up.

    >>> sorted(workload(["A", "B", "C"]).items())[:3]
    [(('A',), 1), (('A', 'B'), 2), (('A', 'B', 'C'), 3)]
    """
    wanted = list(combinations(names, min(DEGREE, len(names))))
    sets = [s for size in range(1, DEGREE + 1) for s in combinations(names, size)]
    return {s: sum(len(set(s) & set(whole)) for whole in wanted) for s in sets}


def chosen(scores, epsilon, sensitivity, rng):
    """The exponential mechanism: a place, by Gumbel noise."""
    return int(np.argmax(epsilon / (2 * sensitivity) * scores + rng.gumbel(size=len(scores))))


def prices(rho):
    """σ and ε of a round that costs ρ: nine tenths for the measurement.

    >>> round(price(*prices(0.02)), 12)
    0.02
    """
    return sqrt(1 / (1.8 * rho)), sqrt(0.8 * rho)


def price(sigma, epsilon):
    return 1 / (2 * sigma**2) + epsilon**2 / 8


def fits(model, clique, megabytes):
    """Whether the model would stay within its size, or has these columns already."""
    import mbi

    known = any(set(clique) <= set(other) for other in model.cliques)
    return known or mbi.junction_tree.hypothetical_model_size(model.domain, [*model.cliques, clique]) <= megabytes


FITS = {"mst": fit_mst, "aim": fit_aim}
