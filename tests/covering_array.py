"""Pairwise covering arrays, in which each pair of values of two factors is in at least one configuration.

Most faults of software are caused by the interaction of two factors (Kuhn, Wallace and Gallo, doi:10.1109/TSE.2004.24).
The array is constructed with the greedy algorithm of AETG (Cohen, Dalal, Fredman and Patton, doi:10.1109/32.605761).
"""

import random
from itertools import combinations


def pairs_of(configuration):
    """Return all pairs of settings of a configuration. Each setting is a factor and its value."""
    return {frozenset(pair) for pair in combinations(configuration.items(), 2)}


def all_pairs(factors):
    """Return all pairs of values of two different factors, for a mapping from each factor to its values."""
    chosen = combinations(factors.items(), 2)
    return {frozenset({(a, x), (b, y)}) for (a, xs), (b, ys) in chosen for x in xs for y in ys}


def is_refused(configuration, refused):
    """Return True if a complete or partial configuration contains one of the refused combinations."""
    return any(combination.items() <= configuration.items() for combination in refused)


def covering_array(factors, refused, seed=0, candidates=20):
    """Return a list of configurations that cover all pairs of values and contain no refused combination.

    In each step, the best of several candidates is added to the list. A candidate starts with a pair that is not
    covered yet. The other factors are set in random order to the value that covers the most new pairs. If there is no
    valid configuration with a pair, an AssertionError is raised, because this pair must be listed as refused.
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
    """Return a pair in an order that does not depend on hash values."""
    return sorted(map(repr, pair))


def _completed(started, factors, refused, left, rng):
    """Return a configuration with the given settings, or None if all values of a factor are refused."""
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
