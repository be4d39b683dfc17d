"""google/dpsynth's MST, AIM and SWIFT with their own defaults, behind its one-way measurements.

Written from its code of version 0.3.0 and not yet run by this file: it is in no package index.
"""

from importlib.metadata import version

import numpy as np


def load():
    """Import the mechanisms, with the 64-bit floats that mbi asks for."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import dpsynth.discrete_mechanisms  # noqa: F401

    return f"dpsynth {version('dpsynth')}"


def fit_mst(rows, settings):
    from dpsynth.discrete_mechanisms import MSTConfig

    return fit(MSTConfig(), rows, settings)


def fit_aim(rows, settings):
    from dpsynth.discrete_mechanisms import AIMConfig

    return fit(AIMConfig(), rows, settings)


def fit_swift(rows, settings):
    from dpsynth.discrete_mechanisms import SWIFTConfig

    return fit(SWIFTConfig(), rows, settings)


def fit(mechanism, rows, settings):
    import mbi
    from dpsynth.discrete_mechanisms import DiscreteConfig

    names = settings["names"]
    data = mbi.Dataset({n: rows[:, j] for j, n in enumerate(names)}, mbi.Domain(names, settings["sizes"]))
    ready = DiscreteConfig(mechanism=mechanism).calibrate(epsilon=settings["epsilon"], delta=settings["delta"])
    drawn = ready(np.random.default_rng(settings["seed"]), data).synthetic_data.to_dict()
    return np.stack([drawn[name] for name in names], axis=1)


FITS = {"mst": fit_mst, "aim": fit_aim, "swift": fit_swift}
