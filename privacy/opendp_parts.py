"""The constructors of OpenDP that need its flag `contrib`.

Import this module inside the functions that need it. The import takes a tenth of a second, and most commands do not
draw any noise. The module `opendp.prelude` would also import scikit-learn and Polars.
"""

from opendp.combinators import make_zCDP_to_approxDP
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import zero_concentrated_divergence
from opendp.metrics import absolute_distance, l1_distance, l2_distance, linf_distance
from opendp.mod import OpenDPException, enable_features

__all__ = [
    "OpenDPException", "absolute_distance", "atom_domain", "l1_distance", "l2_distance", "linf_distance",
    "make_gaussian", "make_laplace", "make_noisy_max", "make_zCDP_to_approxDP", "vector_domain",
    "zero_concentrated_divergence",
]  # fmt: skip

enable_features("contrib")
