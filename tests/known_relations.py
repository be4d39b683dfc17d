"""A simulated population with known relations, and the evidence that a reader has after a fit."""

import numpy as np

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.data.schema import Column, Schema
from equistrata.data.strata import Strata
from equistrata.data.table import CodedTable
from equistrata.privacy.budget import Budget, Rho
from equistrata.privacy.noise import SeededNoise
from equistrata.synth.registry import mechanism
from equistrata.synth.strata.fitting import measure_stratum
from equistrata.synth.strata.selection import shared_selection
from equistrata.synth.synthesizer import DEFAULT_COUNT_SHARE, StratifiedSynthesizer

SCHEMA = Schema(
    "made up",
    (
        Column("G", values=(1, 2), labels=((1, "one"), (2, "two"))),
        Column("R", values=("a", "b", "c")),
        Column("X", values=(0, 1, 2, 3), type="ordinal"),
        Column("Y", values=(0, 1)),
        Column("Z", values=(0, 1, 2)),
        Column("W", values=(0, 1)),
    ),
)


def people(rows, seed=0):
    """Return a table in which X depends on G, Y on X, and Z on Y and R, while W is independent.

    The groups have different sizes.
    """
    rng = np.random.default_rng(seed)
    g, r = rng.random(rows) < 0.4, rng.choice(3, rows, p=[0.75, 0.2, 0.05])
    x = np.clip(rng.poisson(1 + 0.5 * g), 0, 3)
    y = rng.random(rows) < 0.2 + 0.15 * x
    z = (rng.random(rows) < 0.3 + 0.3 * y).astype(int) + (rng.random(rows) < 0.1 + 0.2 * (r == 1))
    codes = np.column_stack([g, r, x, y, z, rng.random(rows) < 0.5]).astype(np.uint8)
    return CodedTable(codes, SCHEMA)


def evidence_of(table, epsilon, strata=(), name="mst", seed=0, selection=None):
    """Return the evidence of a fit with a seed.

    With shared selection, the measurements are made without a model.
    """
    own, made = Strata.over(table.schema, strata), mechanism(name)
    shared = shared_selection(made, own, selection)
    if shared is None:
        fit = StratifiedSynthesizer(name, [*strata], epsilon=epsilon, delta=1e-9, seed=seed, selection=selection)
        return Evidence(own, fit.fit(table).measurements_, made)
    rho = Rho.from_epsilon_delta(epsilon, 1e-9)
    found = measure_stratum(shared, table, Budget(rho), rho * DEFAULT_COUNT_SHARE, SeededNoise(seed))
    return Evidence(own, {(): found}, made)
