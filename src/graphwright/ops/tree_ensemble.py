"""TreeEnsemble."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Arg, Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F16, F32, F64, I32, I64, U8, DType, TensorType
from graphwright.ops.binary import Div, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Where
from graphwright.ops.cast import as_dtype, in_f32
from graphwright.ops.common import like, need_dtype, quiet, widened
from graphwright.ops.gather import Gather
from graphwright.ops.gather_elements import GatherElements
from graphwright.ops.reductions import ReduceMax, ReduceMin, ReduceSum
from graphwright.ops.softmax import Softmax
from graphwright.ops.unary import IsNaN, Sigmoid
from graphwright.ops.unsqueeze import Unsqueeze

DTYPES = frozenset({F16, F32, F64})
COMPARISONS: tuple[tuple[Callable[..., Any], Op], ...] = (
    (np.less_equal, LessOrEqual()),
    (np.less, Less()),
    (np.greater_equal, GreaterOrEqual()),
    (np.greater, Greater()),
    (np.equal, Equal()),
)
"""What a node asks of its feature and its split, by mode, in ONNX's order."""
_EQUAL, _UNEQUAL, _MEMBER = 4, 5, 6
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MAX_DEPTH = 4096
"""Trees are walked in steps that all take together: deeper ones are chains, or go in a circle."""


@op("TreeEnsemble")
class TreeEnsemble(Op):
    """Decision trees over the rows of x[N, F]: for each target, what the leaves that are reached say of it.

    Operands behind x are each tree's root, and for each node its feature, split, mode, the answer for NaN,
    the next node if the answer is yes or no, and, of a leaf, target and weight. A leaf's next node is itself:
    after ``depth`` steps every walk is at one. A target that no leaf speaks of is 0.
    """

    size: int
    depth: int
    aggregate: str = "SUM"
    transform: str = "NONE"

    def verify(self) -> None:
        if self.aggregate not in AGGREGATES or self.transform not in TRANSFORMS:
            raise InferError(f"aggregate {self.aggregate!r} or transform {self.transform!r} is not known")
        if self.size < 1 or not 0 <= self.depth <= MAX_DEPTH:
            raise InferError(
                f"{self.size} targets, {self.depth} steps: 1 or more, up to {MAX_DEPTH} are taken"
            )

    def infer(self, at: Inference, x: Fact, roots: Fact, *table: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        if x.rank != 2:
            raise at.fail(f"the input is {x.type}; it takes rows of features")
        wanted = (I64, x.dtype, U8, BOOL, I64, I64, I64, x.dtype)
        for fact, dtype in zip((roots, *table), (I64, *wanted), strict=True):
            need_dtype(at, fact, {dtype}, "a column of the nodes")
            if fact.rank != 1:
                raise at.fail(f"a column of the nodes is {fact.type}; it is a vector")
            if fact is not roots:
                at.equal(fact.shape[0], table[0].shape[0], "the number of nodes")
        features = table[0].data
        if features is not None and features.size:
            at.at_least(x.shape[1], int(features.max()) + 1, "the number of features")
        return TensorType(x.dtype, (x.shape[0], self.size))

    @quiet
    def reference(self, x: Array, roots: Array, *table: Array) -> Array:
        features, splits, modes, missing, yes, no, targets, weights = table
        node = np.broadcast_to(roots, (x.shape[0], roots.size))
        for _ in range(self.depth):
            value, split, mode = np.take_along_axis(x, features[node], 1), splits[node], modes[node]
            answer = np.choose(mode, [compare(value, split) for compare, _ in COMPARISONS])
            node = np.where(np.where(np.isnan(value), missing[node], answer), yes[node], no[node])
        named = targets[node][..., np.newaxis] == np.arange(self.size)
        spread = np.where(named, widened(weights)[node][..., np.newaxis], self._neutral())
        if self.aggregate == "MIN":
            y = np.where(named.any(1), spread.min(1, initial=np.inf), 0)
        elif self.aggregate == "MAX":
            y = np.where(named.any(1), spread.max(1, initial=-np.inf), 0)
        else:
            y = spread.sum(1) / (roots.size if self.aggregate == "AVERAGE" else 1)
        return like(_transformed(y, self.transform), x)

    def decompose(self, b: Builder, x: Value, roots: Value, *table: Value) -> Value | None:
        """All walks a step at a time; None with PROBIT."""
        if self.transform == "PROBIT":
            return None
        yes, no, targets, weights = table[4:]
        node = roots
        for step in range(self.depth):
            feature = b(Gather(), table[0], node)
            value = b(GatherElements(1) if step else Gather(1), x, feature)
            answer = _answer(b, value, node, *table[1:4])
            node = b(Where(), answer, b(Gather(), yes, node), b(Gather(), no, node))
        return as_dtype(
            b, self._scores(b, b(Gather(), targets, node), b(Gather(), weights, node)), x.type.dtype
        )

    def _neutral(self) -> float:
        """What a leaf says of other targets than its own."""
        return {"MIN": math.inf, "MAX": -math.inf}.get(self.aggregate, 0.0)

    def _scores(self, b: Builder, targets: Value, weights: Value) -> Value:
        """Scores [N, size] from the target and weight of each tree's leaf: both are [N, trees]."""
        weights = in_f32(b, weights)
        trees, dtype = weights.type.dims[1], weights.type.dtype
        fold = {"MIN": ReduceMin, "MAX": ReduceMax}.get(self.aggregate, ReduceSum)
        zero = b.const(0, dtype)
        named = b(Equal(), b(Unsqueeze((2,)), targets), b.const(np.arange(self.size, dtype=np.int64)))
        spread = b(Where(), named, b(Unsqueeze((2,)), weights), b.const(self._neutral(), dtype))
        y: Value = b(fold((1,), False), spread)
        if self.aggregate in ("MIN", "MAX"):
            y = b(Where(), b(ReduceMax((1,), False), named), y, zero)
        if self.aggregate == "AVERAGE":
            assert isinstance(trees, int)  # the roots are listed
            y = b(Div(), y, b.const(trees, dtype))
        if self.transform == "LOGISTIC":
            y = b(Sigmoid(), y)
        elif self.transform == "SOFTMAX":
            y = b(Softmax(), y)
        elif self.transform == "SOFTMAX_ZERO":
            absent = b(Equal(), y, zero)
            y = b(Where(), absent, zero, b(Softmax(), b(Where(), absent, b.const(-math.inf, dtype), y)))
        return y


def _answer(b: Builder, value: Value, node: Value, splits: Value, modes: Value, missing: Value) -> Value:
    """Whether each walk goes on at the first of the two next nodes."""
    split = b(Gather(), splits, node)
    known, flags = b.fact(modes), b.fact(missing)
    present = (
        range(len(COMPARISONS)) if known is None or known.data is None else np.unique(known.data).tolist()
    )
    first, *others = present
    answer: Value = b(COMPARISONS[first][1], value, split)
    for mode in others:
        own = b(Equal(), b(Gather(), modes, node), b.const(mode, U8))
        answer = b(Where(), own, b(COMPARISONS[mode][1], value, split), answer)
    if flags is not None and flags.data is not None and not flags.data.any():
        return answer  # a comparison with NaN is false
    answer = b(Where(), b(IsNaN(), value), b(Gather(), missing, node), answer)
    return answer


def _transformed(y: Array, transform: str) -> Array:
    if transform == "LOGISTIC":
        return np.asarray(1 / (1 + np.exp(-y)))
    if transform == "PROBIT":
        return np.array([_probit(float(p)) for p in y.ravel()], dtype=y.dtype).reshape(y.shape)
    if transform == "NONE":
        return y
    absent = (y == 0) & (transform == "SOFTMAX_ZERO")
    scores = np.where(absent, -np.inf, y)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.where(absent, 0, powers / powers.sum(1, keepdims=True))


def _probit(p: float) -> float:
    """The normal distribution's quantile, by Newton's method: its lower half is convex, so steps from 0 do
    not overshoot.
    """
    if not 0 < p < 1:
        return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)
    tail, z = min(p, 1 - p), 0.0
    for _ in range(1000):
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        step = (math.erfc(-z / math.sqrt(2)) / 2 - tail) / density
        z -= step
        if abs(step) <= 1e-15 * abs(z):
            break
    return z if p < 0.5 else -z


Row = tuple[int, Any, int, bool, int, int, int, Any]
"""One node: feature, split, mode, the answer for NaN, the next node if yes and if no, target, weight."""


def _import(i: Importer) -> Any:
    dtype = i.input(0).type.dtype
    rows = _rows(i, dtype)
    features, splits, modes, missing, yes, no, targets, weights = zip(*rows, strict=True)
    after = np.array([yes, no], dtype=np.int64)
    leaves = len(i.required_attr("leaf_targetids"))
    roots = np.array(i.required_attr("tree_roots"), dtype=np.int64) + leaves
    size = i.attr("n_targets", max(targets) + 1)
    if not all(0 <= target < size for target in targets) or min(features) < 0:
        raise i.fail(
            f"a leaf's target is not below {size}, or a feature is negative", "export the model again"
        )
    made = TreeEnsemble(
        size=size,
        depth=_depth(i, roots, after, leaves),
        aggregate=_named(i, "aggregate_function", AGGREGATES, 1),
        transform=_named(i, "post_transform", TRANSFORMS, 0),
    )
    columns = (
        roots,
        np.array(features, np.int64),
        np.array(splits, dtype.numpy),
        np.array(modes, np.uint8),
        np.array(missing, np.bool_),
        *after,
        np.array(targets, np.int64),
        np.array(weights, dtype.numpy),
    )
    return i.emit(made, i.input(0), *map(i.const, columns))


def _rows(i: Importer, dtype: DType) -> list[Row]:
    """Leaves first, then the nodes in their order, then what sets of members need on top."""
    targets, weights = i.required_attr("leaf_targetids"), i.required_attr("leaf_weights")
    splits, modes = i.required_attr("nodes_splits"), i.required_attr("nodes_modes").ravel().tolist()
    features = i.required_attr("nodes_featureids")
    missing = i.attr("nodes_missing_value_tracks_true", (0,) * len(modes))
    branches = [
        (i.required_attr(f"nodes_{answer}nodeids"), i.required_attr(f"nodes_{answer}leafs"))
        for answer in ("true", "false")
    ]
    lengths = {len(c) for c in (modes, features, splits.ravel(), missing, *branches[0], *branches[1])}
    if lengths != {len(modes)} or not modes or len(targets) != weights.size or not targets:
        raise i.fail(
            "attributes of nodes, or of leaves, have unequal lengths or none", "export the model again"
        )
    if splits.dtype != dtype.numpy or weights.dtype != dtype.numpy:
        raise i.fail(f"splits are {splits.dtype} and weights {weights.dtype}, the input is {dtype}")
    if max(modes) > _MEMBER:
        raise i.fail(f"mode {max(modes)} of a node is not known")
    sets = iter(_sets(i))
    usual = _EQUAL if modes[0] in (_UNEQUAL, _MEMBER) else modes[0]
    rows: list[Row] = [
        (0, 0.0, usual, False, k, k, target, weight)
        for k, (target, weight) in enumerate(zip(targets, weights.ravel(), strict=True))
    ]
    more = len(rows) + len(modes)
    chains: list[Row] = []
    for k, (split, mode) in enumerate(zip(splits.ravel(), modes, strict=True)):
        yes, no = (_next(i, ids[k], leaves[k], len(targets), len(modes)) for ids, leaves in branches)
        flag = bool(missing[k])
        if mode == _UNEQUAL:
            yes, no, mode, flag = no, yes, _EQUAL, not flag
        members = [split]
        if mode == _MEMBER:
            members, mode = next(sets, []) or [math.nan], _EQUAL
        here: list[Row] = []
        for number, member in enumerate(members):
            last = number == len(members) - 1
            further = no if last else more + len(chains) + number
            here.append((features[k], member, mode, flag, yes, further, 0, 0))
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
            f"a node leads to {place} of {leaves} leaves and {nodes} nodes", "export the model again"
        )
    return place if is_leaf else leaves + place


def _depth(i: Importer, roots: Array, after: Array, leaves: int) -> int:
    """Steps from the roots until every walk is at a leaf; ``leaves`` come first."""
    if not roots.size or roots.min() < leaves or roots.max() >= after.shape[1]:
        raise i.fail(f"{roots.size} trees have roots out of bounds, or none", "export the model again")
    walks, depth = np.unique(roots), 0
    while (walks := walks[walks >= leaves]).size:
        walks, depth = np.unique(after[:, walks]), depth + 1
        if depth > MAX_DEPTH:
            raise i.fail(f"a tree is deeper than {MAX_DEPTH} nodes, or goes in a circle")
    return depth


def _named(i: Importer, attribute: str, names: tuple[str, ...], usual: int) -> str:
    number = int(i.attr(attribute, usual))
    if not 0 <= number < len(names):
        raise i.fail(f"{attribute} {number} is not known: it is below {len(names)}")
    return names[number]


TreeEnsemble.onnx = {("TreeEnsemble", 5, "ai.onnx.ml"): _import}


def _stumps(dtype: DType, modes: tuple[int, ...] = (0, 3, 4)) -> tuple[Arg, ...]:
    """Three leaves and three nodes: a tree of two of these, and one of the third."""
    return (
        arg(I64, 2, values=(3, 5)),
        arg(I64, 6, values=(0, 0, 0, 1, 0, 2)),
        arg(dtype, 6, values=(0, 0, 0, 0.25, -0.5, 0)),
        arg(U8, 6, values=(modes[0],) * 3 + modes),
        arg(BOOL, 6, values=(0, 0, 0, 1, 0, 0)),
        arg(I64, 6, values=(0, 1, 2, 0, 1, 2)),
        arg(I64, 6, values=(0, 1, 2, 4, 2, 0)),
        arg(I64, 6, values=(1, 0, 1, 0, 0, 0)),
        arg(dtype, 6, values=(0.75, -2.5, 1.25, 0, 0, 0)),
    )


_X = arg(F32, 5, 3)
_NANS = arg(F32, 2, 3, values=(float("nan"), 0.5, 0.0, 0.25, float("nan"), float("nan")))
_N = symbol("N")
TreeEnsemble.samples = (
    *(Sample(TreeEnsemble(3, 2, aggregate), (_X, *_stumps(F32))) for aggregate in AGGREGATES),
    *(Sample(TreeEnsemble(3, 2, "SUM", transform), (_X, *_stumps(F32))) for transform in TRANSFORMS),
    *(Sample(TreeEnsemble(2, 2), (arg(t, 4, 3), *_stumps(t))) for t in (F16, F64)),
    *(Sample(TreeEnsemble(2, 2), (_NANS, *_stumps(F32, m))) for m in ((0, 1, 2), (3, 4, 0), (1, 1, 1))),
    Sample(TreeEnsemble(2, 2, "AVERAGE"), (arg(F32, _N, 4), *_stumps(F32))),
    Sample(TreeEnsemble(2, 2), (arg(F32, 0, 4), *_stumps(F32))),
    Sample(TreeEnsemble(2, 2), (arg(F32, 4, 2), *_stumps(F32)), "the number of features: 2 is less than 3"),
    Sample(TreeEnsemble(2, 2), (arg(F32, 4), *_stumps(F32)), "it takes rows of features"),
    Sample(TreeEnsemble(2, 2), (arg(I32, 4, 3), *_stumps(F32)), "the input is i32"),
    Sample(TreeEnsemble(2, 2), (arg(F64, 4, 3), *_stumps(F32)), "a column of the nodes is f32"),
    Sample(TreeEnsemble(2, 2, "MEDIAN"), (_X, *_stumps(F32)), "'MEDIAN'"),
)
