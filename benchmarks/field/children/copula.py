"""SDV's Gaussian copula with its own defaults, every column categorical. Not private: a ceiling."""

from importlib.metadata import version


def load():
    """Import the synthesizer."""
    import sdv.metadata
    import sdv.single_table  # noqa: F401

    return f"sdv {version('sdv')}"


def fit_copula(rows, settings):
    import pandas as pd
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    names = settings["names"]
    columns = {name: {"sdtype": "categorical"} for name in names}
    metadata = Metadata.load_from_dict({"tables": {"rows": {"columns": columns}}, "relationships": []})
    synthesizer = GaussianCopulaSynthesizer(metadata)
    synthesizer.fit(pd.DataFrame(rows, columns=names))
    return synthesizer.sample(settings["draw"])[names].to_numpy()


FITS = {"copula": fit_copula}
