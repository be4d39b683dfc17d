"""The peer's side of the protocol: `python -I child.py PEER_FILE FOLDER`, or `--check PEER_FILE`.

This file is run by another interpreter that does not have equistrata, so it only imports the standard library and
NumPy. A peer file has a function `load()`, which imports the packages and returns their names and versions, and a
dictionary `FITS`. The keys of `FITS` are the names of synthesizers. The values are functions of the rows, as codes of
shape (n, d), and the settings, which return rows of codes.

The program reads `rows.npy` and `settings.json` from the folder. The settings are `synthesizer`, the `names` and
`sizes` of the columns, `epsilon`, `delta`, the corresponding `rho` in zCDP, `seed`, and `draw`, which is the number of
rows to draw. The program writes `synthetic.npy` and `report.json`, or `error.json`. The rows are public here, so the
text of an error is not withheld.
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
    """Import the peer file as a module."""
    spec = importlib.util.spec_from_file_location("field_peer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def end_with_parent():
    """Stop this process when the parent stops, because the parent has the other end of the standard input."""
    while os.read(0, 1):  # a thread that waits in sys.stdin would make Python abort at exit
        pass
    os._exit(3)


def work(path, folder):
    """Load the packages, fit the synthesizer and draw rows. Return 0 if the rows were written, and 1 otherwise.

    The reported time is for fitting and drawing, without imports.
    """
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
        # The last line, because OpenDP's text includes a traceback.
        said = f"{type(error).__name__}: {lines[-1] if lines else ''}"
        (folder / "error.json").write_text(json.dumps(said[:300]), "utf-8")
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        print(peer(sys.argv[2]).load())
        sys.exit(0)
    sys.exit(work(sys.argv[1], Path(sys.argv[2])))
