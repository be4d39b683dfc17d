"""Synthetic microdata with a differential-privacy guarantee, small strata served as well as large ones."""
