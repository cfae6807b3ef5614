"""The nodes that one kernel would compute, and what their arrangement means for its cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim
from graphwright.ops.core.binary import Add, Max, Min, Mul
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.unary import Relu
from graphwright.records import dataclass


@dataclass(frozen=True)
class KernelNodes:
    """The nodes of one kernel, in graph order, and the contraction among them."""

    nodes: tuple[Node, ...]
    anchor: Node | None = None

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> KernelNodes:
        """The kernel that computes ``nodes``, at most one of which is a contraction."""
        return cls(tuple(nodes), next((n for n in nodes if Trait.CONTRACTION in n.op.traits), None))

    @property
    def rest(self) -> tuple[Node, ...]:
        """All nodes but the contraction and views, which cost nothing."""
        return tuple(n for n in self.nodes if n is not self.anchor and Trait.VIEW not in n.op.traits)

    def reads(self) -> list[Value]:
        """Operands from other kernels, each once. Constants of one element are part of the code."""
        inside = {value for node in self.nodes for value in node.outputs}
        found = dict.fromkeys(v for n in self.nodes for v in n.inputs if v is not None and v not in inside)
        return [v for v in found if not (is_constant(v) and v.type.elements == 1)]

    def writes(self) -> list[Value]:
        """Results that other kernels or the graph's caller read."""
        inside = set(self.nodes)
        return [v for n in self.nodes for v in n.outputs if _is_read_outside(v, inside)]


def _is_read_outside(value: Value, inside: Collection[Node]) -> bool:
    graph = value.graph
    return (graph is not None and value in graph.outputs) or any(u not in inside for u in value.users)


def fits_store(kernel: KernelNodes, anchor: Node) -> bool:
    """Whether the simple epilogue of a library kernel computes the rest: a chain of scale, bias and residual,
    then of clipping, with one result.
    """
    if len(kernel.writes()) > 1:
        return False
    value, clipped = anchor.output, False
    for node in kernel.nodes:
        if node is anchor:
            continue
        others = [v for v in node.inputs if v is not value]
        if len(others) != len(node.inputs) - 1:
            return False
        literal = all(v is not None and is_constant(v) and v.type.elements == 1 for v in others)
        if isinstance(node.op, Relu | Clip) or (isinstance(node.op, Max | Min) and literal):
            clipped = True
        elif Trait.VIEW not in node.op.traits and not _is_sum_step(
            node, clipped, literal, value is anchor.output
        ):
            return False
        value = node.output
    return True


def _is_sum_step(node: Node, clipped: bool, literal: bool, first: bool) -> bool:
    """Whether ``node`` adds a tensor before anything is clipped, or scales the contraction's own result."""
    if isinstance(node.op, Add):
        return not clipped and not literal
    return isinstance(node.op, Mul) and literal and first


def reread_values(kernel: KernelNodes, elements: Dim) -> tuple[list[Value], list[Value]]:
    """Values of ``elements`` elements that passes after the first read again, once for each such pass:
    operands of the kernel, and intermediate values.
    """
    made_in: dict[Value, int] = {}
    read_in: dict[Value, set[int]] = {}
    for node in kernel.nodes:
        operands = [v for v in node.inputs if v is not None]
        number = max((made_in.get(v, 0) for v in operands), default=0)
        for value in operands:
            read_in.setdefault(value, set()).add(number)
        made_in[node.output] = number + (Trait.REDUCTION in node.op.traits)
    outside, inside = [], []
    for value, numbers in read_in.items():
        if value.type.elements != elements:
            continue
        if value in made_in:
            inside += [value] * len(numbers - {made_in[value]})
        else:
            outside += [value] * (len(numbers) - 1)
    return outside, inside
