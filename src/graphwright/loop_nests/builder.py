"""The common part of all kernels that are generated for regions: axes, sizes, parameters and scalar
expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.builtin.fused import Schedule, Term, region_values
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.interfaces.moved_axes import Concatenates, MovesAxes
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
from graphwright.ir.op import Op, Trait, reduction_op
from graphwright.ir.op.plugin_ops import defined_at, guarded, is_plugin_op
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import I64
from graphwright.records import dataclass, field
from graphwright.support.escaping import identifier
from graphwright.support.unique_names import UniqueNames

COSTLY = frozenset(
    (
        "exp", "exp_nonpositive", "expm1", "log", "log1p", "log2", "log10",
        "sigmoid", "tanh", "erf", "erfc", "lgamma",
        "sin", "cos", "tan", "asin", "acos", "atan",
        "sinh", "cosh", "asinh", "acosh", "atanh", "atan2", "pow",
    )
)  # fmt: skip
"""Functions that take so long that a kernel keeps their results instead of recomputing them."""

FLAT: Final = (-1,)
"""The axes of a buffer that the kernel indexes with one linear address instead of along axes."""

SLOW = frozenset(("div", "div_by_sum", "sqrt", "rem", "mod"))
"""Functions that are one instruction with low throughput."""


@dataclass(frozen=True)
class RegionKernel:
    """A kernel that computes a region."""

    kernel: Kernel
    parameters: tuple[Value, ...]
    """The value of the region for each parameter of the kernel: inputs, then outputs."""
    output_count: int
    sizes: tuple[Dim, ...]
    """The dim for each size argument of the kernel."""
    parameter_axes: tuple[tuple[int, ...], ...] = ()
    """The axes along which the kernel accesses each parameter, in memory order, or FLAT."""
    rereads: bool = False
    """Whether the kernel reads operands again after it stored the first result."""


@dataclass
class _Loops:
    """Extent and index of each axis."""

    extents: list[Dim]
    index: list[Dim] = field(default_factory=list)


class NestBuilder:
    """Base class for kernels of regions: maps the axes of a schedule to loops."""

    symbolic = False
    """Whether static sizes become arguments too, so that layers of different sizes share one kernel."""

    def __init__(self, region: Graph, schedule: Schedule, constants: ConstantPool, name: str) -> None:
        self.region, self.schedule, self.constants, self.name = region, schedule, constants, name
        values = region_values(region)
        self.axes_of = dict(zip(values, schedule.walks, strict=True))
        """The axes along which the loops access each value, in memory order."""
        self.accesses = {values[a.value]: (values[a.memory], a.terms) for a in schedule.accesses}
        """The memory and the address of values that are slices of an operand, or rolled."""
        self.outputs = set(region.outputs)
        self.names = UniqueNames()
        for reserved in ("tile", *HOOK_SIZES, *sorted(RESERVED)):
            self.names.take(reserved)
        self.size_names: dict[Dim, str] = {}
        self.buffers: dict[tuple[Value, tuple[int, ...]], Buffer] = {}
        self.order: list[tuple[Value, Buffer]] = []
        self.loops = _Loops([])

    def size(self, dim: Dim) -> Dim:
        """``dim`` as the kernel uses it: a number, or a size argument."""
        if isinstance(dim, int) and not self.symbolic:
            return dim
        if dim not in self.size_names:
            self.size_names[dim] = self.names.take(f"n{len(self.size_names)}")
        return symbol(self.size_names[dim])

    def buffer(self, value: Value, axes: tuple[int, ...]) -> Buffer:
        """The parameter through which the kernel accesses ``value`` along ``axes``."""
        key = (value, axes)
        if key not in self.buffers:
            name = self.names.take("y" if value in self.outputs else "x")
            buffer = Buffer(name, value.type.dtype, tuple(self.loops.extents[i] for i in axes))
            self.buffers[key] = buffer
            self.order.append((value, buffer))
        return self.buffers[key]

    def is_loaded(self, value: Value) -> bool:
        """Whether the kernel loads ``value``, the result of a node, as a slice of an operand."""
        return value in self.accesses and self.accesses[value][0] is not value

    def _location(self, value: Value) -> tuple[Buffer, tuple[Index, ...]]:
        """The buffer of ``value``, and the index of the element that the current iteration accesses."""
        if value not in self.accesses:
            axes = self.axes_of[value]
            return self.buffer(value, axes), self.index_along(axes)
        memory, terms = self.accesses[value]
        if (memory, FLAT) not in self.buffers:
            name = self.names.take("y" if memory in self.outputs else "x")
            buffer = Buffer(name, memory.type.dtype, (self.size(memory.type.elements),))
            self.buffers[memory, FLAT] = buffer
            self.order.append((memory, buffer))
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

    def index_along(self, axes: Iterable[int]) -> tuple[Index, ...]:
        """The index of the current iteration along each of ``axes``."""
        return tuple(self.loops.index[i] for i in axes)

    def read(self, value: Value) -> Scalar:
        """The element of an operand: a literal if a constant inside the region produces it, otherwise a
        load.
        """
        constant = constant_of(value)
        if constant is not None:
            dtype = value.type.dtype.computed
            return Const(self.constants[constant.value].astype(dtype.numpy).item(), dtype)
        buffer, index = self._location(value)
        return cast(Load(buffer, index), value.type.dtype.computed)

    def store(self, value: Value, scalar: Scalar) -> Store:
        """Stores ``scalar`` to the parameter for ``value``, rounded to its dtype."""
        buffer, index = self._location(value)
        return Store(buffer, index, cast(scalar, value.type.dtype))

    def scalar(self, node: Node, operands: Sequence[Scalar]) -> Scalar:
        """The expression of a node that reduces no axis of the loops."""
        if Trait.VIEW in node.op.traits or isinstance(node.op, MovesAxes):
            return operands[0]
        if isinstance(node.op, Concatenates):
            return self._concat_element(node, operands)
        if Trait.REDUCTION in node.op.traits:  # over axes of size 1 only
            reduction = reduction_op(node.op)
            result = reduction.finish(reduction.prepare(operands[0]), 1)
        else:
            result = cast(expression_of(node.op, operands), node.output.type.dtype.computed)
        return result

    def _concat_element(self, node: Node, operands: Sequence[Scalar]) -> Scalar:
        """The element of a concatenation: one axis of the loops is the number of the operand that has it."""
        (axis,) = set(self.axes_of[node.output]) - set(self.axes_of[node.operand(0)])
        *others, selected = operands
        for number, operand in reversed(list(enumerate(others))):
            has_element = apply("eq", Position(self.loops.index[axis]), Const(number, I64))
            selected = select(has_element, operand, selected)
        return selected

    def is_inlined(self, value: Value) -> bool:
        """Whether the expression of ``value`` becomes a part of its only reader's, a conversion of floats to
        integers: instructions that convert also round.
        """
        if value in self.outputs or not value.type.dtype.is_float or len(value.users) != 1:
            return False
        (reader,) = value.users
        return reader.inputs == (value,) and reader.output.type.dtype.is_integer

    def temporary(self, node: Node) -> str:
        """A variable name for the value of ``node``."""
        return self.names.take(identifier(node.op.name.lower(), "t"))

    def finish(self, body: Sequence[Statement]) -> RegionKernel:
        """The kernel with ``body``. Its parameters are the inputs, then the outputs."""
        order = sorted(self.order, key=lambda item: item[0] in self.outputs)
        kernel = Kernel(
            self.name,
            tuple(buffer for _, buffer in order),
            tuple(self.size_names.values()),
            tuple(body),
        )
        axes_of = {buffer.name: axes for (_, axes), buffer in self.buffers.items()}
        return RegionKernel(
            kernel,
            tuple(value for value, _ in order),
            sum(value in self.outputs for value, _ in order),
            tuple(self.size_names),
            tuple(axes_of[buffer.name] for _, buffer in order),
        )


def expression_of(op: Op, operands: Sequence[Scalar]) -> Scalar:
    """The scalar expression of ``op``. Raises PluginError if a user's op fails."""
    cls = type(op)
    if not is_plugin_op(cls):
        return op.expression(*operands)
    expression = guarded(lambda: op.expression(*operands), cls, f"{op.name}.expression")
    if not isinstance(expression, Scalar):
        message = f"{op.name}.expression returned {type(expression).__name__} instead of a Scalar"
        raise PluginError(Diagnostic("plugin", message, defined_at(cls.expression)))
    return expression


def weight_of(scalar: Scalar) -> int:
    """The approximate cost of an expression: 50 for each costly function, 20 for each slow one, 3 for each
    other function, and 2 for each load.
    """
    if isinstance(scalar, Apply):
        own = 50 if scalar.function in COSTLY else 20 if scalar.function in SLOW else 3
        return own + sum(map(weight_of, scalar.operands))
    return weight_of(scalar.operand) if isinstance(scalar, Cast | Bits) else 2


def weight_of_node(node: Node) -> int:
    """The approximate cost of one element of ``node``; see :func:`weight_of`."""
    if not node.op.has_expression():
        return 0
    dummies = [Ref(f"x{p}", v.type.dtype.computed) for p, v in enumerate(node.inputs) if v is not None]
    return weight_of(expression_of(node.op, dummies))
