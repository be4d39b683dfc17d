"""AIM and MST of OpenDP (`opendp.extras.mbi`), which use contingency tables, with their default settings."""

from importlib.metadata import version

ATTEMPTS, LESS = 12, 1e-6


def load():
    """Import OpenDP and mbi, and enable the 64-bit floats that mbi requires."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi  # noqa: F401
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return f"opendp {version('opendp')}, mbi {version('mbi')}"


def fit_mst(rows, settings):
    import opendp.prelude as dp

    return fit(dp.mbi.MST(), rows, settings)


def fit_aim(rows, settings):
    import opendp.prelude as dp

    return fit(dp.mbi.AIM(), rows, settings)


def fit(algorithm, rows, settings):
    """Fit an algorithm and draw rows.

    The budget is ρ, because the algorithm does not accept δ if all keys are declared. For some values of ρ, the parts
    of the budget exceed the total because of rounding, and the algorithm stops with "insufficient budget". This does
    not depend on the rows. In this case, ρ is decreased by a millionth. The algorithm adds a null value to each column.
    The schema does not have this value, so rows with a null are removed.
    """
    from opendp.mod import OpenDPException

    for attempt in range(ATTEMPTS):
        try:
            table = released(algorithm, rows, settings, settings["rho"] * (1 - attempt * LESS))
            break
        except OpenDPException as error:
            if "insufficient budget" not in str(error) or attempt == ATTEMPTS - 1:
                raise
    return table.synthesize(rows=settings["draw"], method="sample").drop_nulls().select(settings["names"]).to_numpy()


def released(algorithm, rows, settings, rho):
    import opendp.prelude as dp
    import polars as pl

    names = settings["names"]
    context = dp.Context.compositor(
        data=pl.LazyFrame({name: rows[:, j] for j, name in enumerate(names)}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    keys = {name: list(range(size)) for name, size in zip(names, settings["sizes"], strict=True)}
    return context.query().select(*names).contingency_table(keys=keys, algorithm=algorithm).release()


FITS = {"mst": fit_mst, "aim": fit_aim}
