"""Runs smartnoise-synth in its own environment: `python -I _smartnoise_worker.py FOLDER`, or `--check`.

This file is a program for another interpreter, which has no equistrata: it imports only the standard library, NumPy
and smartnoise-synth, and no module of ours imports it. It reads `rows.npy` and `settings.json` from the folder and
writes `synthetic.npy`; if it fails it writes `error.json`, which names the exception's type and never its text.
"""

import json
import os
import sys
import threading
from pathlib import Path

import numpy as np


def fit_mst(rows, settings):
    """smartnoise's MST. Draws with mbi's "sample" method: "round" invents relations between unmeasured columns."""
    from snsynth.mst import MSTSynthesizer

    synthesizer = MSTSynthesizer(epsilon=settings["epsilon"], delta=settings["delta"])
    synthesizer.fit(rows, transformer=transformer(settings["sizes"]))
    drawn = synthesizer.synthesizer.synthetic_data(rows=settings["draw"], method="sample")
    return synthesizer.undo_compress_fn(drawn).df[columns(rows)].to_numpy()


def fit_aim(rows, settings):
    """smartnoise's AIM with its own defaults (all 2-way marginals, 80 MB by its own measure)."""
    from snsynth.aim import AIMSynthesizer

    synthesizer = AIMSynthesizer(epsilon=settings["epsilon"], delta=settings["delta"])
    synthesizer.fit(rows, transformer=transformer(settings["sizes"]))
    drawn = synthesizer.synthesizer.synthetic_data(rows=settings["draw"], method="sample")
    return drawn.df[columns(rows)].to_numpy()


def fit_mwem(rows, settings):
    """smartnoise's MWEM over the whole domain.

    It reads each column's range off the rows, so two made-up rows, all lowest and all highest codes, declare it.
    """
    from snsynth.mwem import MWEMSynthesizer

    ends = np.array([[0] * len(settings["sizes"]), [size - 1 for size in settings["sizes"]]], dtype=rows.dtype)
    synthesizer = MWEMSynthesizer(epsilon=settings["pure_epsilon"])
    synthesizer.fit(np.concatenate([rows, ends]), transformer=transformer(settings["sizes"]))
    ((histogram, _, split),) = synthesizer.synthetic_histograms  # its own sampler draws one row at a time
    shares = np.maximum(histogram.ravel(), 0)
    cells = np.random.default_rng().choice(shares.size, settings["draw"], p=shares / shares.sum())
    drawn = np.empty((settings["draw"], len(settings["sizes"])), dtype=np.int64)
    drawn[:, list(split)] = np.stack(np.unravel_index(cells, histogram.shape), axis=1)
    return drawn


FITS = {"mst": fit_mst, "aim": fit_aim, "mwem": fit_mwem}


def transformer(sizes):
    """Declares every code of every column, so that no category is read off the rows."""
    from snsynth.transform.label import LabelTransformer
    from snsynth.transform.table import TableTransformer

    labels = []
    for size in sizes:
        label = LabelTransformer(nullable=False)
        label.fit(list(range(size)))
        labels.append(label)
    return TableTransformer(labels)


def columns(rows):
    """smartnoise's names for the columns, in our order."""
    return [f"col{j}" for j in range(rows.shape[1])]


def end_with_parent():
    """Stop when the parent does: it holds the other end of our standard input."""
    while os.read(0, 1):  # not sys.stdin: a thread that waits inside it makes Python abort when it exits
        pass
    os._exit(3)


def work(folder):
    """Fit and draw; 0 if `synthetic.npy` was written."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        settings = json.loads((folder / "settings.json").read_text("utf-8"))
        rows = np.load(folder / "rows.npy", allow_pickle=False).astype(np.int64)
        drawn = np.asarray(FITS[settings["synthesizer"]](rows, settings))
        np.save(folder / "synthetic.npy", drawn.astype(np.uint32), allow_pickle=False)
    except BaseException as error:  # whatever it is: its text may quote a row
        (folder / "error.json").write_text(json.dumps({"type": type(error).__name__}), "utf-8")
        return 1
    return 0


def check_packages():
    """Import what the fits will import, so that an environment that lacks something fails now."""
    import snsynth.aim
    import snsynth.mst
    import snsynth.mwem  # noqa: F401

    return 0


if __name__ == "__main__":
    sys.exit(check_packages() if sys.argv[1:] == ["--check"] else work(Path(sys.argv[1])))
