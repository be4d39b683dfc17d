"""The loss of a mixture of products on noisy marginals, and its gradient, by three matrix products.

All arrays have the shape (feature, component) and are in single precision. A feature is P_k of one code, or of a
combination of codes within a group of tied columns. A *left* is a product of features. A *right* is the feature of a
single code, or the constant 1. Every measured cell is then one entry of the product of the matrices left and right over
the components. Therefore, one matrix product computes all measured marginals at once, and its two transposes compute
the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import scipy

from equistrata.arrays import Floats, Indices
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Measurement, Prediction
from equistrata.synth.models.base import PUBLIC_SIGMA
from equistrata.synth.models.junction_tree import Clique
from equistrata.synth.models.possible import FeasibleCodes
from equistrata.synth.models.projection import cell_map
from equistrata.synth.models.shared_sums import indicator_matrix

Singles = npt.NDArray[np.float32]  # of shape (features or logits, components)


@dataclass(frozen=True, eq=False)
class Softmax:
    """The map from logits of codes to features, and its transpose.

    A component is a product of columns that is conditioned on possible combinations. The probability P_k(class
    combination) is the softmax over the combinations of a group. The logit of a combination is the sum of the
    log-sum-exp of the logits in its classes. The probability P_k(code | class) is the softmax within the class.

    Parameters
    ----------
    segment : ndarray of int
        The class of each code.
    classes : sparse array of shape (segments, codes)
        The matrix of classes, which is 1 if a code is in a class.
    cells : sparse array of shape (combinations of all groups, segments)
        The matrix of combinations, which is 1 if a combination has a class.
    starts : ndarray of int
        The index of the first combination of each group.
    """

    segment: Indices
    classes: scipy.sparse.csr_array
    cells: scipy.sparse.csr_array
    starts: Indices

    @classmethod
    def of(cls, possible: FeasibleCodes) -> Softmax:
        """Create the map for the possible combinations of a schema."""
        first = np.cumsum([0, *(possible.class_count(j) for j in range(len(possible.sizes)))])
        segment = np.concatenate([classes + first[j] for j, classes in enumerate(possible.classes)])
        entries, starts, height = [], [], 0
        for group in possible.groups:
            starts.append(height)
            rows = np.arange(len(group.cells)) + height
            entries += [(rows, group.cells[:, spot] + first[j]) for spot, j in enumerate(group.columns)]
            height += len(group.cells)
        members = indicator_matrix([(segment, np.arange(len(segment)))], (first[-1], len(segment)), np.float32)
        return cls(segment, members, indicator_matrix(entries, (height, first[-1]), np.float32), np.array(starts))

    def forward(self, logits: Singles) -> tuple[Singles, Singles]:
        """Compute P_k(combination), with shape (combinations, K), and P_k(code | class), with shape (codes, K)."""
        order = np.argsort(self.segment, kind="stable")
        begins = np.searchsorted(self.segment[order], np.arange(self.classes.shape[0]))
        top = np.maximum.reduceat(logits[order], begins, axis=0)
        raised = np.exp(logits - top[self.segment])
        sums = self.classes @ raised
        within = raised / sums[self.segment]
        joint = self.cells @ (np.log(sums) + top)
        lengths = np.diff([*self.starts, len(joint)])
        joint -= np.repeat(np.maximum.reduceat(joint, self.starts, axis=0), lengths, axis=0)
        np.exp(joint, out=joint)
        joint /= np.repeat(np.add.reduceat(joint, self.starts, axis=0), lengths, axis=0)
        return joint, within

    def backward(self, joint: Singles, within: Singles, to_joint: Singles, to_within: Singles) -> Singles:
        """Compute the gradient with respect to the logits."""
        lengths = np.diff([*self.starts, len(joint)])
        flow = joint * to_joint
        flow -= joint * np.repeat(np.add.reduceat(flow, self.starts, axis=0), lengths, axis=0)
        to_segment = self.cells.T @ flow
        inner = within * to_within
        return np.asarray(inner + within * (to_segment - self.classes @ inner)[self.segment])


@dataclass(frozen=True, eq=False)
class _Products:
    """Products of rows of another table.

    Parameters
    ----------
    taken : tuple of ndarray of int
        For each factor, the row of the table for each product.
    scatter : tuple of sparse array
        The transposes of these selections, which are used for the gradient.
    """

    taken: tuple[Indices, ...]
    scatter: tuple[scipy.sparse.csr_array, ...]

    def factors(self, table: Singles) -> list[Singles]:
        return [table[rows] for rows in self.taken]

    def back(self, pull: Singles, factors: Sequence[Singles]) -> Singles:
        """Compute the gradient with respect to the table from the gradient with respect to the products."""
        found = np.zeros((self.scatter[0].shape[0], pull.shape[1]), dtype=np.float32)
        for n, scatter in enumerate(self.scatter):
            found += scatter @ _product([pull, *factors[:n], *factors[n + 1 :]])
        return found


@dataclass(frozen=True, eq=False)
class MixtureLoss:
    """The loss of a mixture of K components with equal weights.

    The loss is ½ Σ ((model − measured)/σ)² over the measured cells.

    Parameters
    ----------
    softmax : Softmax
        The map from logits to features.
    project : sparse array of shape (class features, combinations)
        The matrix that sums combinations.
    features : _Products
        The products of P_k(code | class), a row of ones, and class features, in this order of the rows.
    lefts : _Products
        The products of features.
    rights : int
        The number of right features, which come first.
    select : sparse array of shape (answers, lefts × rights)
        The matrix that sums the entries of each answer.
    select_back : sparse array
        The transpose of `select`.
    answers, scales : ndarray
        The noisy counts and the values of 1/σ, relative to `total`.
    measured : ndarray of bool
        True for measured answers, and False for predictions.
    """

    softmax: Softmax
    project: scipy.sparse.csr_array
    features: _Products
    lefts: _Products
    rights: int
    select: scipy.sparse.csr_array
    select_back: scipy.sparse.csr_array
    answers: Floats
    scales: Floats
    measured: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, schema: Schema, measurements: Sequence[Measurement], total: float) -> MixtureLoss:
        """Create the loss for some measurements.

        Measurements without columns and measurements without a finite σ are ignored because they contain no information
        about proportions.
        """
        layout = _Layout(schema)
        rights = layout.features.height
        entries, answers, scales, measured, height = [], [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=bool)], 0
        for measurement in measurements:
            columns = tuple(schema.index(name) for name in measurement.columns)
            if not columns or not np.isfinite(measurement.sigma):
                continue
            left, right = layout.entries(columns)
            group = measurement.group_index([schema.sizes[j] for j in columns])
            entries.append((group + height, left * rights + right))
            answers.append(measurement.values.ravel() / total)
            sigmas = measurement.cell_sigma.ravel()
            scales.append(total / np.where(sigmas > 0, sigmas, PUBLIC_SIGMA))
            height += measurement.values.size
            measured.append(np.full(measurement.values.size, not isinstance(measurement, Prediction)))
        if not entries:
            layout.left(())
        codes, classes = layout.first[-1], layout.known
        select = indicator_matrix(entries, (height, layout.lefts.height * rights))
        return cls(
            softmax=layout.softmax,
            project=indicator_matrix(layout.project, (classes, layout.softmax.cells.shape[0]), np.float32),
            features=layout.features.products(fill=codes, height=codes + 1 + classes),
            lefts=layout.lefts.products(fill=0, height=layout.features.height),
            rights=rights,
            select=select,
            select_back=select.T.tocsr(),
            answers=np.concatenate(answers),
            scales=np.concatenate(scales),
            measured=np.concatenate(measured),
        )

    def value(self, logits: Singles, tolerance: float = 0.0) -> tuple[float, Floats, Singles]:
        """Compute the loss, the residuals and the gradient.

        Residuals within the tolerance count as 0. Larger residuals are reduced by the tolerance.

        Parameters
        ----------
        logits : ndarray of shape (codes, K)
            The logits.
        tolerance : float, default=0.0
            The tolerance for residuals, in units of σ.

        Returns
        -------
        loss : float
            The loss.
        residuals : ndarray
            The residuals in units of σ.
        gradient : ndarray of shape (codes, K)
            The gradient with respect to the logits.
        """
        codes, count = logits.shape
        joint, within = self.softmax.forward(logits)
        ones = np.ones((1, count), dtype=np.float32)
        factors = self.features.factors(np.concatenate([within, ones, self.project @ joint]))
        features = _product(factors)
        chosen = self.lefts.factors(features)
        left, right = _product(chosen), features[: self.rights]
        table = (left @ right.T) / np.float32(count)
        residual = (self.select @ table.ravel() - self.answers) * self.scales
        pull = residual - np.clip(residual, -tolerance, tolerance) if tolerance else residual
        to_table = (self.select_back @ (pull * self.scales / count)).astype(np.float32).reshape(table.shape)
        to_features = self.lefts.back(to_table @ right, chosen)
        to_features[: self.rights] += to_table.T @ left
        back = self.features.back(to_features, factors)
        gradient = self.softmax.backward(joint, within, self.project.T @ back[codes + 1 :], back[:codes])
        return float(0.5 * pull @ pull), residual, gradient


class _Blocks:
    """Products that are being built, with one block of rows per set of columns.

    A block is given by the factors of its rows.
    """

    def __init__(self) -> None:
        self.places: dict[Clique, int] = {}
        self.blocks: list[list[Indices]] = []
        self.height = 0

    def add(self, columns: Clique, block: list[Indices]) -> int:
        self.places[columns] = self.height
        self.blocks.append(block)
        self.height += len(block[0])
        return self.places[columns]

    def products(self, fill: int, height: int) -> _Products:
        """Combine all blocks.

        The table has `height` rows. Row `fill` of the table is all ones and is used to extend products with fewer
        factors.
        """
        taken = tuple(
            np.concatenate([b[n] if n < len(b) else np.full(len(b[0]), fill) for b in self.blocks])
            for n in range(max(map(len, self.blocks)))
        )
        scatter = (indicator_matrix([(rows, np.arange(len(rows)))], (height, len(rows)), np.float32) for rows in taken)
        return _Products(taken, tuple(scatter))


class _Layout:
    """A builder of features, lefts and rights for measurements, which adds each of them only once."""

    def __init__(self, schema: Schema) -> None:
        self.possible, self.sizes = FeasibleCodes.of(schema), schema.sizes
        self.softmax = Softmax.of(self.possible)
        self.first: list[int] = np.cumsum([0, *self.sizes]).tolist()
        whole = np.arange(len(self.possible.groups[0].cells))
        self.project = [(np.zeros_like(whole), whole)]
        self.known = 1  # the number of class features; the first is the sum over a whole group, which is the constant 1
        self.features, self.lefts = _Blocks(), _Blocks()
        self.features.add((), [np.full(1, self.first[-1] + 1)])
        for j in range(len(self.sizes)):
            self.feature((j,))

    def feature(self, columns: Clique) -> int:
        """Return the position of the first feature of some columns of a group."""
        if columns in self.features.places:
            return self.features.places[columns]
        number = self.possible.group_of(columns[0])
        group = self.possible.groups[number]
        widths = [self.possible.class_count(j) for j in columns]
        key = np.ravel_multi_index([group.cells[:, group.columns.index(j)] for j in columns], widths)
        self.project.append((key + self.known, np.arange(len(key)) + self.softmax.starts[number]))
        codes = [cell_map(self.sizes, columns, (j,)) for j in columns]
        classes = [self.possible.classes[j][code] for j, code in zip(columns, codes, strict=True)]
        base = np.ravel_multi_index(classes, widths) + self.first[-1] + 1 + self.known
        self.known += prod(widths)
        return self.features.add(columns, [base, *(c + self.first[j] for j, c in zip(columns, codes, strict=True))])

    def left(self, columns: Clique) -> int:
        """Return the position of the first left of some columns, which are in ascending order."""
        if columns in self.lefts.places:
            return self.lefts.places[columns]
        parts = self.parts(columns) or [()]
        return self.lefts.add(columns, [cell_map(self.sizes, columns, part) + self.feature(part) for part in parts])

    def parts(self, columns: Clique) -> list[Clique]:
        """Divide columns by their groups, in ascending order."""
        of = {j: self.possible.group_of(j) for j in columns}
        return [tuple(sorted(j for j in columns if of[j] == g)) for g in sorted(set(of.values()))]

    def entries(self, columns: Clique) -> tuple[Indices, Indices]:
        """Return the left and the right of each cell of a marginal, in row-major order of the given columns."""
        alone: list[Clique] = [part for part in self.parts(columns) if len(part) == 1]
        options = [(tuple(sorted({*columns} - {*last})), last) for last in alone or [()]]
        ready = [option for option in options if option[0] in self.lefts.places]
        # The number of lefts is smallest if the widest column is on the right.
        rest, last = max(ready or options, key=lambda option: prod(self.sizes[j] for j in option[1]))
        left, right = (cell_map(self.sizes, columns, part) for part in (rest, last))
        return left + self.left(rest), right + self.feature(last)


def _product(parts: Sequence[Singles]) -> Singles:
    result = parts[0]
    for part in parts[1:]:
        result = result * part
    return result
