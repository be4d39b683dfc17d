"""Pairwise covering arrays: few configurations, in which every two values of two factors meet at least once.

Interactions of two factors cause most faults of software (Kuhn, Wallace and Gallo, doi:10.1109/TSE.2004.24). The greedy
construction is that of AETG (Cohen, Dalal, Fredman and Patton, doi:10.1109/32.605761).
"""

import random
from itertools import combinations


def pairs_of(configuration):
    """Every two settings of a configuration, each a factor and its value."""
    return {frozenset(pair) for pair in combinations(configuration.items(), 2)}


def all_pairs(factors):
    """Every two values of two factors, of a mapping from factors to their values."""
    chosen = combinations(factors.items(), 2)
    return {frozenset({(a, x), (b, y)}) for (a, xs), (b, ys) in chosen for x in xs for y in ys}


def is_refused(configuration, refused):
    """Whether a configuration, perhaps not a whole one, has one of the refused combinations in it."""
    return any(combination.items() <= configuration.items() for combination in refused)


def covering_array(factors, refused, seed=0, candidates=20):
    """Configurations without a refused combination, in which all other pairs of values are covered.

    Each step keeps the best of some candidates: each starts from a pair that is not covered yet, and gives the other
    factors, in random order, the value that covers the most. Raises AssertionError for a pair that no configuration
    without a refused combination has: it is to be listed as refused.
    """
    rng, array = random.Random(seed), []
    left = {pair for pair in all_pairs(factors) if not is_refused(dict(pair), refused)}
    while left:
        wanted = sorted(left, key=sorted_pair)
        made = [_completed(dict(rng.choice(wanted)), factors, refused, left, rng) for _ in range(candidates)]
        made += [] if any(made) else [_completed(dict(wanted[0]), factors, refused, left, rng) for _ in range(1000)]
        best = max(filter(None, made), key=lambda each: len(pairs_of(each) & left), default=None)
        assert best is not None, f"{sorted_pair(wanted[0])} is in refused combinations only, and not listed"
        array.append({name: best[name] for name in factors})
        left -= pairs_of(best)
    return array


def sorted_pair(pair):
    """A pair in an order that does not depend on hashes."""
    return sorted(map(repr, pair))


def _completed(started, factors, refused, left, rng):
    """A configuration with these settings; None where every value of a factor is refused beside the others."""
    configuration = dict(started)
    for name in rng.sample([*factors], len(factors)):
        if name in configuration:
            continue
        allowed = [value for value in factors[name] if not is_refused(configuration | {name: value}, refused)]
        if not allowed:
            return None
        gains = [sum(frozenset({(name, value), each}) in left for each in configuration.items()) for value in allowed]
        configuration[name] = rng.choice([v for v, gain in zip(allowed, gains, strict=True) if gain == max(gains)])
    return configuration
