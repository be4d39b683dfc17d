"""The loss of a mixture of products against noisy marginals, and its gradient: three matrix products, in NumPy.

Everything is laid out as (feature, component), in single precision. A feature is P_k of one code, or of a combination
of codes within one group of tied columns; a *left* is a product of features. Every measured cell is then one entry
of the matrix left × right over components, where right holds the features of single codes and a constant 1:
one matrix product gives all measured marginals at once, and its two transposes give the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
from scipy import sparse

from equistrata.arrays import Floats
from equistrata.data.schema import Schema
from equistrata.synth.measurements import Measurement
from equistrata.synth.models.possible import Indices, Possible

Singles = npt.NDArray[np.float32]  # (features or logits, components)

_EXACT_SIGMA = 0.01  # the σ with which a public marginal (σ = 0) is fitted


@dataclass(frozen=True, eq=False)
class Softmax:
    """From logits per code to features: the forward map of one schema and its transpose.

    A component is a product of columns conditioned on the possible: P_k(class combination) is the softmax, over the
    group's combinations, of the sum of its classes' log-sum-exp logits; P_k(code | class) is the softmax in the class.

    Attributes:
        classes: (segments, codes), 1 where a code is in a class.
        cells: (combinations of all groups, segments), 1 where a combination has a class.
        starts: where each group's combinations begin.
        segment: the class of each code.
    """

    possible: Possible
    segment: Indices
    classes: sparse.csr_array
    cells: sparse.csr_array
    starts: Indices

    @classmethod
    def of(cls, possible: Possible) -> Softmax:
        """The map of a schema's possible combinations."""
        first = np.cumsum([0, *(possible.class_count(j) for j in range(len(possible.sizes)))])
        segment = np.concatenate([classes + first[j] for j, classes in enumerate(possible.classes)])
        rows, columns, starts, height = [], [], [], 0
        for group in possible.groups:
            starts.append(height)
            for spot, j in enumerate(group.columns):
                rows.append(np.arange(len(group.cells)) + height)
                columns.append(group.cells[:, spot] + first[j])
            height += len(group.cells)
        codes, classes = len(segment), int(first[-1])
        members = _indicator(segment, np.arange(codes), (classes, codes))
        cells = _indicator(np.concatenate(rows), np.concatenate(columns), (height, classes))
        return cls(possible, segment, members, cells, np.array(starts))

    def forward(self, logits: Singles) -> tuple[Singles, Singles]:
        """P_k(combination), (combinations, K), and P_k(code | class), (codes, K)."""
        top = _segment_max(self.segment, logits, self.classes.shape[0])
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
        """The gradient with respect to the logits."""
        lengths = np.diff([*self.starts, len(joint)])
        flow = joint * to_joint
        flow -= joint * np.repeat(np.add.reduceat(flow, self.starts, axis=0), lengths, axis=0)
        to_segment = self.cells.T @ flow
        inner = within * to_within
        return np.asarray(inner + within * (to_segment - self.classes @ inner)[self.segment])


@dataclass(frozen=True, eq=False)
class MixtureLoss:
    """½ Σ over measured cells of ((model − measured)/σ)², for K components of equal weight.

    Attributes:
        softmax: the map from logits.
        project: (class features, combinations): sums of combinations.
        base: for each feature, its class feature.
        codes: for each feature, the rows of P_k(code | class) to multiply (a last row of ones fills up), one array per
            factor.
        lefts: for each left, the features to multiply, one array per factor.
        rights: the number of right features; they come first.
        select: (answers, lefts × rights), sums the entries that an answer is about.
        base_back, codes_back, lefts_back, select_back: the transposes of taking rows, for the gradient.
        answers, scales: noisy counts and 1/σ, as shares of `total`.
    """

    softmax: Softmax
    project: sparse.csr_array
    base: Indices
    base_back: sparse.csr_array
    codes: tuple[Indices, ...]
    codes_back: tuple[sparse.csr_array, ...]
    lefts: tuple[Indices, ...]
    lefts_back: tuple[sparse.csr_array, ...]
    rights: int
    select: sparse.csr_array
    select_back: sparse.csr_array
    answers: Floats
    scales: Floats

    @classmethod
    def of(cls, schema: Schema, measurements: Sequence[Measurement], total: float) -> MixtureLoss:
        """Lay out measurements. Those of no column (the number of rows) say nothing about shares."""
        return _Builder(schema).build(schema, [m for m in measurements if m.columns], total)

    def value(self, logits: Singles, tolerance: float = 0.0) -> tuple[float, Floats, Singles]:
        """The loss, the residuals in units of σ, and the gradient with respect to logits of shape (codes, K).

        Residuals within ± tolerance count as zero, larger ones by what they exceed it.
        """
        count = logits.shape[1]
        joint, within = self.softmax.forward(logits)
        ones = np.ones((1, count), dtype=np.float32)
        padded = np.concatenate([within, ones])
        known = self.project @ joint
        taken = [padded[index] for index in self.codes]
        features = _product([known[self.base], *taken])
        chosen = [features[index] for index in self.lefts]
        left = _product(chosen)
        right = features[: self.rights]
        table = (left @ right.T) / np.float32(count)
        residual = (self.select @ table.ravel() - self.answers) * self.scales
        pull = residual - np.clip(residual, -tolerance, tolerance) if tolerance else residual
        to_table = (self.select_back @ (pull * self.scales / count)).astype(np.float32).reshape(table.shape)
        to_left = to_table @ right
        to_features = np.zeros_like(features)
        for number, scatter in enumerate(self.lefts_back):
            to_features += scatter @ _product([to_left, *chosen], but=number + 1)
        to_features[: self.rights] += to_table.T @ left
        to_joint = self.project.T @ (self.base_back @ _product([to_features, *taken]))
        to_padded = np.zeros_like(padded)
        for number, scatter in enumerate(self.codes_back):
            to_padded += scatter @ _product([to_features, known[self.base], *taken], but=number + 2)
        gradient = self.softmax.backward(joint, within, to_joint, to_padded[:-1])
        return float(0.5 * pull @ pull), residual, gradient


class _Builder:
    """Lays out features, lefts and rights for measurements, each only once."""

    def __init__(self, schema: Schema) -> None:
        self.possible = Possible.of(schema)
        self.softmax = Softmax.of(self.possible)
        self.sizes = schema.sizes
        self.first = np.cumsum([0, *self.sizes])
        self.project: list[Indices] = [np.zeros(len(self.possible.groups[0].cells), dtype=np.intp)]
        self.combinations: list[Indices] = [np.arange(len(self.possible.groups[0].cells))]
        self.known = 1  # class features so far; the first sums a whole group, so it is the constant 1
        self.base: list[Indices] = [np.zeros(1, dtype=np.intp)]
        self.codes: list[list[Indices]] = [[np.full(1, self.first[-1])]]
        self.places: dict[tuple[int, ...], int] = {(): 0}
        self.features = 1
        self.lefts: list[list[Indices]] = []
        self.left_places: dict[tuple[int, ...], int] = {}
        self.height = 0
        for j in range(len(self.sizes)):
            self.feature((j,))

    def feature(self, columns: tuple[int, ...]) -> int:
        """Where the features of some columns of one group begin."""
        if columns in self.places:
            return self.places[columns]
        group = self.possible.groups[self.possible.group_of(columns[0])]
        start = int(self.softmax.starts[self.possible.groups.index(group)])
        shape = [self.sizes[j] for j in columns]
        cells = np.unravel_index(np.arange(prod(shape)), shape)
        widths = [self.possible.class_count(j) for j in columns]
        key = np.ravel_multi_index([group.cells[:, group.columns.index(j)] for j in columns], widths)
        self.project.append(key + self.known)
        self.combinations.append(np.arange(len(group.cells)) + start)
        classes = [self.possible.classes[j][cell] for j, cell in zip(columns, cells, strict=True)]
        self.base.append(np.ravel_multi_index(classes, widths) + self.known)
        self.codes.append([cell + self.first[j] for j, cell in zip(columns, cells, strict=True)])
        self.known += prod(widths)
        self.places[columns] = self.features
        self.features += prod(shape)
        return self.places[columns]

    def left(self, columns: tuple[int, ...]) -> int:
        """Where the lefts of some columns (ascending) begin."""
        if columns in self.left_places:
            return self.left_places[columns]
        shape = [self.sizes[j] for j in columns]
        cells = _codes_of(columns, shape)
        factors = []
        for part in self.parts(columns):
            local = np.ravel_multi_index([cells[j] for j in part], [self.sizes[j] for j in part])
            factors.append(local + self.feature(part))
        self.lefts.append(factors or [np.zeros(1, dtype=np.intp)])
        self.left_places[columns] = self.height
        self.height += prod(shape)
        return self.left_places[columns]

    def parts(self, columns: Sequence[int]) -> list[tuple[int, ...]]:
        """Columns by group, ascending."""
        of = {j: self.possible.group_of(j) for j in columns}
        return [tuple(sorted(j for j in columns if of[j] == g)) for g in sorted(set(of.values()))]

    def entries(self, columns: Sequence[int]) -> tuple[Indices, Indices]:
        """The left and the right of each cell of a marginal, row-major in the order given."""
        alone = [part[0] for part in self.parts(columns) if len(part) == 1]
        options = [(tuple(sorted(set(columns) - {j})), j) for j in alone]
        ready = [option for option in options if option[0] in self.left_places]
        shape = [self.sizes[j] for j in columns]
        cells = _codes_of(columns, shape)
        if options:  # the widest column on the right makes the fewest lefts
            rest, j = max(ready or options, key=lambda option: self.sizes[option[1]])
            right = cells[j] + self.feature((j,))
        else:
            rest, right = tuple(sorted(columns)), np.zeros(prod(shape), dtype=np.intp)
        place = self.left(rest)
        if rest:
            return np.ravel_multi_index([cells[j] for j in rest], [self.sizes[j] for j in rest]) + place, right
        return np.full(prod(shape), place), right

    def build(self, schema: Schema, measurements: Sequence[Measurement], total: float) -> MixtureLoss:
        rights = self.features
        answer, entry, answers, scales, height = [], [], [], [], 0
        for measurement in measurements:
            left, right = self.entries([schema.index(name) for name in measurement.columns])
            answer.append(measurement.group_index([schema[name].size for name in measurement.columns]) + height)
            entry.append(left * rights + right)
            answers.append(measurement.values.ravel() / total)
            scales.append(np.full(measurement.values.size, total / (measurement.sigma or _EXACT_SIGMA)))
            height += measurement.values.size
        if not answer:
            self.left(())
            nothing = np.zeros(0, dtype=np.intp)
            answer, entry, answers, scales = [nothing], [nothing], [np.zeros(0)], [np.zeros(0)]
        base = np.concatenate(self.base)
        codes = _stack(self.codes, int(self.first[-1]))
        lefts = _stack(self.lefts, 0)
        select = _indicator(np.concatenate(answer), np.concatenate(entry), (height, self.height * rights), np.float64)
        combinations = (self.known, self.softmax.cells.shape[0])
        return MixtureLoss(
            softmax=self.softmax,
            project=_indicator(np.concatenate(self.project), np.concatenate(self.combinations), combinations),
            base=base,
            base_back=_indicator(base, np.arange(len(base)), (self.known, len(base))),
            codes=codes,
            codes_back=tuple(_indicator(c, np.arange(len(c)), (int(self.first[-1]) + 1, len(c))) for c in codes),
            lefts=lefts,
            lefts_back=tuple(_indicator(c, np.arange(len(c)), (self.features, len(c))) for c in lefts),
            rights=rights,
            select=select,
            select_back=select.T.tocsr(),
            answers=np.concatenate(answers).astype(float),
            scales=np.concatenate(scales).astype(float),
        )


def _codes_of(columns: Sequence[int], shape: Sequence[int]) -> dict[int, Indices]:
    """The code of each column in each cell of a table over them, row-major."""
    return dict(zip(columns, np.indices(shape).reshape(len(shape), prod(shape)), strict=True))


def _stack(blocks: Sequence[Sequence[Indices]], fill: int) -> tuple[Indices, ...]:
    """Blocks of parallel index arrays as a few long ones; blocks with fewer arrays are filled up."""
    depth = max(map(len, blocks))
    return tuple(
        np.concatenate([b[n] if n < len(b) else np.full(len(b[0]), fill) for b in blocks]) for n in range(depth)
    )


def _product(parts: Sequence[Singles], but: int = -1) -> Singles:
    result = parts[0]
    for number, part in enumerate(parts[1:], start=1):
        if number != but:
            result = result * part
    return result


def _segment_max(segment: Indices, values: Singles, count: int) -> Singles:
    order = np.argsort(segment, kind="stable")
    return np.maximum.reduceat(values[order], np.searchsorted(segment[order], np.arange(count)), axis=0)


def _indicator(
    rows: Indices, columns: Indices, shape: tuple[int, int], dtype: npt.DTypeLike = np.float32
) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows), dtype=dtype), (rows, columns)), shape=shape)
