"""Names regions by what they compute, for kernels, functions, reports and profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from graphwright.ir.builtin.foreign import Foreign
from graphwright.ir.builtin.fused import UNNAMED, Fused, region_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.op.region_op import CallOp
from graphwright.ir.origin import Origin
from graphwright.ops.core.binary import Add
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.passes.base import Pass, Record
from graphwright.passes.traversal import nodes_of
from graphwright.records import dataclass
from graphwright.support.escaping import identifier

MAX_WORDS: Final = 6
"""The most ops in a name; a name of a larger region lists only the first ones."""
LINEAR: Final = "linear"
"""The word for a matrix product with a bias."""


@dataclass(frozen=True)
class NameRegions(Pass):
    """Gives names to regions of Fused nodes that have none."""

    name: str = "name_regions"

    def run(self, module: Module, record: Record) -> bool:
        regions = [region_of(node) for _, node, _ in nodes_of(module, Fused)]
        unnamed = [region for region in regions if region.name == UNNAMED]
        parts = parts_of(module.walk()) if unnamed else {}
        for region in unnamed:
            region.name = region_name(region, parts)
            record.did("regions")
        return bool(unnamed)


def region_name(region: Graph, parts: Mapping[Origin, int] | None = None) -> str:
    """The ops of ``region`` in order, without views, as in ``layernorm_linear_gelu``.

    If the region contains all nodes that one op was decomposed to, the name has this op instead. ``parts`` is
    the number of these nodes for each op (:func:`parts_of`).
    """
    nodes = [node for node in _inner(region) if _is_listed(node)]
    whole = {origin for origin, count in parts_of(nodes).items() if count == (parts or {}).get(origin)}
    units = dict.fromkeys(_unit(node, whole) for node in nodes)
    words = [word for word, _ in groupby(map(_word, units))]
    return identifier("_".join(_shortened(words)), UNNAMED)


def parts_of(nodes: Iterable[Node]) -> Counter[Origin]:
    """For each op that was decomposed: the number of ``nodes`` it became, without those that names omit."""
    return Counter(origin for node in nodes if _is_listed(node) for origin in node.origin or ())


def _inner(region: Graph) -> Iterator[Node]:
    """The nodes of ``region``; a call is replaced by the nodes of its callee."""
    for node in region:
        yield from _inner(node.regions[0]) if isinstance(node.op, CallOp) else (node,)


def _is_listed(node: Node) -> bool:
    """Whether names list ``node``: it does more than change a shape."""
    return bool(node.inputs) and Trait.VIEW not in node.op.traits and not isinstance(node.op, CallOp)


def _unit(node: Node, whole: set[Origin]) -> Node | Origin:
    """What one word of the name denotes: the outermost op of ``whole`` that ``node`` is a part of, a product
    with its bias, or only the node.
    """
    origin = next((origin for origin in node.origin or () if origin in whole), None)
    return origin or _biased(node) or node


def _word(unit: Node | Origin) -> str:
    """The word for an op: ``layernorm`` for LayerNormalization, ``mean`` for ReduceMean."""
    if isinstance(unit, Node) and any(_biased(user) is unit for v in unit.outputs for user in v.users):
        return LINEAR
    if isinstance(unit.op, Foreign):
        return _short(unit.op.op_type)
    op = unit.op if isinstance(unit, Origin) else type(unit.op)
    return LINEAR if op is Gemm else _short(op.name)


def _short(op_type: str) -> str:
    return op_type.lower().replace("normalization", "norm").removeprefix("reduce")


def _biased(node: Node) -> Node | None:
    """The matrix product to which ``node`` adds a bias, one number for each column."""
    if not isinstance(node.op, Add):
        return None
    a, b = node.operand(0), node.operand(1)
    return _product(a, b) or _product(b, a)


def _product(result: Value, bias: Value) -> Node | None:
    product = result.producer
    if product is None or not isinstance(product.op, MatMul) or len(result.users) > 1:
        return None
    columns = result.type.dims[-1:]
    return product if bias.type.shape is not None and bias.type.dims == columns else None


def _shortened(words: Sequence[str]) -> Sequence[str]:
    return words if len(words) <= MAX_WORDS else [*words[: MAX_WORDS - 1], "more"]
