"""What an op tells of operands that are filled up with zeros behind their elements, up to a bucket's shape.

The first elements of a padded operand, as many as it truly has along each axis, are right; anything may lie
behind them. The same has to be true of each result: :mod:`graphwright.passes.padding` proves it node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim, Expr, names_in
from graphwright.records import dataclass


@dataclass(frozen=True)
class Padded:
    """Which axes are padded: those whose size holds one of ``symbols``. Zeros lie behind the elements of each
    input of ``main``.
    """

    symbols: frozenset[str]
    main: Graph

    def holds(self, dim: object) -> bool:
        """Whether a size differs between the bucket and the truth."""
        return isinstance(dim, Expr) and not self.symbols.isdisjoint(names_in(dim))

    def axes(self, value: Value | None) -> set[int]:
        """The padded axes of a value of known rank."""
        return set() if value is None else {k for k, dim in enumerate(value.type.dims) if self.holds(dim)}

    def among(self, value: Value, axes: Sequence[int]) -> bool:
        """Whether one of ``axes``, counted from either end, is padded."""
        rank = len(value.type.dims)
        return any(axis % max(rank, 1) in self.axes(value) for axis in axes)

    def decides(self, op: Op) -> bool:
        """Whether a size that differs is an attribute of ``op``."""
        attributes = op.attributes().values()
        return any(self.holds(d) for a in attributes for d in (a if isinstance(a, tuple) else (a,)))


class PaddingRule:
    """Interface of ops that take padded operands, for what no trait tells. They define its method.

    Ops with the traits ELEMENTWISE, VIEW and REDUCTION need no rule. An op without rule and trait is
    decomposed, or refused where a bucket's shape would pad its operands.
    """

    __slots__ = ()

    def padding_leak(self, node: Node, padded: Padded) -> str:
        """How padding of operands can reach a true element of a result; empty if it cannot.

        Ranks are known. Of ops with regions: what is to be said besides the nodes in the regions.
        """
        raise NotImplementedError(f"{type(self).__name__} is a PaddingRule without padding_leak")


def broadcast_leak(operands: Iterable[Sequence[Dim]], result: Sequence[Dim], padded: Padded) -> str:
    """Each shape of ``operands`` has the size of ``result`` along padded axes, or 1: else another element
    could be read.
    """
    for dims in operands:
        for dim, size in zip(reversed(dims), reversed(result), strict=False):
            if dim != size and dim != 1 and (padded.holds(dim) or padded.holds(size)):
                return f"sizes {dim} and {size}, which need not differ from 1 together"
    return ""
