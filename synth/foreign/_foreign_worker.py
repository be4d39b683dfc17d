"""Runs another project's synthesizer in that project's environment.

`python -I _foreign_worker.py FOLDER` fits and draws. `python -I _foreign_worker.py --describe NAME PLACE…` prints, as
JSON, what the adapter has to know of a synthesizer before it has rows.

This file is a program for another interpreter, which has no equistrata: it imports only the standard library, NumPy and
pandas and what the synthesizer needs, and no module of ours imports it. It reads `rows.npy` and `settings.json` from
the folder and writes `synthetic.npy`; if it fails it writes `error.json`, which names the exception's type and never
its text, unless the rows were made up (`settings["trial"]`).
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

import numpy as np

SNSYNTH = "snsynth"
CONVERTS = ("aim", "mst")  # the classes of smartnoise-synth that turn (ε, δ) into ρ and spend that
CONTRACT = (
    "a synthesizer is a class that is made as CLASS(epsilon=…, delta=…) and has fit(frame, categorical_columns=…, "
    "domain=…) and sample(rows)"
)


class ContractError(Exception):
    """What a class did that the contract forbids. Says nothing of the rows that it was fitted to."""


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
    synthesizer = MWEMSynthesizer(epsilon=settings["epsilon"])
    synthesizer.fit(np.concatenate([rows, ends]), transformer=transformer(settings["sizes"]))
    ((histogram, _, split),) = synthesizer.synthetic_histograms  # its own sampler draws one row at a time
    shares = np.maximum(histogram.ravel(), 0)
    cells = np.random.default_rng().choice(shares.size, settings["draw"], p=shares / shares.sum())
    drawn = np.empty((settings["draw"], len(settings["sizes"])), dtype=np.int64)
    drawn[:, list(split)] = np.stack(np.unravel_index(cells, histogram.shape), axis=1)
    return drawn


def fit_by_factory(rows, settings):
    """Any other synthesizer of smartnoise-synth, with its own defaults and every code of every column declared."""
    from snsynth import Synthesizer

    made = snsynth_class(settings["synthesizer"])
    told = {"epsilon": settings["epsilon"]} | ({"delta": settings["delta"]} if takes(made, "delta") else {})
    synthesizer = Synthesizer.create(settings["synthesizer"], **told)
    places = list(range(rows.shape[1]))
    neural = made.__module__.startswith("snsynth.pytorch")
    synthesizer.fit(rows, transformer=transformer(settings["sizes"], neural), categorical_columns=places)
    return synthesizer.sample(settings["draw"])


FITS = {"mst": fit_mst, "aim": fit_aim, "mwem": fit_mwem}


def fit_class(rows, settings):
    """A class that the user names, by the contract."""
    import pandas as pd

    made, names = load_class(settings["class"], settings["places"]), settings["names"]
    told = {"epsilon": settings["epsilon"]} | ({"delta": settings["delta"]} if takes(made, "delta") else {})
    about = {"categorical_columns": list(names), "domain": dict(zip(names, settings["sizes"], strict=True))}
    synthesizer = made(**told)
    frame = pd.DataFrame(rows, columns=names)
    synthesizer.fit(frame, **{name: value for name, value in about.items() if takes(made.fit, name)})
    return synthesizer.sample(settings["draw"])


def codes_of(drawn, settings):
    """What was drawn as codes in the order of the columns. Raises ContractError where it is something else."""
    import pandas as pd

    names, sizes, wanted = settings["names"], settings["sizes"], settings["draw"]
    if isinstance(drawn, pd.DataFrame) and set(map(str, drawn.columns)) == set(names):
        drawn = drawn.set_axis([str(name) for name in drawn.columns], axis=1)[names]
    elif isinstance(drawn, pd.DataFrame) and list(drawn.columns) != list(range(len(names))):
        raise ContractError(f"has other columns than {', '.join(names)}")
    frame = pd.DataFrame(drawn)
    if frame.shape[1] != len(names):
        raise ContractError(f"has {frame.shape[1]} columns instead of {len(names)}")
    if len(frame) != wanted:
        raise ContractError(f"has not the {wanted} rows that it was asked for")  # how many it has may be private
    codes = np.empty(frame.shape, dtype=np.uint32)
    for place, (name, size) in enumerate(zip(names, sizes, strict=True)):
        cells = pd.to_numeric(frame.iloc[:, place].astype(object), errors="coerce").to_numpy(dtype=float)
        if np.isnan(cells).any():
            raise ContractError(f"has missing values, or values that are no numbers, in column {name!r}")
        if (cells != np.floor(cells)).any() or (cells < 0).any() or (cells >= size).any():
            raise ContractError(f"has values other than the codes 0 to {size - 1} in column {name!r}")
        codes[:, place] = cells
    return codes


def transformer(sizes, neural=False):
    """Declares every code of every column, so that no category is read off the rows."""
    from snsynth.transform.label import LabelTransformer
    from snsynth.transform.onehot import OneHotEncoder
    from snsynth.transform.table import TableTransformer

    declared = []
    for size in sizes:
        each = OneHotEncoder() if neural else LabelTransformer(nullable=False)
        each.fit(list(range(size)))
        declared.append(each)
    return TableTransformer(declared)


def columns(rows):
    """smartnoise's names for the columns, in our order."""
    return [f"col{j}" for j in range(rows.shape[1])]


def snsynth_class(name):
    """The class that smartnoise-synth's factory makes under this name. Raises ContractError if it knows none."""
    from snsynth.base import synth_map

    if name not in synth_map:
        raise ContractError(f"smartnoise-synth has no synthesizer {name!r}; choose {' or '.join(sorted(synth_map))}")
    module, _, called = synth_map[name]["class"].rpartition(".")
    return getattr(importlib.import_module(module), called)


def load_class(name, places):
    """The class `package.module:Class` or `file.py:Class`. Raises ContractError if it is not there, or no synthesizer.

    The places come last on the path, so that none of their files stands in for an installed package.
    """
    where, _, called = name.rpartition(":")
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            raise ContractError(f"there is no file {where!r}")
        sys.path.append(str(path.parent.absolute()))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # as pickle and dataclasses look it up
        spec.loader.exec_module(module)
    else:
        sys.path.extend(places)
        module = importlib.import_module(where)
    found = getattr(module, called, None)
    if not isinstance(found, type):
        raise ContractError(f"{where!r} has no class {called!r}")
    if lacking := [name for name in ("fit", "sample") if not callable(getattr(found, name, None))]:
        raise ContractError(f"{called} has no method {' and no method '.join(lacking)}; {CONTRACT}")
    if not takes(found, "epsilon"):
        raise ContractError(f"{called} takes no epsilon when it is made; {CONTRACT}")
    return found


def takes(function, name):
    """Whether a parameter of this name can be given."""
    parameters = inspect.signature(function).parameters.values()
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)


def describe(name, places):
    """What the adapter has to know of a synthesizer: by whom it is, whether it takes δ, how it accounts."""
    where, _, called = name.rpartition(":")
    if where == SNSYNTH:
        made, own, zcdp = snsynth_class(called.lower()), "smartnoise-synth", called.lower() in CONVERTS
        return {
            "software": f"{own} {importlib.metadata.version(own)}", "delta": takes(made, "delta"), "domain": True,
            "zcdp": zcdp,
        }  # fmt: skip
    made = load_class(name, places)
    return {
        "software": software(made), "delta": takes(made, "delta"), "domain": takes(made.fit, "domain"),
        "zcdp": getattr(made, "zcdp", False) is True,
    }  # fmt: skip


def software(made):
    """The distribution that a class is from, with its version; of a file that is in none, its digest."""
    top = made.__module__.partition(".")[0]
    path = Path(inspect.getfile(made))
    for name in importlib.metadata.packages_distributions().get(top, ()):
        if any(Path(each.locate()) == path for each in importlib.metadata.files(name) or ()):
            return f"{name} {importlib.metadata.version(name)}"
    return f"{path.name}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def end_with_parent():
    """Stop when the parent does, with what this process started: the parent holds our standard input's other end."""
    while os.read(0, 1):  # not sys.stdin: a thread that waits inside it makes Python abort when it exits
        pass
    if os.getpgrp() == os.getpid():  # else the group is somebody else's too
        os.killpg(0, signal.SIGKILL)
    os._exit(3)


def work(folder):
    """Fit and draw; 0 if `synthetic.npy` was written."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    settings = {}
    try:
        settings = json.loads((folder / "settings.json").read_text("utf-8"))
        rows = np.load(folder / "rows.npy", allow_pickle=False).astype(np.int64)
        fit = fit_class if "class" in settings else FITS.get(settings["synthesizer"], fit_by_factory)
        drawn = fit(rows, settings)
        np.save(folder / "synthetic.npy", codes_of(drawn, settings), allow_pickle=False)
    except ContractError as error:
        (folder / "error.json").write_text(json.dumps({"type": "ContractError", "contract": str(error)}), "utf-8")
        return 1
    except BaseException as error:  # whatever it is: its text may quote a row
        told = {"type": type(error).__name__}
        if settings.get("trial"):
            told["text"] = "".join(traceback.format_exception(error))
        (folder / "error.json").write_text(json.dumps(told), "utf-8")
        return 1
    return 0


def print_description(name, *places):
    """Print what `describe` finds, or why nothing is found, as JSON and with nothing that the class prints."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        found = describe(name, list(places))
    except BaseException as error:  # no row is here that it could quote
        text = str(error) if isinstance(error, ContractError) else f"{type(error).__name__}: {error}"
        found = {"fault": " ".join(text.split())}
    answer.write(json.dumps(found))
    answer.close()
    return 0


def check_packages():
    """Import what the fits will import, so that an environment that lacks something fails now."""
    import snsynth.aim
    import snsynth.mst
    import snsynth.mwem  # noqa: F401

    return 0


if __name__ == "__main__":
    first, *others = sys.argv[1:]
    if first == "--check":
        sys.exit(check_packages())
    sys.exit(print_description(*others) if first == "--describe" else work(Path(first)))
