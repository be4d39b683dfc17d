"""A cache of models for tests in which the same release is modelled several times."""

import hashlib
import pickle
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from equistrata.analysis.uncertainty.evidence import Evidence


@contextmanager
def models_once():
    """Cache the models of `Evidence` in the block.

    A model is fitted again if the measurements or the mechanism are different.
    """
    made, plain = {}, Evidence._model

    def model(evidence, measured):
        asked = hashlib.sha256(pickle.dumps((replace(evidence), measured))).digest()
        if asked not in made:
            made[asked] = plain(evidence, measured)
        return made[asked]

    with mock.patch.object(Evidence, "_model", model):
        yield
