"""Files of models of any kind.

The module `archive` defines the file format, which includes the kind of the model.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import BinaryIO

from equistrata.data.schema import Schema
from equistrata.errors import InputError
from equistrata.synth.models.archive import Make, read_archive
from equistrata.synth.models.base import Model
from equistrata.synth.models.expanded import EXPANDED_FORMAT, ExpandedModel
from equistrata.synth.models.graphical import GRAPHICAL_FORMAT, GraphicalModel
from equistrata.synth.models.mixtures.mixture import MIXTURE_FORMAT, ProductMixture
from equistrata.synth.models.pool import POOL_FORMAT, SampledModel


def save_model(model: Model, path: Path | BinaryIO) -> None:
    """Write a model. Raises InputError if it is of a kind that has no file format."""
    if not isinstance(model, GraphicalModel | ProductMixture | SampledModel | ExpandedModel):
        raise InputError(f"a model of type {type(model).__name__} cannot be saved; save its measurements instead")
    model.save(path)


def load_model(path: Path | BinaryIO, schema: Schema) -> Model:
    """Read the model that `save_model` wrote.

    Parameters
    ----------
    path : Path or file object
        The file to read.
    schema : Schema
        The schema of the model.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    InputError
        If the file is not a model of this schema.
    """
    kinds: dict[str, Make[Model]] = {
        EXPANDED_FORMAT: partial(ExpandedModel.read, inside=load_model),
        GRAPHICAL_FORMAT: GraphicalModel.read,
        MIXTURE_FORMAT: ProductMixture.read,
        POOL_FORMAT: SampledModel.read,
    }
    return read_archive(path, schema, kinds)
