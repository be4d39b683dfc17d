"""MST and AIM of smartnoise-synth. The functions are those of our adapter, which declare the domain."""

import importlib.util
from importlib.metadata import version
from pathlib import Path

WORKER = Path(__file__).resolve().parents[3] / "synth/foreign/_foreign_worker.py"


def load():
    """Import the packages that are used in the fits, and return their version."""
    worker().check_packages()
    return f"smartnoise-synth {version('smartnoise-synth')}"


def worker():
    spec = importlib.util.spec_from_file_location("foreign_worker", WORKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fit_mst(rows, settings):
    return worker().fit_mst(rows, settings)


def fit_aim(rows, settings):
    return worker().fit_aim(rows, settings)


FITS = {"mst": fit_mst, "aim": fit_aim}
