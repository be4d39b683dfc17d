"""Models on disk, whatever their kind: NumPy archives without pickle, told apart by the format they name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.synth.models.base import Model
from equistrata.synth.models.graphical import BROKEN, GraphicalModel
from equistrata.synth.models.mixture import FORMAT as MIXTURE
from equistrata.synth.models.mixture import ProductMixture
from equistrata.synth.models.pool import FORMAT as SAMPLED
from equistrata.synth.models.pool import SampledModel


def save_model(model: Model, path: Path) -> None:
    """Write a model. Raises InputError if it is of a kind that has no file format."""
    if not isinstance(model, GraphicalModel | ProductMixture | SampledModel):
        raise InputError(f"a model of kind {type(model).__name__} cannot be saved; keep its measurements instead")
    model.save(path)


def load_model(path: Path, schema: Schema) -> Model:
    """Read what `save_model` wrote. Raises InputError if the file is not a model of this schema."""
    kind = _format(path)
    if kind == MIXTURE:
        return ProductMixture.load(path, schema)
    if kind == SAMPLED:
        return SampledModel.load(path, schema)
    return GraphicalModel.load(path, schema)


def _format(path: Path) -> str:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return str(json.loads(str(archive["head"]))["format"])
    except BROKEN:
        return ""
