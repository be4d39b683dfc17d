"""Synthetic microdata from private rows.

Private rows enter at the top of this list. Every module below `mechanisms` uses only noisy numbers.

- `synthesizer`: the public class.
- `size`: the size of a fit, which is estimated before any budget is spent.
- `strata.selection`: the choice between one shared selection and one selection per stratum.
- `strata.fitting`: the fit of all strata.
- `mechanisms.mst`, `mechanisms.aim` and `mechanisms.gem`: the mechanisms that select marginals.
- `mechanisms.levels`: the marginals that are measured within strata and over all rows.
- `mechanisms.session`: the only module that selects and measures marginals and charges the budget.
- `measurements`: noisy marginals.
- `models`, `strata.cutting`, `strata.shrinkage` and `strata.weights`: post-processing.
"""
