"""TreeEnsemble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Arg, Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, F64, I32, I64, U8, DType, TensorType
from graphwright.ops.core.common import like, need_dtype, quiet
from graphwright.ops.ml.post_transforms import DOMAIN, TRANSFORMS, as_type, transformed
from graphwright.records import dataclass

DTYPES = frozenset({F32, F64})
COMPARISONS: tuple[Callable[..., Any], ...] = (
    np.less_equal,
    np.less,
    np.greater_equal,
    np.greater,
    np.equal,
)
"""What a node asks of its feature and its split, by mode, in ONNX's order."""
EQUAL, _UNEQUAL, _MEMBER = 4, 5, 6
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MAX_TARGETS = 1 << 20
"""A row of scores has as many elements, whatever the trees say."""
MAX_DEPTH = 4096
"""Trees are walked in steps that all take together: deeper ones are chains, or go in a circle."""


@op("TreeEnsemble")
class TreeEnsemble(Op):
    """Decision trees over the rows of x[N, F]: for each target, what the leaves that are reached say of it.

    Operands behind x are each tree's root; for each node its feature, split, mode, the answer for NaN, and
    the next node if the answer is yes or no; where its votes end, those of the next node begin; and of each
    vote the target and the weight. A leaf's next node is itself: after ``depth`` steps every walk is at one.
    A target that no leaf speaks of is 0. Sums are formed in f64.
    """

    size: int
    depth: int
    aggregate: str = "SUM"

    def verify(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise InferError(f"aggregate {self.aggregate!r} is not one of {', '.join(AGGREGATES)}")
        if not 1 <= self.size <= MAX_TARGETS or not 0 <= self.depth <= MAX_DEPTH:
            limits = f"1 to {MAX_TARGETS}, and up to {MAX_DEPTH} are taken"
            raise InferError(f"{self.size} targets, {self.depth} steps: {limits}")

    def infer(self, at: Inference, x: Fact, roots: Fact, *table: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        if x.rank != 2:
            raise at.fail(f"the input is {x.type}; it must be rows of features")
        wanted = (I64, I64, x.dtype, U8, BOOL, I64, I64, I64, I64, x.dtype)
        for fact, dtype in zip((roots, *table), wanted, strict=True):
            need_dtype(at, fact, {dtype}, "a column of the nodes")
            if fact.rank != 1:
                raise at.fail(f"an attribute of the nodes is {fact.type}; it must be a vector")
        features, *columns, targets, weights = table
        for column in columns:
            at.equal(column.shape[0], features.shape[0], "the number of nodes")
        at.equal(targets.shape[0], weights.shape[0], "the number of votes")
        if features.data is not None and features.data.size:
            at.at_least(x.shape[1], int(features.data.max()) + 1, "the number of features")
        return TensorType(x.dtype, (x.shape[0], self.size))

    @quiet
    def reference(self, x: Array, roots: Array, *table: Array) -> Array:
        features, splits, modes, missing, yes, no, ends, targets, weights = table
        node = np.broadcast_to(roots, (x.shape[0], roots.size))
        for _ in range(self.depth):
            value, split, mode = np.take_along_axis(x, features[node], 1), splits[node], modes[node]
            answer = np.choose(mode, [compare(value, split) for compare in COMPARISONS])
            node = np.where(np.where(np.isnan(value), missing[node], answer), yes[node], no[node])
        starts = np.concatenate([[0], ends[:-1]])
        row, vote = _votes(node, starts, ends)
        scores = np.full((x.shape[0], self.size), 0.0 if self.aggregate in ("SUM", "AVERAGE") else np.nan)
        gather = {"MIN": np.fmin, "MAX": np.fmax}.get(self.aggregate, np.add)
        gather.at(scores, (row, targets[vote]), weights[vote].astype(np.float64))
        if self.aggregate == "AVERAGE":
            scores /= roots.size
        return like(np.where(np.isnan(scores), 0, scores) if gather is not np.add else scores, x)


def _votes(leaves: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """The row and the place of every vote of ``leaves``, [N, trees], in their order."""
    first, count = starts[leaves].ravel(), (ends - starts)[leaves].ravel()
    behind = np.cumsum(count)
    within = np.arange(behind[-1] if behind.size else 0) - np.repeat(behind - count, count)
    row = np.repeat(np.arange(leaves.size) // max(leaves.shape[1], 1), count)
    return row, np.repeat(first, count) + within


@dataclass(frozen=True)
class Trees:
    """Columns of nodes and of votes, as the operands of :class:`TreeEnsemble`."""

    roots: Array
    features: Array
    splits: Array
    modes: Array
    missing: Array
    yes: Array
    no: Array
    ends: Array
    targets: Array
    weights: Array

    def emit(self, i: Importer, x: Value, size: int, aggregate: str) -> Value:
        """Scores [N, size] of the rows of ``x``. Refuses what is no forest."""
        if size < 1 or not self._in_bounds(size):
            raise i.fail(f"a target is not below {size}, or a feature is negative", "export the model again")
        depth = self._depth(i)
        integers = {"roots", "features", "yes", "no", "ends", "targets"}
        types = {"splits": x.type.dtype.numpy, "weights": x.type.dtype.numpy, "modes": "u1", "missing": "?"}
        columns = [
            array.astype("i8" if name in integers else types[name]) for name, array in vars(self).items()
        ]
        made: Value = i.emit(TreeEnsemble(size, depth, aggregate), x, *map(i.const, columns))
        return made

    def _in_bounds(self, size: int) -> bool:
        return bool(
            self.targets.min(initial=0) >= 0
            and self.targets.max(initial=0) < size
            and self.features.min(initial=0) >= 0
        )

    def _depth(self, i: Importer) -> int:
        """Steps from the roots until every walk is at a leaf."""
        if not self.roots.size or self.roots.min() < 0 or self.roots.max() >= self.yes.size:
            raise i.fail(
                f"{self.roots.size} trees have roots out of bounds, or none", "export the model again"
            )
        inner = (self.yes != np.arange(self.yes.size)) | (self.no != np.arange(self.no.size))
        walks, depth = np.unique(self.roots), 0
        while (walks := walks[inner[walks]]).size:
            walks, depth = np.unique([self.yes[walks], self.no[walks]]), depth + 1
            if depth > MAX_DEPTH:
                raise i.fail(f"a tree is deeper than {MAX_DEPTH} nodes, or has a cycle")
        return depth


Row = tuple[int, Any, int, bool, int, int]
"""One node: feature, split, mode, the answer for NaN, the next node if yes and if no."""


def _import(i: Importer) -> Any:
    dtype = i.input(0).type.dtype
    targets, weights = i.required_attr("leaf_targetids"), i.required_attr("leaf_weights").ravel()
    splits, leaves = i.required_attr("nodes_splits"), len(targets)
    if splits.dtype != dtype.numpy or weights.dtype != dtype.numpy:
        raise i.fail(f"splits are {splits.dtype} and weights {weights.dtype}, the input is {dtype}")
    if leaves != weights.size or not leaves:
        raise i.fail("attributes of leaves have unequal lengths or none", "export the model again")
    rows = _rows(i, leaves, splits.ravel())
    roots = np.array(i.required_attr("tree_roots"), np.int64) + leaves
    if (roots < leaves).any():
        raise i.fail(f"{roots.size} trees have roots out of bounds", "export the model again")
    ends = np.minimum(np.arange(1, len(rows) + 1), leaves)
    features, cuts, modes, missing, yes, no = map(np.array, zip(*rows, strict=True))
    targets = np.array(targets)
    trees = Trees(roots, features, cuts, modes, missing, yes, no, ends, targets, weights)
    size = int(i.attr("n_targets", targets.max() + 1))
    x = as_type(i, i.input(0), F64 if dtype == F64 else F32)
    transform = _named(i, "post_transform", TRANSFORMS, 0)
    y = trees.emit(i, x, size, _named(i, "aggregate_function", AGGREGATES, 1))
    return as_type(i, transformed(i, y, transform), dtype)


def _rows(i: Importer, leaves: int, splits: Array) -> list[Row]:
    """Leaves first, then the nodes in their order, then what sets of members need on top."""
    modes = i.required_attr("nodes_modes").ravel().tolist()
    features = i.required_attr("nodes_featureids")
    missing = i.attr("nodes_missing_value_tracks_true") or (0,) * len(modes)
    branches = [
        (i.required_attr(f"nodes_{answer}nodeids"), i.required_attr(f"nodes_{answer}leafs"))
        for answer in ("true", "false")
    ]
    lengths = {len(c) for c in (modes, features, splits, missing, *branches[0], *branches[1])}
    if lengths != {len(modes)} or not modes:
        raise i.fail("attributes of nodes have unequal lengths or none", "export the model again")
    if max(modes) > _MEMBER:
        raise i.fail(f"mode {max(modes)} of a node is unknown")
    sets = iter(_sets(i))
    rows: list[Row] = [(0, 0.0, 0, False, k, k) for k in range(leaves)]
    more = leaves + len(modes)
    chains: list[Row] = []
    for k, (split, mode) in enumerate(zip(splits, modes, strict=True)):
        yes, no = (_next(i, ids[k], is_leaf[k], leaves, len(modes)) for ids, is_leaf in branches)
        flag = bool(missing[k])
        if mode == _UNEQUAL:  # NaN is unequal to all
            yes, no, mode, flag = no, yes, EQUAL, False
        members = [split]
        if mode == _MEMBER:
            members, mode = next(sets, []) or [np.nan], EQUAL
        here: list[Row] = []
        for number, member in enumerate(members):
            last = number == len(members) - 1
            further = no if last else more + len(chains) + number
            here.append((features[k], member, mode, flag, yes, further))
        rows.append(here[0])
        chains += here[1:]
    return rows + chains


def _sets(i: Importer) -> list[list[Any]]:
    """The sets of members, one after another, each closed by NaN."""
    sets: list[list[Any]] = [[]]
    for member in i.attr("membership_values", np.zeros(0)).ravel():
        if np.isnan(member):
            sets.append([])
        else:
            sets[-1].append(member)
    return sets


def _next(i: Importer, place: int, is_leaf: int, leaves: int, nodes: int) -> int:
    if not 0 <= place < (leaves if is_leaf else nodes):
        raise i.fail(
            f"a node refers to child {place}; there are {leaves} leaves and {nodes} nodes",
            "export the model again",
        )
    return place if is_leaf else leaves + place


def _named(i: Importer, attribute: str, names: tuple[str, ...], usual: int) -> str:
    number = int(i.attr(attribute, usual))
    if not 0 <= number < len(names):
        raise i.fail(f"{attribute} {number} is not known: it is below {len(names)}")
    return names[number]


TreeEnsemble.onnx = {("TreeEnsemble", 5, DOMAIN): _import}


def _stumps(dtype: DType, modes: tuple[int, ...] = (0, 3, 4)) -> tuple[Arg, ...]:
    """Three leaves, of 1, 2 and 1 votes, and three nodes: a tree of two of these, and one of the third."""
    return (
        arg(I64, 2, values=(3, 5)),
        arg(I64, 6, values=(0, 0, 0, 1, 0, 2)),
        arg(dtype, 6, values=(0, 0, 0, 0.25, -0.5, 0)),
        arg(U8, 6, values=(modes[0],) * 3 + modes),
        arg(BOOL, 6, values=(0, 0, 0, 1, 0, 0)),
        arg(I64, 6, values=(0, 1, 2, 0, 1, 2)),
        arg(I64, 6, values=(0, 1, 2, 4, 2, 0)),
        arg(I64, 6, values=(1, 3, 4, 4, 4, 4)),
        arg(I64, 4, values=(1, 0, 1, 1)),
        arg(dtype, 4, values=(0.75, -2.5, 0.5, 1.25)),
    )


_X = arg(F32, 5, 3)
_NANS = arg(F32, 2, 3, values=(float("nan"), 0.5, 0.0, 0.25, float("nan"), float("nan")))
_N = symbol("N")
TreeEnsemble.samples = (
    *(Sample(TreeEnsemble(3, 2, aggregate), (_X, *_stumps(F32))) for aggregate in AGGREGATES),
    Sample(TreeEnsemble(2, 2), (arg(F64, 4, 3), *_stumps(F64))),
    *(Sample(TreeEnsemble(2, 2), (_NANS, *_stumps(F32, m))) for m in ((0, 1, 2), (3, 4, 0), (1, 1, 1))),
    Sample(TreeEnsemble(2, 2, "AVERAGE"), (arg(F32, _N, 4), *_stumps(F32))),
    Sample(TreeEnsemble(2, 2), (arg(F32, 0, 4), *_stumps(F32))),
    Sample(TreeEnsemble(2, 2), (arg(F32, 4, 2), *_stumps(F32)), "the number of features: 2 is less than 3"),
    Sample(TreeEnsemble(2, 2), (arg(F32, 4), *_stumps(F32)), "it must be rows of features"),
    Sample(TreeEnsemble(2, 2), (arg(I32, 4, 3), *_stumps(F32)), "the input is i32"),
    Sample(TreeEnsemble(2, 2), (arg(F64, 4, 3), *_stumps(F32)), "a column of the nodes is f32"),
    Sample(TreeEnsemble(2, 2, "MEDIAN"), (_X, *_stumps(F32)), "'MEDIAN'"),
    Sample(TreeEnsemble(1 << 40, 2), (_X, *_stumps(F32)), "1099511627776 targets"),
)
