"""Tests of known faults in pairs of features, which the privacy accounting must find.

A fault is added to each of the configurations that it may affect, until the check of a configuration fails.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from feature_accounting import ARRAY, assert_accounted_for
from no_noise import NoNoise

import equistrata.flows.release.flow
import equistrata.synth.mechanisms.session
from equistrata.data.units import bounding
from equistrata.data.units.unit import Unit
from equistrata.flows.audit import steps as audit_steps
from equistrata.flows.release import plan as planning
from equistrata.flows.release.measuring import means
from equistrata.flows.release.plan import Plan
from equistrata.flows.release.steps import fitting, reading
from equistrata.flows.run.guard import StepFailed
from equistrata.privacy.budget import Budget
from equistrata.privacy.ledger.ledger import Ledger
from equistrata.privacy.noise import SeededNoise

HOMES, MONTHS, LATER = ["rows", "units"], ["first", "later"], ["later"]
MEANS = ["stratified", "vanilla", "both"]


def unit_as_a_row_in_a_month(patch):
    honest = Plan.drawn.fget
    one_row = lambda plan: plan.price.drawn(Unit(relation=plan.unit.relation))  # noqa: E731
    patch.setattr(Plan, "drawn", property(lambda plan: one_row(plan) if plan.month else honest(plan)))


def audit_without_the_unit(patch):
    honest = audit_steps.examine
    patch.setattr(
        audit_steps, "examine", lambda plan, work: honest(replace(plan, unit=Unit(relation=plan.unit.relation)), work)
    )


def vocabulary_of_all_rows(patch):
    honest, encode, files = reading.partition, reading.encode_open, []

    def partition(plan, work):
        files[:] = [plan.config.input]
        honest(plan, work)

    def encoded(frame, schema, known):
        for name, each in known.items():
            each.code(pd.read_csv(files[0])[name])
        return encode(frame, schema, known)

    patch.setattr(reading, "partition", partition)
    patch.setattr(reading, "encode_open", encoded)


def delta_at_the_month_s_rate(patch):
    honest = planning.openings_of
    patch.setattr(planning, "openings_of", lambda columns, rho, budgets: honest(columns, rho, [min(budgets)]))


def outer_sizes_exact(patch):
    honest = equistrata.synth.mechanisms.session.Session._noisy

    def noisy(self, names, price, groups):
        outer = any(each is not None for each in groups) and set(names) <= {"AREA", "SEX"}
        noise, self.noise = self.noise, NoNoise() if outer else self.noise
        found = honest(self, names, price, groups)
        self.noise = noise
        return found

    patch.setattr(equistrata.synth.mechanisms.session.Session, "_noisy", noisy)


def public_weights_of_exact_sizes(patch):
    honest = fitting.join

    def join(work, strata, engine, shrinkage, public=None, combine=False):
        if public is not None:
            parts = [work.load(work.stratum(i)) for i in range(len(strata.keys) if engine is None else 1)]
            sizes = [len(part) for part in parts]
            if engine is not None:
                table = work.load_table(work.stratum(0), strata.schema)
                sizes = [len(part) for part in strata.partition(table).values()]
            public = replace(public, shares=dict(zip(strata.keys, np.array(sizes) / sum(sizes), strict=True)))
        return honest(work, strata, engine, shrinkage, public, combine)

    patch.setattr(fitting, "join", join)


def not_charged_for_later_means(patch):
    honest = Ledger.reserve

    def reserve(self, dataset, rho, release, particulars, **more):
        later_means = release == "m2" and any("mean of" in part for part in particulars.parts)
        return honest(self, dataset, rho * 0.75 if later_means else rho, release, particulars, **more)

    patch.setattr(Ledger, "reserve", reserve)


def later_means_drawn_twice(patch):
    honest = means._mean

    def mean(plan, work, column, kind, budget, noise):
        if plan.month is not None and plan.month.number > 1:
            honest(plan, work, column, kind, Budget(budget.total), noise.spawn(99))
        return honest(plan, work, column, kind, budget, noise)

    patch.setattr(means, "_mean", mean)


def twice_the_bound_in_a_later_month(patch):
    honest, months = bounding.chosen_rows, []
    chosen = lambda ids, content, most, key: honest(ids, content, most * (1 + (len(months) > 1)), key)  # noqa: E731
    partition = reading.partition

    def read(plan, work):
        months[:] = [1] * (plan.month.number if plan.month else 0)
        partition(plan, work)

    patch.setattr(bounding, "chosen_rows", chosen)
    patch.setattr(reading, "partition", read)


def counts_beside_public_weights_for_free(patch):
    honest = fitting.measure_stratum

    def measure(mechanism, table, budget, count_rho, noise, former=()):
        if count_rho:
            free = Budget(count_rho)
            noise.spawn(98).gaussian(np.array([len(table)]), 1.0, count_rho, free, "again")
        return honest(mechanism, table, budget, count_rho, noise, former)

    patch.setattr(fitting, "measure_stratum", measure)


def empty_strata_without_noise_of_their_own(patch):
    honest = fitting.measure_stratum

    def measure(mechanism, table, budget, count_rho, noise, former=()):
        return honest(mechanism, table, budget, count_rho, noise if len(table) else SeededNoise(7), former)

    patch.setattr(fitting, "measure_stratum", measure)


def held_out_by_place_in_the_file(patch):
    patch.setattr(reading, "share_of_units", lambda ids, share, key: np.arange(len(ids)) % 20 == 0)


def exact_number_of_values(patch):
    honest = means._mean

    def mean(plan, work, column, *rest):
        found = honest(plan, work, column, *rest)
        people = sum(len(work.load(work.outcome(column.name, i))) for i in range(len(plan.strata.keys)))
        return {name: each | {"people": people} for name, each in found.items()}

    patch.setattr(means, "_mean", mean)


def state_of_exact_rows(patch):
    honest, partition, rows = fitting.after, reading.partition, []

    def after(strata, state, month, measured):
        joined, new = honest(strata, state, month, measured)
        known = tuple(replace(each, values=each.values + rows[0] * 1e-9) for each in new.known)
        return joined, type(new)(new.month, known, new.moments)

    def read(plan, work):
        partition(plan, work)
        rows[:] = [sum(len(work.load(work.stratum(i))) for i in range(len(plan.fitted.keys)))]

    patch.setattr(fitting, "after", after)
    patch.setattr(reading, "partition", read)


def of_unit(cost):
    return lambda patch: patch.setattr(Unit, cost, 1)


BYTES = "other bytes|another call|on one table only|not made on the first table|withheld"
COST = "costs|claims|add up"

# Each fault has a function that adds it, the settings in which it may have an effect, and the expected message.
FAULTS = {
    "unit × month: noise for one row": (unit_as_a_row_in_a_month, {"unit": ["rows"], "month": MONTHS}, COST),
    "unit × month: twice the bound later": (twice_the_bound_in_a_later_month, {"unit": HOMES, "month": LATER}, COST),
    "unit × audit: noise for one row": (audit_without_the_unit, {"unit": HOMES, "audit": [True]}, COST),
    "unit × open: texts of all rows": (vocabulary_of_all_rows, {"unit": ["rows"], "open": [True]}, "are kept with"),
    "unit × held-out rows: by place": (held_out_by_place_in_the_file, {"unit": HOMES, "evaluate": ["full"]}, COST),
    "open × month: δ at its own rate": (delta_at_the_month_s_rate, {"open": [True], "month": MONTHS}, "are kept with"),
    "nested × shared: exact sizes outside": (outer_sizes_exact, {"strata": ["nested"]}, BYTES),
    "weights × synthesis: exact sizes": (public_weights_of_exact_sizes, {"weights": ["public"]}, BYTES),
    "weights × counts: counts for free": (counts_beside_public_weights_for_free, {"weights": ["combined"]}, COST),
    "strata × selection: no noise for empty ones": (
        empty_strata_without_noise_of_their_own, {"selection": ["per-stratum"], "strata": ["flat", "nested"]}, BYTES
    ),
    "means × month: not charged later": (not_charged_for_later_means, {"means": MEANS, "month": LATER}, COST),
    "means × month: drawn twice later": (later_means_drawn_twice, {"means": MEANS, "month": LATER}, COST),
    "means × missing: exact number of values": (exact_number_of_values, {"means": MEANS, "missing": [True]}, BYTES),
    "month × state: exact number of rows": (state_of_exact_rows, {"month": LATER}, BYTES),
    "relation × synthesis: as if added": (
        of_unit("synthesis_cost"), {"relation": ["replace-one"], "unit": ["row"]}, COST
    ),
    "relation × means: as if added": (
        of_unit("sum_cost"), {"relation": ["replace-one"], "unit": ["row", "unique"], "means": MEANS}, COST
    ),
    "relation × counts of units: as if added": (
        of_unit("histogram_cost"), {"relation": ["replace-one"], "bound_share": [0.1]}, COST
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(tmp_path_factory, monkeypatch, name):
    plant, where, says = FAULTS[name]
    plant(monkeypatch)
    meeting = [each for each in ARRAY if all(each[factor] in values for factor, values in where.items())]
    assert meeting
    with pytest.raises((AssertionError, StepFailed), match=says):
        [assert_accounted_for(tmp_path_factory.mktemp("fault"), chosen) for chosen in meeting]
