"""Interface of ops for the padding proof: which operands may be padded with zeros up to the shape of a
bucket.

The leading elements of a padded operand, as many as its actual size along each axis, are correct; anything
may follow them. The same has to hold for each result: :mod:`graphwright.passes.padding_proof` proves this
node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim, Expr, names_in
from graphwright.records import dataclass


@dataclass(frozen=True)
class Padded:
    """The padded axes: those whose size contains one of ``symbols``. Inputs of ``main`` are padded with
    zeros.
    """

    symbols: frozenset[str]
    main: Graph

    def holds(self, dim: object) -> bool:
        """Whether the size ``dim`` differs between bucket and actual input."""
        return isinstance(dim, Expr) and not self.symbols.isdisjoint(names_in(dim))

    def axes(self, value: Value | None) -> set[int]:
        """The padded axes of a value of known rank."""
        return set() if value is None else {k for k, dim in enumerate(value.type.dims) if self.holds(dim)}

    def among(self, value: Value, axes: Sequence[int]) -> bool:
        """Whether one of ``axes``, which may be negative, is padded."""
        rank = len(value.type.dims)
        return any(axis % max(rank, 1) in self.axes(value) for axis in axes)

    def decides(self, op: Op) -> bool:
        """Whether an attribute of ``op`` contains a size that differs."""
        attributes = op.attributes().values()
        return any(self.holds(d) for a in attributes for d in (a if isinstance(a, tuple) else (a,)))


class PaddingRule:
    """Interface of ops whose behavior under padding does not follow from traits.

    Ops with the traits ELEMENTWISE, VIEW and REDUCTION need no rule. An op with neither is decomposed, or
    rejected if its operands would be padded.
    """

    __slots__ = ()

    def padding_leak(self, node: Node, padded: Padded) -> str:
        """How padding of operands could change a valid element of a result; empty if it
        cannot.

        Ranks are known. For ops with regions: reasons besides those of the nodes in the
        regions.
        """
        raise NotImplementedError(f"{type(self).__name__} implements PaddingRule without padding_leak")


def broadcast_leak(operands: Iterable[Sequence[Dim]], result: Sequence[Dim], padded: Padded) -> str:
    """Why broadcasting ``operands`` to ``result`` could read other elements if axes are padded; empty if it
    could not. It could if the size of an operand along a padded axis is neither that of the result nor 1.
    """
    for dims in operands:
        for dim, size in zip(reversed(dims), reversed(result), strict=False):
            if dim != size and dim != 1 and (padded.holds(dim) or padded.holds(size)):
                return f"it broadcasts {dim} to {size}, which padding may change"
    return ""
