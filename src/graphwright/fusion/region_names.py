"""Names of regions, after what they do: kernels, functions, reports and profiles show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from graphwright.ir.fused import UNNAMED, Fused, region_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.names import identifier
from graphwright.ir.op import Trait
from graphwright.ir.origin import Origin
from graphwright.ir.region_op import CallOp
from graphwright.ops.core.binary import Add
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.passes.base import Pass, Record, nodes_of
from graphwright.records import dataclass

MAX_WORDS: Final = 6
"""Ops that a name lists; a region of more is named for the first ones."""
LINEAR: Final = "linear"
"""A matrix product and its bias."""


@dataclass(frozen=True)
class NameRegions(Pass):
    """Names the regions of Fused nodes that have no name yet."""

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
    """What ``region`` does, as in ``layernorm_linear_gelu``: its ops in order, views left out.

    Nodes that an op was decomposed to are named for the op where all of them are in the region; ``parts``
    says how many it has (:func:`parts_of`).
    """
    nodes = [node for node in _inner(region) if _is_listed(node)]
    whole = {origin for origin, count in parts_of(nodes).items() if count == (parts or {}).get(origin)}
    units = dict.fromkeys(_unit(node, whole) for node in nodes)
    words = [word for word, _ in groupby(map(_word, units))]
    return identifier("_".join(_shortened(words)), UNNAMED)


def parts_of(nodes: Iterable[Node]) -> Counter[Origin]:
    """How many of ``nodes`` each op was decomposed to, but for those that names leave out."""
    return Counter(origin for node in nodes if _is_listed(node) for origin in node.origin or ())


def _inner(region: Graph) -> Iterator[Node]:
    """The nodes of ``region``, those of calls in place of the calls."""
    for node in region:
        yield from _inner(node.regions[0]) if isinstance(node.op, CallOp) else (node,)


def _is_listed(node: Node) -> bool:
    """Whether it does more than to give memory another shape."""
    return bool(node.inputs) and Trait.VIEW not in node.op.traits and not isinstance(node.op, CallOp)


def _unit(node: Node, whole: set[Origin]) -> Node | Origin:
    """What has one word: the outermost op of ``whole`` that ``node`` is a part of, a product and its bias, or
    the node."""
    origin = next((origin for origin in node.origin or () if origin in whole), None)
    return origin or _biased(node) or node


def _word(unit: Node | Origin) -> str:
    """``layernorm`` of LayerNormalization, ``mean`` of ReduceMean."""
    if isinstance(unit, Node) and any(_biased(user) is unit for v in unit.outputs for user in v.users):
        return LINEAR
    op = unit.op if isinstance(unit, Origin) else type(unit.op)
    return LINEAR if op is Gemm else op.name.lower().replace("normalization", "norm").removeprefix("reduce")


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
