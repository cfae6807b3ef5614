"""Helpers for kernels written directly in the loop IR: for any dtype, with sizes as arguments, compiled with
the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import (
    Buffer,
    Const,
    Kernel,
    Kind,
    Loop,
    Position,
    Scalar,
    Statement,
    cast,
    select,
)
from graphwright.ir.symbols import Dim, Expr, atoms, product, substitute, symbol
from graphwright.ir.types import I64, U8, U16, U32, U64, DType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.launch import Launch
from graphwright.records import replace
from graphwright.support.escaping import identifier

_TERMS = 4
"""The most terms of a size that is written out in a kernel; a longer one becomes an argument."""
_BITS = {1: U8, 2: U16, 4: U32, 8: U64}


class KernelBuilder:
    """A kernel of a node under construction: its parameters in order of use, and its sizes.

    The names of the model's symbols never appear in the kernel, as :meth:`size` renames them. A size of many
    terms also becomes an argument, since indices multiply sizes.
    """

    def __init__(self, node: Node, context: Context, name: str = "") -> None:
        self.node, self.context = node, context
        self.name = identifier(name or node.op.name.lower(), "kernel")
        self._sizes: dict[Dim, str] = {}
        self._inputs: list[tuple[Value, Buffer]] = []
        self._outputs: list[tuple[Value, Buffer]] = []

    def size(self, dim: Dim) -> Dim:
        """The size ``dim`` of the model in terms of the kernel's sizes."""
        if isinstance(dim, Expr) and len(dim.terms) > _TERMS:
            return self._named(dim)
        return substitute(dim, {atom.name: self._named(symbol(atom.name)) for atom in atoms(dim)})

    def _named(self, dim: Dim) -> Dim:
        return symbol(self._sizes.setdefault(dim, f"n{len(self._sizes)}"))

    def input(
        self,
        value: Value,
        shape: Sequence[Dim],
        dtype: DType | None = None,
        strides: Sequence[Dim] | None = None,
    ) -> Buffer:
        """The parameter for ``value``, viewed with ``shape`` (in sizes of the model), dense unless
        ``strides`` are given.
        """
        buffer = self._parameter(self._inputs, "x", value, shape, dtype)
        if strides is None:
            return buffer
        buffer = replace(buffer, strides=tuple(map(self.size, strides)))
        self._inputs[-1] = (value, buffer)
        return buffer

    def output(self, value: Value, shape: Sequence[Dim], dtype: DType | None = None) -> Buffer:
        """As :meth:`input`, for a value that the kernel writes."""
        return self._parameter(self._outputs, "y", value, shape, dtype)

    def _parameter(
        self,
        group: list[tuple[Value, Buffer]],
        stem: str,
        value: Value,
        shape: Sequence[Dim],
        dtype: DType | None,
    ) -> Buffer:
        sizes = tuple(self.size(d) for d in shape)
        buffer = Buffer(f"{stem}{len(group)}", dtype or value.type.dtype, sizes)
        group.append((value, buffer))
        return buffer

    def launch(self, *body: Statement, in_place: tuple[tuple[Value, Value], ...] = ()) -> Launch:
        """Adds the kernel with ``body`` to the generated kernels, and returns its launch."""
        parameters = [*self._inputs, *self._outputs]
        names = tuple(self._sizes.values())
        kernel = Kernel(self.name, tuple(buffer for _, buffer in parameters), names, body)
        values: Mapping[str, Dim] = {own: dim for dim, own in self._sizes.items()}
        ref = self.context.generate(kernel, self.node.location)
        return Launch(
            ref,
            tuple(value for value, _ in parameters),
            tuple(range(len(self._inputs), len(parameters))),
            tuple(values.values()),
            *self.context.cost_of(ref, kernel).at(values, self.context.target.machine),
            in_place=in_place,
        )


def moved_dtype(dtype: DType) -> DType | None:
    """The unsigned integer dtype of the same width, with which elements are moved bit by bit; None if there
    is none.
    """
    return _BITS.get(dtype.bytes)


def nest(
    axes: Sequence[tuple[str, Dim]],
    *body: Statement,
    outer: Kind = Kind.PARALLEL,
    innermost: Kind = Kind.VECTOR,
) -> Loop:
    """Loops over ``axes`` (names and extents) around ``body``, all but the last of kind ``outer``."""
    (name, extent), *_ = reversed(axes)
    loop = Loop(name, innermost, extent, body)
    for name, extent in reversed(axes[:-1]):
        loop = Loop(name, outer, extent, (loop,))
    return loop


def from_end(index: Scalar, size: Dim) -> Scalar:
    """``index`` with negative values, which count from the end of an axis of ``size``, made non-negative."""
    wide = cast(index, I64)
    return select(wide < Const(0, I64), wide + Position(size), wide)


def rows_and_columns(shape: Sequence[Dim], axis: int) -> tuple[Dim, Dim, Dim]:
    """The number of elements before, along and after ``axis``."""
    return product(tuple(shape[:axis])), shape[axis], product(tuple(shape[axis + 1 :]))
