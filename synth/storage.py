"""Models on disk, whatever their kind: the file says which."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from data.errors import InputError
from data.schema import Schema
from synth.graphical_model import _BROKEN, GraphicalModel
from synth.mechanism import Model
from synth.sampled_model import FORMAT as SAMPLED
from synth.sampled_model import SampledModel


def save_model(model: Model, path: Path) -> None:
    """Write a model as a NumPy archive (no pickle). Raises InputError if models of its kind cannot be saved."""
    if not isinstance(model, GraphicalModel | SampledModel):
        raise InputError("models of this kind cannot be saved")
    model.save(path)


def load_model(path: Path, schema: Schema) -> Model:
    """Read what `save_model` wrote. Raises InputError if the file is not a model of this schema."""
    kind = SampledModel if _format(path) == SAMPLED else GraphicalModel
    return kind.load(path, schema)


def _format(path: Path) -> str | None:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return str(json.loads(str(archive["head"]))["format"])
    except _BROKEN:
        return None
