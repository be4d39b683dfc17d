"""What can be measured: `python -m benchmarks`. Each of these has its own `--help`.

    python -m benchmarks.guard BASE HEAD    # two checkouts: errors, coverage, seconds and size, as ratios
    python -m benchmarks.field              # our synthesizers beside other projects', at several ε (make bench)
    python -m benchmarks.scaling            # seconds and memory against rows, columns, strata and workers
    python -m benchmarks.coverage           # how often a reader's intervals contain the table's number

Noise is seeded and scores are exact, so nothing that they print is private.
"""

if __name__ == "__main__":
    print(__doc__.strip())
