"""Sequential trees in the manner of R's synthpop, ours with scikit-learn's classifier. Not private: a ceiling.

The first column is bootstrapped. Each next one is drawn, for every synthetic row, from the real values in the leaf that
the columns before it lead to; leaves hold at least five rows, and splits gain at least 1e-8, as in synthpop's CART.
Source: Nowok, Raab and Dibben, synthpop, Journal of Statistical Software 74 (2016).
"""

from importlib.metadata import version

import numpy as np

LEAST_LEAF, LEAST_GAIN = 5, 1e-8


def load():
    """Import scikit-learn."""
    import sklearn.tree  # noqa: F401

    return f"scikit-learn {version('scikit-learn')}"


def fit_cart(rows, settings):
    """Rows drawn column by column, in the order of the table.

    >>> rows = np.repeat([[0, 0], [1, 1]], 50, axis=0)
    >>> drawn = fit_cart(rows, {"sizes": [2, 2], "draw": 20, "seed": 0})
    >>> bool((drawn[:, 0] == drawn[:, 1]).all()), drawn.shape
    (True, (20, 2))
    """
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(settings["seed"])
    drawn = np.empty((settings["draw"], rows.shape[1]), dtype=np.int64)
    drawn[:, 0] = rng.choice(rows[:, 0], settings["draw"])
    for j in range(1, rows.shape[1]):
        tree = DecisionTreeClassifier(
            min_samples_leaf=LEAST_LEAF, min_impurity_decrease=LEAST_GAIN, random_state=settings["seed"]
        )
        before, theirs = one_hot(rows, j, settings["sizes"]), one_hot(drawn, j, settings["sizes"])
        tree.fit(before, rows[:, j])
        shares = tree.predict_proba(theirs).cumsum(axis=1)
        places = (rng.random((len(drawn), 1)) > shares).sum(axis=1).clip(max=len(tree.classes_) - 1)
        drawn[:, j] = tree.classes_[places]
    return drawn


def one_hot(rows, columns, sizes):
    """The first columns, a code each its own, so that nominal codes can part in any way."""
    return np.concatenate([np.eye(sizes[j], dtype=np.float32)[rows[:, j]] for j in range(columns)], axis=1)


FITS = {"cart": fit_cart}
