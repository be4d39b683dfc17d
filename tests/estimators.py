"""The estimators of means, called by one dictionary of settings: tests vary one setting at a time."""

from equistrata.inference.means.coinpress import Coinpress
from equistrata.inference.means.laplace import LaplaceMean


def coinpress_mean(values, *, rho, noise, rows=None, **settings):
    return Coinpress(**settings).mean(values, rho, noise, rows=rows)


def stratified_coinpress(groups, weights, *, rho, noise, **settings):
    return Coinpress(**settings).by_strata(groups, weights, rho, noise)


def hierarchical_coinpress(groups, weights, *, rho, noise, split=None, shrinkage=True, **settings):
    return Coinpress(**settings).hierarchical(groups, weights, rho, noise, split=split, shrinkage=shrinkage)


def laplace_mean(values, *, noise, **settings):
    return LaplaceMean(**settings).mean(values, noise)


def stratified_laplace_mean(groups, weights=None, *, noise, **settings):
    return LaplaceMean(**settings).by_strata(groups, weights, noise)
