"""Common parts of the kernels of regions: joined axes, named sizes, parameters, and scalar expressions of
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.constant import constant_of
from graphwright.ir.fused import Schedule, Term, region_values
from graphwright.ir.graph import ConstantPool, Graph, Node, Value
from graphwright.ir.loops.hook import HOOK_SIZES
from graphwright.ir.loops.nodes import (
    Apply,
    Bits,
    Buffer,
    Cast,
    Const,
    Index,
    Kernel,
    Load,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    apply,
    cast,
    select,
)
from graphwright.ir.loops.text import RESERVED
from graphwright.ir.moved_axes import JoinsOperands, MovesAxes
from graphwright.ir.names import UniqueNames, identifier
from graphwright.ir.op import Op, Trait, folding
from graphwright.ir.plugin_ops import defined_at, guarded, is_plugin_op
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import I64
from graphwright.records import dataclass, field

COSTLY = frozenset(
    (
        "exp", "exp_nonpositive", "expm1", "log", "log1p", "log2", "log10",
        "sigmoid", "tanh", "erf", "erfc", "lgamma",
        "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "asinh", "acosh", "atanh", "atan2", "pow",
    )
)  # fmt: skip
"""Functions whose results are kept instead of recomputed."""

FLAT: Final = (-1,)
"""Marks a buffer whose elements are addressed individually."""

SLOW = frozenset(("div", "share", "sqrt", "rem", "mod"))
"""Functions of one instruction with low throughput."""


@dataclass(frozen=True)
class RegionKernel:
    """A kernel, the region value for each parameter (inputs, then outputs), and the dims for its size
    arguments.
    """

    kernel: Kernel
    parameters: tuple[Value, ...]
    output_count: int
    sizes: tuple[Dim, ...]
    walks: tuple[tuple[int, ...], ...] = ()
    """The axes along which each parameter is accessed, in memory order, or FLAT."""
    rereads: bool = False
    """Whether operands are read again after the first result was stored."""


@dataclass
class _Loops:
    """Extent and index of each axis."""

    extents: list[Dim]
    index: list[Dim] = field(default_factory=list)


class NestBuilder:
    """Base class for kernels of regions: maps the axes of a schedule to loops."""

    symbolic = False
    """Whether numbers become size arguments too, so that layers of other sizes share the kernel."""

    def __init__(self, region: Graph, schedule: Schedule, constants: ConstantPool, name: str) -> None:
        self.region, self.schedule, self.constants, self.name = region, schedule, constants, name
        values = region_values(region)
        self.walks = dict(zip(values, schedule.walks, strict=True))
        self.accesses = {values[a.value]: (values[a.memory], a.terms) for a in schedule.accesses}
        """For values that are not accessed along their own axes: whose memory they are in, and
        the address.
        """
        self.outputs = set(region.outputs)
        self.names = UniqueNames()
        for taken in ("tile", *HOOK_SIZES, *sorted(RESERVED)):
            self.names.take(taken)
        self.size_names: dict[Dim, str] = {}
        self.buffers: dict[tuple[Value, tuple[int, ...]], Buffer] = {}
        self.order: list[tuple[Value, Buffer]] = []
        self.loops = _Loops([])

    def size(self, dim: Dim) -> Dim:
        """``dim`` in the kernel: a number, or a size argument."""
        if isinstance(dim, int) and not self.symbolic:
            return dim
        if dim not in self.size_names:
            self.size_names[dim] = self.names.take(f"n{len(self.size_names)}")
        return symbol(self.size_names[dim])

    def buffer(self, value: Value, walked: tuple[int, ...]) -> Buffer:
        """The parameter for ``value``, accessed along these joined axes."""
        key = (value, walked)
        if key not in self.buffers:
            name = self.names.take("y" if value in self.outputs else "x")
            made = Buffer(name, value.type.dtype, tuple(self.loops.extents[i] for i in walked))
            self.buffers[key] = made
            self.order.append((value, made))
        return self.buffers[key]

    def is_loaded(self, value: Value) -> bool:
        """Whether ``value``, the result of a node in the region, is loaded as a part of an operand."""
        return value in self.accesses and self.accesses[value][0] is not value

    def _location(self, value: Value) -> tuple[Buffer, tuple[Index, ...]]:
        """The buffer of ``value``, and the index of its element in the current loops."""
        if value not in self.accesses:
            walked = self.walks[value]
            return self.buffer(value, walked), self.at(walked)
        memory, terms = self.accesses[value]
        if (memory, FLAT) not in self.buffers:
            name = self.names.take("y" if memory in self.outputs else "x")
            made = Buffer(name, memory.type.dtype, (self.size(memory.type.elements),))
            self.buffers[memory, FLAT] = made
            self.order.append((memory, made))
        return self.buffers[memory, FLAT], (self._address(terms),)

    def _address(self, terms: Sequence[Term]) -> Dim:
        address: Dim = 0
        for term in terms:
            position: Dim = 0
            for axis in term.axes:
                position = position * self.loops.extents[axis] + self.loops.index[axis]
            position = term.start + term.step * position
            if term.modulus != 0:
                position = position % self.size(term.modulus)
            address = address + position * self.size(term.stride)
        return address

    def at(self, walked: Iterable[int]) -> tuple[Index, ...]:
        """The index of an element along these joined axes."""
        return tuple(self.loops.index[i] for i in walked)

    def read(self, value: Value) -> Scalar:
        """An operand from outside: a literal for a constant inside the region, otherwise a load."""
        constant = constant_of(value)
        if constant is not None:
            dtype = value.type.dtype.computed
            return Const(self.constants[constant.value].astype(dtype.numpy).item(), dtype)
        buffer, index = self._location(value)
        return cast(Load(buffer, index), value.type.dtype.computed)

    def store(self, value: Value, scalar: Scalar) -> Store:
        """Store ``scalar`` to the parameter for ``value``, rounded to its dtype."""
        buffer, index = self._location(value)
        return Store(buffer, index, cast(scalar, value.type.dtype))

    def scalar(self, node: Node, operands: Sequence[Scalar]) -> Scalar:
        """The expression of a node that reduces nothing."""
        if Trait.VIEW in node.op.traits or isinstance(node.op, MovesAxes):
            return operands[0]
        if isinstance(node.op, JoinsOperands):
            return self._chosen(node, operands)
        if Trait.REDUCTION in node.op.traits:  # over axes of size 1 only
            fold = folding(node.op)
            result = fold.finish(fold.prepare(operands[0]), 1)
        else:
            result = cast(expression_of(node.op, operands), node.output.type.dtype.computed)
        return result

    def _chosen(self, node: Node, operands: Sequence[Scalar]) -> Scalar:
        """Select the operand of a concatenation that the loops are at; one axis numbers the operands."""
        (part,) = set(self.walks[node.output]) - set(self.walks[node.operand(0)])
        *others, chosen = operands
        for number, operand in reversed(list(enumerate(others))):
            is_here = apply("eq", Position(self.loops.index[part]), Const(number, I64))
            chosen = select(is_here, operand, chosen)
        return chosen

    def temporary(self, node: Node) -> str:
        """A variable name for the value of ``node``."""
        return self.names.take(identifier(node.op.name.lower(), "t"))

    def finish(self, body: Sequence[Statement]) -> RegionKernel:
        """The kernel with ``body``; its parameters are inputs, then outputs."""
        order = sorted(self.order, key=lambda item: item[0] in self.outputs)
        kernel = Kernel(
            self.name,
            tuple(buffer for _, buffer in order),
            tuple(self.size_names.values()),
            tuple(body),
        )
        walked = {buffer.name: walk for (_, walk), buffer in self.buffers.items()}
        return RegionKernel(
            kernel,
            tuple(value for value, _ in order),
            sum(value in self.outputs for value, _ in order),
            tuple(self.size_names),
            tuple(walked[buffer.name] for _, buffer in order),
        )


def expression_of(op: Op, operands: Sequence[Scalar]) -> Scalar:
    """The scalar expression of ``op``. Raises PluginError if a user's op fails."""
    cls = type(op)
    if not is_plugin_op(cls):
        return op.expression(*operands)
    made = guarded(lambda: op.expression(*operands), cls, f"{op.name}.expression")
    if not isinstance(made, Scalar):
        message = f"{op.name}.expression returned {type(made).__name__} instead of a Scalar"
        raise PluginError(Diagnostic("plugin", message, defined_at(cls.expression)))
    return made


def weight_of(scalar: Scalar) -> int:
    """The approximate cost of an expression: 50 for a costly function, 20 for a slow one, 3 for others, 2 for
    a load.
    """
    if isinstance(scalar, Apply):
        own = 50 if scalar.function in COSTLY else 20 if scalar.function in SLOW else 3
        return own + sum(map(weight_of, scalar.operands))
    return weight_of(scalar.operand) if isinstance(scalar, Cast | Bits) else 2


def weight_of_node(node: Node) -> int:
    """As :func:`weight_of`, for what ``node`` computes per element."""
    if not node.op.has_expression():
        return 0
    dummies = [Ref(f"x{p}", v.type.dtype.computed) for p, v in enumerate(node.inputs) if v is not None]
    return weight_of(expression_of(node.op, dummies))
