"""Tests of the NumPy engine, which is compared with the reference implementation."""

from itertools import combinations

import numpy as np
import pytest

from equistrata.data.schema import Column, Impossible, Schema
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.estimation import MirrorDescent
from equistrata.synth.registry import mechanism

pytest.importorskip("mbi")

from equistrata.synth.models.mbi import MbiEngine

COLUMNS = (Column("A", values=(0, 1)), Column("B", values=(0, 1, 2)), Column("C", values=(0, 1, 2, 3)))
PLAIN = Schema("plain", (*COLUMNS, Column("D", values=(0, 1))))
ZEROS = Schema("zeros", PLAIN.columns, impossible=(Impossible(("A", "B"), ((0,), (1, 2))),))
ZEROS2 = Schema(
    "more zeros",
    PLAIN.columns,
    impossible=(Impossible(("A", "B"), ((1,), (0,))), Impossible(("C", "D"), ((0, 1), (1,)))),
)
CLIQUES = {
    "tree": [("A",), ("B",), ("A", "B"), ("C", "B"), ("C", "D")],
    "cycle": [("A", "B"), ("B", "C"), ("D", "C"), ("A", "D")],
    "triple": [("A", "B", "C"), ("D",), ("D", "A")],
    "missing": [("A", "C"), ("B",)],
}


def measured(schema, cliques, seed, merge=(), sigma=4.0):
    """Return noisy marginals of about 500 rows that satisfy the structural zeros of the schema."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(int(np.prod(schema.sizes)), 0.3)).reshape(schema.sizes)
    for zero in schema.impossible:
        index = [slice(None)] * joint.ndim
        for name, codes in zip(zero.columns, zero.codes, strict=True):
            index[schema.index(name)] = codes
        joint[
            np.ix_(*(np.arange(n)[s] if isinstance(s, slice) else s for s, n in zip(index, joint.shape, strict=True)))
        ] = 0
    joint *= 500 / joint.sum()
    out = []
    for columns in cliques:
        axes = [schema.index(name) for name in columns]
        counts = np.einsum(joint, range(joint.ndim), axes)
        blank = Measurement(columns, np.zeros((1,) * len(columns)), sigma, tuple(dict(merge).get(c) for c in columns))
        merged = blank.merged(counts)
        out.append(Measurement(columns, merged + rng.normal(0, sigma, merged.shape), sigma, blank.groups))
    return out


def distance(schema, measurements, engine):
    """Return the largest L1 distance between the normalised marginals of the two engines, over all pairs of columns."""
    ours = MirrorDescent(iterations=20_000, tolerance=1e-10).estimate(schema, measurements)
    theirs = engine.estimate(schema, measurements)
    assert ours.total == pytest.approx(theirs.total)
    gaps = []
    for pair in combinations(schema.names, 2):
        for zero in schema.impossible:
            if set(pair) == set(zero.columns):
                mask = schema.zero_mask(zero)
                assert (ours.marginal(zero.columns)[mask] == 0).all()
                assert (theirs.marginal(zero.columns)[mask] == 0).all()
        gaps.append(np.abs(ours.marginal(pair) - theirs.marginal(pair)).sum() / ours.total)
    return max(gaps)


def test_agrees_on_a_tree_with_zeros_and_merged_values():
    merge = {"C": (0, 1, 2, 2)}
    assert distance(ZEROS, measured(ZEROS, CLIQUES["tree"], 1, merge.items()), MbiEngine(3000)) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("merge", [{}, {"B": (0, 1, 1), "C": (1, 0, 1, 2)}], ids=["apart", "merged"])
@pytest.mark.parametrize("schema", [PLAIN, ZEROS, ZEROS2], ids=lambda schema: schema.name)
@pytest.mark.parametrize("shape", CLIQUES)
def test_agrees(shape, schema, merge):
    assert distance(schema, measured(schema, CLIQUES[shape], 7, merge.items()), MbiEngine(20_000)) < 1e-3


def test_without_measurements_both_are_uniform_over_what_is_possible():
    for engine in (MirrorDescent(), MbiEngine(10)):
        np.testing.assert_allclose(engine.estimate(ZEROS, []).marginal(["A", "B"]), [[0.25, 0, 0], [0.25] * 3])


def test_the_engine_is_chosen_by_name():
    assert isinstance(mechanism("mst", "mbi").engine, MbiEngine)
    assert isinstance(mechanism("mst").engine, MirrorDescent)
