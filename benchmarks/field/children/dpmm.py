"""MST, AIM and PrivBayes of dpmm with their default settings. The domain is declared, and no column is discretized."""

from importlib.metadata import version


def load():
    """Import the pipelines, and return their version."""
    import dpmm.pipelines.aim
    import dpmm.pipelines.mst
    import dpmm.pipelines.priv_bayes  # noqa: F401

    return f"dpmm {version('dpmm')}"


def fit_mst(rows, settings):
    from dpmm.pipelines.mst import MSTPipeline

    return fit(MSTPipeline, rows, settings)


def fit_aim(rows, settings):
    from dpmm.pipelines.aim import AIMPipeline

    return fit(AIMPipeline, rows, settings)


def fit_privbayes(rows, settings):
    from dpmm.pipelines.priv_bayes import PrivBayesPipeline

    return fit(PrivBayesPipeline, rows, settings)


def fit(pipeline, rows, settings):
    import pandas as pd

    names, seed = settings["names"], settings["seed"]
    made = pipeline(settings["epsilon"], settings["delta"], disable_processing=True, n_jobs=1)
    made.fit(
        pd.DataFrame(rows, columns=names), domain=dict(zip(names, settings["sizes"], strict=True)), random_state=seed
    )
    return made.generate(n_records=settings["draw"], random_state=seed)[names].to_numpy()


FITS = {"mst": fit_mst, "aim": fit_aim, "privbayes": fit_privbayes}
