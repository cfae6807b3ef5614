"""TreeEnsemble of ``ai.onnx.ml``: the op, and its import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Arg, Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, F64, I32, I64, U8, DType, TensorType
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.references import like, quiet
from graphwright.ops.ml.post_transforms import DOMAIN, TRANSFORMS, transformed
from graphwright.records import dataclass

DTYPES = frozenset({F32, F64})
COMPARISONS: tuple[Callable[..., Any], ...] = (
    np.less_equal,
    np.less,
    np.greater_equal,
    np.greater,
    np.equal,
)
"""The comparison of a feature with the split of the node, by mode, in the order of ONNX's ``nodes_modes``."""
EQUAL, _UNEQUAL, _MEMBER = 4, 5, 6
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MAX_TARGETS = 1 << 20
"""The limit of ``size``: a row of scores has that many elements, even if few targets have votes."""
MAX_DEPTH = 4096
"""The limit of ``depth``. A deeper tree is a chain of nodes, or it has a cycle."""


@op("TreeEnsemble")
class TreeEnsemble(Op):
    """Scores [N, size] of decision trees for the rows of x[N, F].

    Each row reaches one leaf of each tree. A leaf has votes, which are pairs of a target and a weight. The
    score of a target is the ``aggregate`` of the weights that the leaves have for it, or 0 if they have none.
    Sums are computed in f64.

    Operands after x are vectors:

    - ``roots``: the root node of each tree;
    - for each node, the comparison: the feature, the split, the mode (an index of ``COMPARISONS``), and the
      answer if the feature is NaN;
    - for each node, the next node if the answer is yes, and the next node if it is no;
    - for each node, the end of its votes, which begin where the votes of the node before end;
    - for each vote: the target and the weight.

    The next node of a leaf is the leaf itself, so every row is at a leaf after ``depth`` steps.
    """

    size: int
    depth: int
    aggregate: str = "SUM"

    def verify(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise InferError(f"aggregate {self.aggregate!r} is not one of {', '.join(AGGREGATES)}")
        if not 1 <= self.size <= MAX_TARGETS or not 0 <= self.depth <= MAX_DEPTH:
            raise InferError(
                f"{self.size} targets, {self.depth} steps: there must be 1 to {MAX_TARGETS} targets and at"
                f" most {MAX_DEPTH} steps"
            )

    def infer(self, at: Inference, x: Fact, roots: Fact, *table: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        if x.rank != 2:
            raise at.fail(f"the input is {x.type}; it must be [N, features]")
        dtypes = (I64, I64, x.dtype, U8, BOOL, I64, I64, I64, I64, x.dtype)
        for fact, dtype in zip((roots, *table), dtypes, strict=True):
            need_dtype(at, fact, {dtype}, "an operand with nodes or votes")
            if fact.rank != 1:
                raise at.fail(f"an operand with nodes or votes is {fact.type}; it must be a vector")
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
        combine = {"MIN": np.fmin, "MAX": np.fmax}.get(self.aggregate, np.add)
        combine.at(scores, (row, targets[vote]), weights[vote].astype(np.float64))
        if self.aggregate == "AVERAGE":
            scores /= roots.size
        return like(np.where(np.isnan(scores), 0, scores) if combine is not np.add else scores, x)


def _votes(leaves: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """The row and the index of every vote of ``leaves`` [N, trees], in the order of the leaves."""
    first, count = starts[leaves].ravel(), (ends - starts)[leaves].ravel()
    total = np.cumsum(count)
    index_in_leaf = np.arange(total[-1] if total.size else 0) - np.repeat(total - count, count)
    row = np.repeat(np.arange(leaves.size) // max(leaves.shape[1], 1), count)
    return row, np.repeat(first, count) + index_in_leaf


@dataclass(frozen=True)
class Trees:
    """The nodes and the votes, one field for each operand of :class:`TreeEnsemble` after x."""

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
        """A TreeEnsemble node of ``x``. Raise the importer's error if a target, a feature or a root is out of
        bounds, or if the nodes have a cycle.
        """
        if size < 1 or not self._in_bounds(size):
            raise i.fail(f"a target is not below {size}, or a feature is negative", "export the model again")
        depth = self._depth(i)
        integers = {"roots", "features", "yes", "no", "ends", "targets"}
        types = {"splits": x.type.dtype.numpy, "weights": x.type.dtype.numpy, "modes": "u1", "missing": "?"}
        columns = [
            array.astype("i8" if name in integers else types[name]) for name, array in vars(self).items()
        ]
        scores: Value = i.emit(TreeEnsemble(size, depth, aggregate), x, *map(i.const, columns))
        return scores

    def _in_bounds(self, size: int) -> bool:
        return bool(
            self.targets.min(initial=0) >= 0
            and self.targets.max(initial=0) < size
            and self.features.min(initial=0) >= 0
        )

    def _depth(self, i: Importer) -> int:
        """The largest number of steps from a root to a leaf."""
        if not self.roots.size or self.roots.min() < 0 or self.roots.max() >= self.yes.size:
            raise i.fail(
                f"{self.roots.size} trees have roots out of bounds, or none", "export the model again"
            )
        is_inner = (self.yes != np.arange(self.yes.size)) | (self.no != np.arange(self.no.size))
        nodes, depth, is_next = self.roots, 0, np.zeros(self.yes.size, np.bool_)
        while (nodes := nodes[is_inner[nodes]]).size:
            is_next[self.yes[nodes]] = is_next[self.no[nodes]] = True
            nodes, depth = np.flatnonzero(is_next), depth + 1
            is_next[nodes] = False
            if depth > MAX_DEPTH:
                raise i.fail(f"a tree is deeper than {MAX_DEPTH} nodes, or has a cycle")
        return depth


Row = tuple[int, Any, int, bool, int, int]
"""One node: the feature, the split, the mode, the answer for NaN, the next node for yes, and for no."""


def _import(i: Importer) -> Any:
    dtype = i.input(0).type.dtype
    targets, weights = i.required_attr("leaf_targetids"), i.required_attr("leaf_weights").ravel()
    splits, leaves = i.required_attr("nodes_splits"), len(targets)
    if splits.dtype != dtype.numpy or weights.dtype != dtype.numpy:
        raise i.fail(
            f"nodes_splits is {splits.dtype} and leaf_weights is {weights.dtype}; both must be {dtype}, as"
            " the input"
        )
    if leaves != weights.size or not leaves:
        raise i.fail("the attributes of the leaves are empty or differ in length", "export the model again")
    rows = _rows(i, leaves, splits.ravel())
    roots = np.array(i.required_attr("tree_roots"), np.int64) + leaves
    if (roots < leaves).any():
        raise i.fail(f"{roots.size} trees have roots out of bounds", "export the model again")
    ends = np.minimum(np.arange(1, len(rows) + 1), leaves)
    features, cuts, modes, missing, yes, no = map(np.array, zip(*rows, strict=True))
    targets = np.array(targets)
    trees = Trees(roots, features, cuts, modes, missing, yes, no, ends, targets, weights)
    size = int(i.attr("n_targets", targets.max() + 1))
    x = as_dtype(i.builder, i.input(0), F64 if dtype == F64 else F32)
    transform = _enumerated(i, "post_transform", TRANSFORMS, 0)
    y = trees.emit(i, x, size, _enumerated(i, "aggregate_function", AGGREGATES, 1))
    return as_dtype(i.builder, transformed(i, y, transform), dtype)


def _rows(i: Importer, leaves: int, splits: Array) -> list[Row]:
    """The leaves, then the nodes in their order, then the nodes that tests of set membership need in
    addition.

    A node that tests membership of a set becomes a chain of nodes, each of which compares with one member.
    """
    modes = i.required_attr("nodes_modes").ravel().tolist()
    features = i.required_attr("nodes_featureids")
    missing = i.attr("nodes_missing_value_tracks_true") or (0,) * len(modes)
    branches = [
        (i.required_attr(f"nodes_{answer}nodeids"), i.required_attr(f"nodes_{answer}leafs"))
        for answer in ("true", "false")
    ]
    lengths = {len(c) for c in (modes, features, splits, missing, *branches[0], *branches[1])}
    if lengths != {len(modes)} or not modes:
        raise i.fail("the attributes of the nodes are empty or differ in length", "export the model again")
    if max(modes) > _MEMBER:
        raise i.fail(f"mode {max(modes)} of a node is unknown; it must be at most {_MEMBER}")
    sets = iter(_sets(i))
    rows: list[Row] = [(0, 0.0, 0, False, k, k) for k in range(leaves)]
    chains: list[Row] = []
    for k, (split, mode) in enumerate(zip(splits, modes, strict=True)):
        yes, no = (_next(i, ids[k], is_leaf[k], leaves, len(modes)) for ids, is_leaf in branches)
        answer = bool(missing[k])
        members = [split]
        if mode == _UNEQUAL:  # true for NaN, so the answer of the inverse comparison is no
            yes, no, mode, answer = no, yes, EQUAL, False
        elif mode == _MEMBER:
            members, mode = next(sets, []) or [np.nan], EQUAL
        first_of_chain = leaves + len(modes) + len(chains)
        successors = [*range(first_of_chain, first_of_chain + len(members) - 1), no]
        first, *rest = (
            (features[k], member, mode, answer, yes, successor)
            for member, successor in zip(members, successors, strict=True)
        )
        rows.append(first)
        chains += rest
    return rows + chains


def _sets(i: Importer) -> list[list[Any]]:
    """The sets of the attribute ``membership_values``, in which NaN ends each set."""
    sets: list[list[Any]] = [[]]
    for member in i.attr("membership_values", np.zeros(0)).ravel():
        if np.isnan(member):
            sets.append([])
        else:
            sets[-1].append(member)
    return sets


def _next(i: Importer, child: int, is_leaf: int, leaves: int, nodes: int) -> int:
    """The row of a child, which is a leaf or a node."""
    if not 0 <= child < (leaves if is_leaf else nodes):
        raise i.fail(
            f"a node has the child {child}, but there are {leaves} leaves and {nodes} nodes",
            "export the model again",
        )
    return child if is_leaf else leaves + child


def _enumerated(i: Importer, attribute: str, names: tuple[str, ...], default: int) -> str:
    """The name for the number that is the value of ``attribute``."""
    number = int(i.attr(attribute, default))
    if not 0 <= number < len(names):
        raise i.fail(f"{attribute} {number} is unknown; it must be 0 to {len(names) - 1}")
    return names[number]


TreeEnsemble.onnx = {("TreeEnsemble", 5, DOMAIN): _import}


def _stumps(dtype: DType, modes: tuple[int, ...] = (0, 3, 4)) -> tuple[Arg, ...]:
    """Two trees: three leaves with 1, 2 and 1 votes, and three nodes, two in one tree and one in
    the other.
    """
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
    Sample(TreeEnsemble(2, 2), (arg(F32, 4), *_stumps(F32)), "it must be [N, features]"),
    Sample(TreeEnsemble(2, 2), (arg(I32, 4, 3), *_stumps(F32)), "the input is i32"),
    Sample(TreeEnsemble(2, 2), (arg(F64, 4, 3), *_stumps(F32)), "an operand with nodes or votes is f32"),
    Sample(TreeEnsemble(2, 2, "MEDIAN"), (_X, *_stumps(F32)), "'MEDIAN'"),
    Sample(TreeEnsemble(1 << 40, 2), (_X, *_stumps(F32)), "1099511627776 targets"),
)
