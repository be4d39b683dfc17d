"""The peer's side of the protocol: `python -I child.py PEER_FILE FOLDER`, or `--check PEER_FILE`.

This file is a program for another interpreter, which has no equistrata: it imports the standard library and NumPy. A
peer file has `load()`, which imports the packages and returns their names and versions, and `FITS`, a synthesizer's
name → a function of rows (codes, shape (n, d)) and settings that returns rows of codes.

From the folder it reads `rows.npy` and `settings.json`: `synthesizer`, `names` and `sizes` of the columns, `epsilon`,
`delta` and the `rho` (zCDP) that they buy, `seed`, and `draw`, the rows to draw. It writes `synthetic.npy` and
`report.json`, or `error.json`. Rows are public here, so an error's own text is passed on.
"""

import importlib.util
import json
import os
import sys
import threading
from pathlib import Path
from time import perf_counter

import numpy as np


def peer(path):
    """The peer file as a module."""
    spec = importlib.util.spec_from_file_location("field_peer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def end_with_parent():
    """Stop when the parent does: it holds the other end of our standard input."""
    while os.read(0, 1):  # not sys.stdin: a thread that waits inside it makes Python abort when it exits
        pass
    os._exit(3)


def work(path, folder):
    """Load, fit and draw; 0 if rows were written. Seconds are of fitting and drawing, without imports."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        settings = json.loads((folder / "settings.json").read_text("utf-8"))
        rows = np.load(folder / "rows.npy", allow_pickle=False).astype(np.int64)
        module = peer(path)
        software = module.load()
        fit = module.FITS[settings["synthesizer"]]
        clock, before = perf_counter(), sum(os.times()[:4])
        drawn = np.asarray(fit(rows, settings))
        cost = {"seconds": perf_counter() - clock, "cpu_seconds": sum(os.times()[:4]) - before}
        np.save(folder / "synthetic.npy", drawn.astype(np.int64), allow_pickle=False)
        (folder / "report.json").write_text(json.dumps(cost | {"software": software}), "utf-8")
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if any(map(str.isalnum, line))]
        said = f"{type(error).__name__}: {lines[-1] if lines else ''}"  # the last: OpenDP's hold a whole traceback
        (folder / "error.json").write_text(json.dumps(said[:300]), "utf-8")
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        print(peer(sys.argv[2]).load())
        sys.exit(0)
    sys.exit(work(sys.argv[1], Path(sys.argv[2])))
