"""The privacy checks for each configuration of the covering array, and a list of the refused combinations."""

import math
import re
from fractions import Fraction

import numpy as np
from covering_array import covering_array
from feature_release import ACCOUNT, DELTA, EPSILON, FACTORS, PARTS, calls_of, more_of, replayed_features

from equistrata.flows.release.steps import streams
from equistrata.privacy.budget import Rho

SURVEY = "weight", "controls", "expand"
# These combinations have no privacy accounting or no meaning. Each entry has the start of the error message.
REFUSED = [
    ({"replicates": 2, "survey": "expand"}, "a release with expand does not support estimates"),
    (
        {"open": True, "relation": "replace-one"},
        "column 'GROUP' is open, and open values can only be found under",
    ),
    ({"open": True, "unit": "units"}, "open columns and combined weights only work if rows"),
    ({"weights": "combined", "unit": "units"}, "open columns and combined weights only work if rows"),
    ({"bound_share": 0.1, "unit": "row"}, "setting 'bound_share' pays for counts of the rows that a bound leaves out"),
    (
        {"bound_share": 0.1, "unit": "unique"},
        "setting 'bound_share' pays for counts of the rows that a bound leaves out",
    ),
    ({"means": "both", "strata": "none"}, "means_estimator 'both' estimates means by strata and over all rows"),
    ({"weights": "public", "strata": "none"}, "weights are given, but no strata"),
    ({"weights": "combined", "strata": "none"}, "weights are given, but no strata"),
    ({"selection": "per-stratum", "levels": "none", "strata": "flat"}, "levels 'none' need shared selection"),
    ({"selection": "per-stratum", "levels": "none", "strata": "nested"}, "levels 'none' need shared selection"),
    *(
        ({"survey": kind, "synthesizer": "gem"}, "synthesizer 'gem' cannot measure the survey weight")
        for kind in SURVEY
    ),
    *(
        ({"survey": kind, "weights": weights}, "group weights are shares of rows, but with the survey weight 'W'")
        for kind in SURVEY
        for weights in ("public", "combined")
    ),
    *(
        ({"survey": kind, "means": means}, "private means are means of rows, but with the survey weight 'W'")
        for kind in SURVEY
        for means in ("stratified", "vanilla", "both")
    ),
    ({"survey": "weight", "rows": 90}, "the survey weights of 90 rows would not sum to the population"),
    ({"survey": "expand", "evaluate": "full"}, "classifiers are scored on private rows"),
    *(
        ({"selection": "shared", "levels": "strata", "strata": strata} | fine, "selection cannot be shared")
        for strata in ("flat", "nested")
        for fine in ({"dates": True}, *({"survey": kind} for kind in SURVEY))
    ),
]
ARRAY = covering_array(FACTORS, [combination for combination, _ in REFUSED], seed=4)


def assert_accounted_for(home, chosen):
    steps, played, faults = replayed_features(home, chosen)
    for name, other in played.items():
        costs = chances = 0.0
        for step, again in zip(steps, other, strict=True):
            assert (step.price, step.drawn) == (again.price, again.drawn), "the neighbour has another price"
            by_stream, claimed = cost_of(home, name, step.name)
            cost = sum(by_stream.values())
            assert cost <= step.price * (1 + 1e-9), f"{step.name} costs {cost / step.price} × what it is charged"
            for stream, part in step.parts.items():
                assert by_stream.get(stream, 0.0) <= part * (1 + 1e-9), f"{step.name} costs too much in {PARTS[stream]}"
            if name == "alike" and chosen["relation"] == "add-remove":  # all of its rows are in one stratum
                assert claimed <= step.drawn * (1 + 1e-9), f"{step.name} claims {claimed / step.drawn} × its price"
            costs, chances = costs + cost, chances + chance_of(step, more_of(home, name, step.name))
            epsilon, delta = step.stated
            assert Rho(costs).epsilon(delta - chances) <= epsilon * (1 + 1e-9), f"{step.name} states too little"
            assert list(step.published) == list(again.published), "the neighbour has other files"
            others = [file for file in step.published if step.published[file] != again.published[file]]
            assert not others, f"other bytes on the neighbour: {others}"
        if name == "alike":
            assert costs > 0.1 * sum(step.price for step in steps), "nobody looked at the unit"
    assert not faults, f"verify finds: {'; '.join(faults)}"


def cost_of(home, name, step):
    """Return the true cost of a step for each noise stream in ρ, and the sum of the claims of all changed calls."""
    first, second = calls_of(home, "table", step), calls_of(home, name, step)
    assert list(first) == list(second), f"calls on one table only: {sorted(set(first) ^ set(second))}"
    cost, claimed = dict[int, float](), 0.0
    for called, call in first.items():
        other, stream = second[called], int(re.split("[-.]", called)[0])
        noise = [(each.kind, each.scale, each.sensitivity, each.claim) for each in (call, other)]
        assert noise[0] == noise[1], f"{called} is drawn with other noise on the neighbour"
        cost[stream] = cost.get(stream, 0.0) + call.cost(other)
        claimed += call.claim if call.moved(other) else 0.0
    return cost, claimed


def chance_of(step, more):
    """Return the probability that a text is kept which only the unit of the neighbour has. The probability must not be
    larger than the corresponding part of δ.

    The budget (ε, δ) is equivalent to a value of ρ. A fraction of ρ is then equivalent to the same fraction of δ. All
    months of a series have a single budget.
    """
    rate = min(Fraction(d) / Rho.from_epsilon_delta(e, d).exact for e, d in ((EPSILON, DELTA), ACCOUNT))
    chance = 0.0
    for place, threshold in enumerate(step.thresholds):
        counts = more.get(f"{streams.FINDING}-{place}.0", ())
        kept = math.fsum(tail(threshold["least"] - int(count), threshold["sigma"]) for count in counts)
        paid = threshold["rho_of_delta"] * float(rate)
        assert kept <= paid, f"values of {threshold['column']} are kept with {kept / paid} × the δ that is paid for"
        chance += kept
    return chance


def tail(least, sigma):
    """Compute P[N ≥ least] for discrete Gaussian noise with parameter σ² from the definition."""
    whole = np.arange(-math.ceil(50 * sigma), math.ceil(50 * sigma) + 1)
    weights = np.exp(-(whole**2) / (2 * sigma**2))
    return float(weights[whole >= least].sum() / weights.sum())
