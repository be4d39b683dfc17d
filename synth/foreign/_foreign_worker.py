"""A program that runs a synthesizer of another project in the environment of that project.

The command `python -I _foreign_worker.py FOLDER` fits a synthesizer and draws rows. The command `python -I
_foreign_worker.py --describe NAME PLACE…` prints a description of a synthesizer as JSON, which the adapter needs before
it has rows.

This file is run by another interpreter, which does not have equistrata. Therefore, it imports only the standard
library, NumPy, pandas and the packages of the synthesizer, and no other module of equistrata imports it. It reads
`rows.npy` and `settings.json` from the folder, and writes `synthetic.npy`. If it fails, it writes `error.json`. This
file contains the type of the exception but not its text, unless the rows are made up (`settings["trial"]`).
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
CONVERTS = ("aim", "mst")  # the classes of smartnoise-synth that convert (ε, δ) to ρ and spend ρ
CONTRACT = (
    "a synthesizer is a class that is created as CLASS(epsilon=…, delta=…) and has the methods fit(frame, "
    "categorical_columns=…, domain=…) and sample(rows)"
)


class ContractError(Exception):
    """A violation of the contract by a class.

    The message contains no information about the rows to which the class was fitted.
    """


def fit_mst(rows, settings):
    """Fit the MST of smartnoise-synth and draw rows.

    The rows are drawn with the method "sample" of mbi, because the method "round" creates relations between columns
    that were not measured together.
    """
    from snsynth.mst import MSTSynthesizer

    synthesizer = MSTSynthesizer(epsilon=settings["epsilon"], delta=settings["delta"])
    synthesizer.fit(rows, transformer=transformer(settings["sizes"]))
    drawn = synthesizer.synthesizer.synthetic_data(rows=settings["draw"], method="sample")
    return synthesizer.undo_compress_fn(drawn).df[columns(rows)].to_numpy()


def fit_aim(rows, settings):
    """Fit the AIM of smartnoise-synth and draw rows.

    The default settings are used, which are all 2-way marginals and 80 MB by its own estimate.
    """
    from snsynth.aim import AIMSynthesizer

    synthesizer = AIMSynthesizer(epsilon=settings["epsilon"], delta=settings["delta"])
    synthesizer.fit(rows, transformer=transformer(settings["sizes"]))
    drawn = synthesizer.synthesizer.synthetic_data(rows=settings["draw"], method="sample")
    return drawn.df[columns(rows)].to_numpy()


def fit_mwem(rows, settings):
    """Fit the MWEM of smartnoise-synth over the whole domain and draw rows.

    MWEM reads the range of each column from the rows. Therefore, two made-up rows declare the domain: one with the
    lowest codes and one with the highest codes.
    """
    from snsynth.mwem import MWEMSynthesizer

    ends = np.array([[0] * len(settings["sizes"]), [size - 1 for size in settings["sizes"]]], dtype=rows.dtype)
    synthesizer = MWEMSynthesizer(epsilon=settings["epsilon"])
    synthesizer.fit(np.concatenate([rows, ends]), transformer=transformer(settings["sizes"]))
    # The histogram is sampled directly because the sampler of MWEM draws only one row at a time.
    ((histogram, _, split),) = synthesizer.synthetic_histograms
    shares = np.maximum(histogram.ravel(), 0)
    cells = np.random.default_rng().choice(shares.size, settings["draw"], p=shares / shares.sum())
    drawn = np.empty((settings["draw"], len(settings["sizes"])), dtype=np.int64)
    drawn[:, list(split)] = np.stack(np.unravel_index(cells, histogram.shape), axis=1)
    return drawn


def fit_by_factory(rows, settings):
    """Fit another synthesizer of smartnoise-synth with its default settings and draw rows.

    Every code of every column is declared.
    """
    from snsynth import Synthesizer

    made = snsynth_class(settings["synthesizer"])
    told = {"epsilon": settings["epsilon"]} | ({"delta": settings["delta"]} if accepts_parameter(made, "delta") else {})
    synthesizer = Synthesizer.create(settings["synthesizer"], **told)
    places = list(range(rows.shape[1]))
    neural = made.__module__.startswith("snsynth.pytorch")
    synthesizer.fit(rows, transformer=transformer(settings["sizes"], neural), categorical_columns=places)
    return synthesizer.sample(settings["draw"])


FITS = {"mst": fit_mst, "aim": fit_aim, "mwem": fit_mwem}


def fit_class(rows, settings):
    """Fit a class that is named by the user and draw rows, according to the contract."""
    import pandas as pd

    made, names = load_class(settings["class"], settings["places"]), settings["names"]
    told = {"epsilon": settings["epsilon"]} | ({"delta": settings["delta"]} if accepts_parameter(made, "delta") else {})
    about = {"categorical_columns": list(names), "domain": dict(zip(names, settings["sizes"], strict=True))}
    synthesizer = made(**told)
    frame = pd.DataFrame(rows, columns=names)
    synthesizer.fit(frame, **{name: value for name, value in about.items() if accepts_parameter(made.fit, name)})
    return synthesizer.sample(settings["draw"])


def codes_of(drawn, settings):
    """Convert drawn rows to codes in the order of the columns.

    Raises
    ------
    ContractError
        If the rows do not satisfy the contract.
    """
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
        # The message does not contain the actual number of rows, because this number may be private.
        raise ContractError(f"does not have the {wanted} rows that were requested")
    codes = np.empty(frame.shape, dtype=np.uint32)
    for place, (name, size) in enumerate(zip(names, sizes, strict=True)):
        cells = pd.to_numeric(frame.iloc[:, place].astype(object), errors="coerce").to_numpy(dtype=float)
        if np.isnan(cells).any():
            raise ContractError(f"has missing values, or values that are not numbers, in column {name!r}")
        if (cells != np.floor(cells)).any() or (cells < 0).any() or (cells >= size).any():
            raise ContractError(f"has values other than the codes 0 to {size - 1} in column {name!r}")
        codes[:, place] = cells
    return codes


def transformer(sizes, neural=False):
    """Return a transformer that declares every code of every column, so that no category is read from the rows."""
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
    """Return the column names of smartnoise-synth, in our order."""
    return [f"col{j}" for j in range(rows.shape[1])]


def snsynth_class(name):
    """Return the class that the factory of smartnoise-synth creates for a name.

    Raises
    ------
    ContractError
        If the factory does not know the name.
    """
    from snsynth.base import synth_map

    if name not in synth_map:
        raise ContractError(f"smartnoise-synth has no synthesizer {name!r}; choose {' or '.join(sorted(synth_map))}")
    module, _, called = synth_map[name]["class"].rpartition(".")
    return getattr(importlib.import_module(module), called)


def load_class(name, places):
    """Load the class `package.module:Class` or `file.py:Class`.

    The folders `places` are added at the end of the search path, so that their files do not replace installed packages.

    Raises
    ------
    ContractError
        If the class does not exist or is not a synthesizer.
    """
    where, _, called = name.rpartition(":")
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            raise ContractError(f"there is no file {where!r}")
        sys.path.append(str(path.parent.absolute()))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # because pickle and dataclasses look up the module here
        spec.loader.exec_module(module)
    else:
        sys.path.extend(places)
        module = importlib.import_module(where)
    found = getattr(module, called, None)
    if not isinstance(found, type):
        raise ContractError(f"{where!r} has no class {called!r}")
    if lacking := [name for name in ("fit", "sample") if not callable(getattr(found, name, None))]:
        raise ContractError(f"{called} has no method {' and no method '.join(lacking)}; {CONTRACT}")
    if not accepts_parameter(found, "epsilon"):
        raise ContractError(f"{called} has no parameter epsilon; {CONTRACT}")
    return found


def accepts_parameter(function, name):
    """Return True if a function has a parameter with this name or accepts any keyword."""
    parameters = inspect.signature(function).parameters.values()
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)


def describe(name, places):
    """Return the description of a synthesizer: its software, its parameters, and its kind of accounting."""
    where, _, called = name.rpartition(":")
    if where == SNSYNTH:
        made, own, zcdp = snsynth_class(called.lower()), "smartnoise-synth", called.lower() in CONVERTS
        return {
            "software": f"{own} {importlib.metadata.version(own)}",
            "delta": accepts_parameter(made, "delta"),
            "domain": True,
            "zcdp": zcdp,
        }
    made = load_class(name, places)
    return {
        "software": software(made),
        "delta": accepts_parameter(made, "delta"),
        "domain": accepts_parameter(made.fit, "domain"),
        "zcdp": getattr(made, "zcdp", False) is True,
    }


def software(made):
    """Return the name and the version of the distribution that contains a class, or the digest of its file."""
    top = made.__module__.partition(".")[0]
    path = Path(inspect.getfile(made))
    for name in importlib.metadata.packages_distributions().get(top, ()):
        if any(Path(each.locate()) == path for each in importlib.metadata.files(name) or ()):
            return f"{name} {importlib.metadata.version(name)}"
    return f"{path.name}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def end_with_parent():
    """End this process and all processes that it started as soon as the parent process ends.

    The parent process has the other end of the standard input of this process.
    """
    # If a thread waits in sys.stdin, Python aborts at exit. Therefore, the file descriptor is read directly.
    while os.read(0, 1):
        pass
    if os.getpgrp() == os.getpid():  # otherwise the group contains other processes
        os.killpg(0, signal.SIGKILL)
    os._exit(3)


def work(folder):
    """Fit the synthesizer and draw rows. The result is 0 if `synthetic.npy` was written."""
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
    except BaseException as error:  # the text of any exception may quote a row
        told = {"type": type(error).__name__}
        if settings.get("trial"):
            told["text"] = "".join(traceback.format_exception(error))
        (folder / "error.json").write_text(json.dumps(told), "utf-8")
        return 1
    return 0


def print_description(name, *places):
    """Print the result or the error of `describe` as JSON, without any output of the class."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        found = describe(name, list(places))
    except BaseException as error:  # the text can be printed because no rows have been read
        text = str(error) if isinstance(error, ContractError) else f"{type(error).__name__}: {error}"
        found = {"fault": " ".join(text.split())}
    answer.write(json.dumps(found))
    answer.close()
    return 0


def check_packages():
    """Import the packages of the fits, so that an incomplete environment fails early."""
    import snsynth.aim
    import snsynth.mst
    import snsynth.mwem  # noqa: F401

    return 0


if __name__ == "__main__":
    first, *others = sys.argv[1:]
    if first == "--check":
        sys.exit(check_packages())
    sys.exit(print_description(*others) if first == "--describe" else work(Path(first)))
