"""Small reports of both kinds that are made in memory, and a noise source that ignores its input."""

from __future__ import annotations

import zlib

import numpy as np
from audit_fixtures import SCHEMA, STRATA, Fixed, people

from equistrata.data.table import CodedTable
from equistrata.eval.audit.internal import internal_audit
from equistrata.eval.audit.public import public_audits
from equistrata.eval.report.findings import ReleaseFacts
from equistrata.eval.report.report import About, AuditPrice, BudgetHistory, ChargeLine, InternalReport, PublicReport
from equistrata.privacy.budget import Rho
from equistrata.privacy.noise import SeededNoise

PRIVATE, OTHER = people((9000, 3000, 300), 1), people((8000, 3500, 600), 7)
FAIR = people((500, 400, 100), 2)
PRICE = Rho.from_epsilon_delta(2, 1e-9)


def spoiled(table=FAIR, group=1):
    """Return a table in which A, B and Y are zero for one group."""
    codes = table.codes.copy()
    codes[codes[:, 0] == group, 1:] = 0
    return CodedTable(codes, table.schema)


class Deaf(SeededNoise):
    """A noise source that returns values of the correct shape which do not depend on the rows."""

    def _answer(self, *about) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(repr((self._sequence.spawn_key, *about)).encode()))

    def _gaussian(self, counts, *claim):
        return self._answer("gaussian").integers(200, 900, np.shape(counts))

    def _laplace(self, values, *claim):
        return self._answer("laplace").uniform(0, 2, np.shape(values))

    def spawn(self, stream):
        key = (*self._sequence.spawn_key, stream)
        return Deaf(np.random.SeedSequence(self._sequence.entropy, spawn_key=key))


def facts(name, **changes):
    """Return the facts in the card of a release."""
    said = {
        "name": name, "variant": name, "folder": name, "mechanism": "MST", "strata": ("G",), "rows": 1000,
        "epsilon": 1.0,
        "delta": 1e-9, "rho": 0.015, "source": "people.csv", "created": "2026-11-01T00:00:00+00:00",
        "software": "equistrata 0", "private": True, "caveats": (), "manifest": "0" * 64,
    }  # fmt: skip
    return ReleaseFacts(**said | changes)


def about(strata=STRATA):
    """Return the description of an audit in a report."""
    return About(
        strata,
        schema=strata.schema.digest,
        made="2026-11-21T12:00:00+00:00",
        software="equistrata 0",
        rows="people.csv",
    )


HISTORY = BudgetHistory(
    "people", 10.0, 1e-9, 1.0, "2026-09-01T00:00:00+00:00",
    (
        ChargeLine("2026-10-01T00:00:00+00:00", "fair", 0.015, 0.015, "committed"),
        ChargeLine("2026-11-21T00:00:00+00:00", "audit-1", 0.05, 0.065, "this audit"),
    ),
    ("fair", "audit-1"), "3:00",
)  # fmt: skip


def public_report(private=PRIVATE, noise=None, tables=None, strata=STRATA, price=PRICE, history=None, classifier=True):
    """Return a public report of the given releases."""
    tables = {"fair": FAIR, "spoiled": spoiled()} if tables is None else tables
    noise = SeededNoise(0) if noise is None else noise
    classifiers = dict.fromkeys(tables, Fixed()) if classifier else None
    audits = public_audits(private, tables, strata, budget=price, noise=noise, classifiers=classifiers)
    return PublicReport(
        about=about(strata),
        releases=tuple(facts(name, rows=len(table)) for name, table in tables.items()),
        audits=tuple(audits.values()),
        price=AuditPrice(2.0, 1e-9, float(price), "audit-1" if history else ""),
        together=(price + Rho(0.03)).epsilon(1e-9),
        history=history,
    )


def internal_report(private=PRIVATE, tables=None, strata=STRATA, history=None):
    """Return an internal report of the given releases."""
    tables = {"fair": FAIR, "spoiled": spoiled()} if tables is None else tables
    audits = [internal_audit(private, table, strata, classifier=Fixed()) for table in tables.values()]
    return InternalReport(
        about=about(strata),
        releases=tuple(facts(name, rows=len(table)) for name, table in tables.items()),
        audits=tuple(audits),
        history=history,
    )


__all__ = [
    "FAIR", "HISTORY", "OTHER", "PRICE", "PRIVATE", "SCHEMA", "STRATA", "Deaf", "about", "facts", "internal_report",
    "public_report", "spoiled",
]  # fmt: skip
