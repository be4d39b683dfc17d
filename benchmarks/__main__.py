"""List the benchmarks. Each of them has its own `--help`.

    python -m benchmarks.guard BASE HEAD    # two checkouts: errors, coverage, seconds and size, as ratios
    python -m benchmarks.field              # our synthesizers and those of other projects, at several ε (make bench)
    python -m benchmarks.scaling            # seconds and memory against rows, columns, strata and workers
    python -m benchmarks.coverage           # how often a reader's intervals contain the table's number

The noise is seeded and the scores are exact, so the results are not private.
"""

if __name__ == "__main__":
    print(__doc__.strip())
