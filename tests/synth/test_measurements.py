"""Tests of the measurements of marginals and of the estimate of the number of rows."""

import numpy as np
import pytest

from equistrata.synth.measurements import Measurement, total_estimate


def test_total_weighs_by_precision_and_public_numbers_win():
    noisy = [Measurement((), np.array(90.0), 1.0), Measurement(("A",), np.array([60.0, 50.0]), 2.0)]
    assert total_estimate(noisy) == pytest.approx(((90 / 1 + 110 / 8) / (1 + 1 / 8), (1 + 1 / 8) ** -0.5))
    assert total_estimate([*noisy, Measurement((), np.array(77.0), 0.0)]) == (77.0, 0.0)
    assert total_estimate([]) == (0.0, np.inf)


@pytest.mark.parametrize(
    ("columns", "values", "sigma", "groups"),
    [
        (("A",), [[1.0]], 1.0, ()),
        (("A",), [np.nan], 1.0, ()),
        (("A",), [np.inf], 1.0, ()),
        (("A",), [1.0], -1.0, ()),
        (("A",), [1.0], np.nan, ()),
        (("A",), [1.0], 1.0, (None, None)),
    ],
)
def test_refuses_what_is_no_measurement(columns, values, sigma, groups):
    with pytest.raises(ValueError, match="a measurement needs"):
        Measurement(columns, np.array(values), sigma, groups)
