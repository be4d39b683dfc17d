"""SWIFT, AIM and MST of google/dpsynth for discrete columns, with their default settings."""

from functools import partial
from importlib.metadata import version


def load():
    """Import dpsynth and return its version."""
    import dpsynth.discrete_mechanisms  # noqa: F401

    return f"dpsynth {version('dpsynth')}, mbi {version('mbi')}"


def fit(name, rows, settings):
    """Fit a mechanism and return its rows. The number of rows is its noisy estimate."""
    import mbi
    import numpy as np
    from dpsynth import discrete_mechanisms

    names = settings["names"]
    config = discrete_mechanisms.DiscreteConfig(mechanism=getattr(discrete_mechanisms, f"{name}Config")())
    calibrated = config.configure(zcdp_rho=settings["rho"], delta=settings["delta"])
    data = mbi.Dataset({name: rows[:, j] for j, name in enumerate(names)}, mbi.Domain(names, settings["sizes"]))
    drawn = calibrated(np.random.default_rng(settings["seed"]), data).synthetic_data.to_dict()
    return np.column_stack([drawn[name] for name in names])


FITS = {"swift": partial(fit, "SWIFT"), "aim": partial(fit, "AIM"), "mst": partial(fit, "MST")}
