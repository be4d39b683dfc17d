"""Synthetic microdata from private rows. Rows come in at the top; what is below `mechanisms` sees noisy numbers only.

- `synthesizer`: the public class. `size`: what a fit will take, before it is paid for.
- `strata.selection`: whether one choice serves all strata. `strata.fitting`: measures and models all strata.
- `mechanisms.mst`, `aim`, `gem`: what is offered and chosen. `mechanisms.levels`: what is measured within strata and
  over all rows. `mechanisms.session`: the only place that chooses, measures and charges.
- `measurements`: noisy marginals. `models`, `strata.cutting`, `strata.shrinkage`, `strata.weights`: post-processing.
"""
