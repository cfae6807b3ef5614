"""TreeEnsemble: converts the columns of the op to one table of nodes that all test whether a feature is at
most a split value.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.op import Array
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.ml.trees import ABI, Fold, Trees
from graphwright.ops.ml.tree_ensemble import EQUAL, TreeEnsemble

NODE_BYTES = 16
_LESS, _NOT_LESS, _MORE = 1, 2, 3
"""Modes that are rewritten to mode 0, "at most"."""


@candidate(TreeEnsemble)
def trees(node: Node[TreeEnsemble], context: Context) -> Launch | str:
    """Traversals of the table of nodes. The nodes are validated here, as the kernel does not check them."""
    op, x = node.op, node.operand(0)
    columns = [context.constant(value) for value in node.inputs[1:]]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns):
        return "its trees are computed at run time"
    roots, *table, ends, targets, _ = known
    if not _in_bounds(roots, table, ends, targets, op.size):
        return "a tree refers to a node outside its table"
    table = _at_most(*table)
    depths = _depths(roots, table[3], table[4], 2 * op.depth)
    rows, features = x.type.dims
    mean = int(depths.mean()) if depths.size else 0
    slots, nodes = _paired(roots, *table)
    sizes = rows, features, roots.size, op.size, mean, len(nodes), targets.size
    kernel = Trees(x.type.dtype.bytes, Fold[op.aggregate], *sizes)
    offsets = NODE_BYTES * np.arange(roots.size)
    votes = np.concatenate([[0], ends])[np.minimum(slots, ends.size - 1)[:, np.newaxis] + [0, 1]]
    operands = ABI.ordered(
        x=x,
        nodes=context.table(nodes, "nodes"),
        trees=context.table(np.stack([offsets, depths], 1).astype(np.int32), "trees"),
        votes=context.table(votes.astype(np.int32), "votes"),
        targets=context.table(targets.astype(np.int32), "targets"),
        weights=node.operand(len(node.inputs) - 1),
        scores=node.output,
    )
    return launch_of(kernel, Trees.SYMBOL, operands, ABI.positions("scores"), context.isa)


def _in_bounds(roots: Array, table: list[Array], ends: Array, targets: Array, size: int) -> bool:
    """Whether all indices of the table are valid: the kernel does not check them."""
    features, _, modes, _, yes, no = table
    nodes = features.size
    slots = np.concatenate([roots, yes, no])
    starts = np.concatenate([[0], ends])
    return bool(
        0 < nodes < 1 << 24
        and 0 < roots.size < 1 << 24
        and (slots >= 0).all()
        and (slots < nodes).all()
        and (features >= 0).all()
        and (features < 1 << 24).all()
        and (modes <= EQUAL).all()
        and (np.diff(starts) >= 0).all()
        and ends[-1] == targets.size < 1 << 31
        and (targets >= 0).all()
        and (targets < size).all()
    )


def _at_most(
    features: Array, splits: Array, modes: Array, missing: Array, yes: Array, no: Array
) -> list[Array]:
    """Rewrites the table to mode 0 only, without its column of modes. "Less than a split" is "at most the
    number before it" (for -inf: never). Negated modes exchange the children. "Equal" becomes two nodes: at
    most the split, and not at most the number before it.
    """
    with np.errstate(over="ignore"):  # the number before the smallest finite one is -inf
        before = np.where(splits == -np.inf, np.nan, np.nextafter(splits, splits.dtype.type(-np.inf)))
    turned = (modes == _NOT_LESS) | (modes == _MORE)
    below = np.where((modes == _LESS) | (modes == _NOT_LESS), before, splits)
    leaf = (yes == np.arange(yes.size)) & (no == np.arange(no.size))
    equal = np.flatnonzero((modes == EQUAL) & ~leaf)
    first, second = np.where(turned, no, yes), np.where(turned, yes, no)
    first = first.copy()
    first[equal] = features.size + np.arange(equal.size)
    return [
        np.concatenate([features, features[equal]]),
        np.concatenate([below, before[equal]]).astype(splits.dtype),
        np.concatenate([missing ^ turned, np.zeros(equal.size, np.bool_)]),
        np.concatenate([first, no[equal]]),
        np.concatenate([second, yes[equal]]),
    ]


def _depths(roots: Array, yes: Array, no: Array, limit: int) -> Array:
    """For each tree, the number of steps to its deepest leaf, at most ``limit``."""
    heights = np.zeros(yes.size, np.int64)
    inner = (yes != np.arange(yes.size)) | (no != np.arange(no.size))
    for _ in range(limit):
        grown = np.where(inner, 1 + np.maximum(heights[yes], heights[no]), 0)
        if (grown == heights).all():
            break
        heights = grown
    return np.minimum(heights[roots], limit)


def _paired(
    roots: Array, features: Array, splits: Array, missing: Array, yes: Array, no: Array
) -> tuple[Array, Array]:
    """Nodes in the kernel's format, i32[slots, 4], and the node at each slot. Roots come first; then, for
    each inner node, its two children, adjacent. A node with several parents is repeated, but its children are
    not.
    """
    inner = np.flatnonzero((yes != np.arange(yes.size)) | (no != np.arange(no.size)))
    slots = np.concatenate([roots, np.stack([yes[inner], no[inner]], 1).ravel()])
    following = np.full(features.size, -1)
    following[inner] = roots.size + 2 * np.arange(inner.size)
    following = following[slots]
    leaf = following < 0
    float_type = splits.dtype
    pad = [("pad", np.int32)] if float_type.itemsize == 4 else []
    nodes = np.zeros(slots.size, [("split", float_type), *pad, ("feature", np.int32), ("next", np.int32)])
    nodes["split"] = np.where(leaf, np.inf, splits[slots])
    nodes["next"] = NODE_BYTES * np.where(leaf, np.arange(slots.size), following)
    offset = float_type.itemsize * np.where(leaf, 0, features[slots])
    nodes["feature"] = np.where(leaf | missing[slots], offset - (1 << 31), offset)
    return slots, nodes.view(np.int32).reshape(-1, 4)
