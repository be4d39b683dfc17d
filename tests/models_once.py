"""Models of equal measurements made once: for tests that have the same release modelled again and again."""

import hashlib
import pickle
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from equistrata.analysis.uncertainty.evidence import Evidence


@contextmanager
def models_once():
    """Within the block `Evidence` makes no model twice. Other measurements, or another mechanism, are modelled anew."""
    made, plain = {}, Evidence._model

    def model(evidence, measured):
        asked = hashlib.sha256(pickle.dumps((replace(evidence), measured))).digest()
        if asked not in made:
            made[asked] = plain(evidence, measured)
        return made[asked]

    with mock.patch.object(Evidence, "_model", model):
        yield
