"""Whether a release's number of rows is noise: at a small ε thousands may become millions, or none.

Post-processing of what was measured, no cost.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

from equistrata.analysis.uncertainty.evidence import Evidence
from equistrata.synth.measurements import Measurement, Where, total_estimate

_LEVEL = 0.95
_FACTOR = 2.0  # times as many rows, or as few, that the interval must not hold


def noisy_rows(evidence: Evidence) -> dict[str, Any] | None:
    """How many rows the table may have, with `estimate`, `lower`, `upper` and `level`; None where that is well known:
    where the interval has neither twice nor half of the estimate in it.
    """
    by_stratum: dict[Where, list[Measurement]] = {}
    for measurement in evidence.all:
        by_stratum.setdefault(measurement.where, []).append(measurement)
    readings = [total_estimate(by_stratum.pop((), []))]
    if len(by_stratum) >= len(evidence.strata.keys):  # of every stratum by itself
        parts = [total_estimate(found) for found in by_stratum.values()]
        readings.append((sum(rows for rows, _ in parts), sum(sigma**2 for _, sigma in parts) ** 0.5))
    if any(sigma == 0 for _, sigma in readings):
        return None
    precision = sum(sigma**-2 for _, sigma in readings)
    if not precision:
        return None
    rows = sum(rows * sigma**-2 for rows, sigma in readings) / precision
    half = NormalDist().inv_cdf((1 + _LEVEL) / 2) * precision**-0.5
    if rows - half > rows / _FACTOR and rows + half < rows * _FACTOR:
        return None
    kept = 1 - evidence.held_out
    lower, upper = max(rows - half, 0.0), max(rows + half, 0.0)
    return {
        "estimate": round(rows / kept),
        "lower": round(lower / kept),
        "upper": round(upper / kept),
        "level": _LEVEL,
    }
