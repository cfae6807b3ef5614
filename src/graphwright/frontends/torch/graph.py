"""Reads graphs of ATen operators, such as those of AOTAutograd, into a module."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import fx

from graphwright.frontends.torch.complex_nodes import ComplexNodeReader
from graphwright.frontends.torch.complex_numbers import Complex, conjugate, read, stored
from graphwright.frontends.torch.interface import Argument, Input, Interface, Output, inverse
from graphwright.frontends.torch.nodes import UnsupportedValue
from graphwright.frontends.torch.numbers import UnbackedInt
from graphwright.frontends.torch.substitutes import substitute_inputs
from graphwright.frontends.torch.types import (
    Unsupported,
    dim_from,
    is_lazy,
    order_in_memory,
    stored_type_from,
)
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module, Value
from graphwright.ir.symbols import Dim, Expr, Range, names_in
from graphwright.ir.types import U8, TensorType
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Neg
from graphwright.records import dataclass

COPY_BACK: Final = torch.ops.aten.copy_.default
"""The operator with which AOTAutograd writes the new value of a mutated argument at the end of a graph."""


@dataclass(frozen=True)
class ReadGraph:
    """The module of a graph. Arguments that the graph changes are states of the module.

    ``unsupported``: nodes that cannot be read, and why. Their results are inputs of the module.
    """

    module: Module
    interface: Interface
    unsupported: dict[fx.Node, str]


def read_graph(graph: fx.Graph, owner: torch.nn.Module) -> ReadGraph:
    """Reads ``graph``. The tensors and subgraphs to which it refers are attributes of ``owner``."""
    return _GraphReader(graph, owner).read()


def argument_symbols(graph: fx.Graph) -> set[str]:
    """The symbols that are arguments of ``graph``, or sizes of its arguments."""
    arguments = graph.find_nodes(op="placeholder")
    return {str(dim) for node in arguments for dim in _dims(node) if _is_symbol(dim)}


class _GraphReader:
    def __init__(self, graph: fx.Graph, owner: torch.nn.Module) -> None:
        self._graph = graph
        self._builder, _ = new_main_graph(Module())
        self._nodes = ComplexNodeReader(self._builder, owner)
        self._interface = Interface()
        self._unsupported: dict[fx.Node, str] = {}
        self._sizes: dict[Dim, int] = {}
        """The positions of arguments that are sizes."""
        self._argument_symbols: set[str] = set()
        """The symbols that are arguments, or sizes of arguments."""
        self._inputs: dict[fx.Node, Value] = {}
        """The input of the module for each argument that is a tensor."""
        self._written: dict[fx.Node, fx.Node] = {}
        """The arguments that the graph changes, and their new values."""

    def read(self) -> ReadGraph:
        arguments = self._graph.find_nodes(op="placeholder")
        self._argument_symbols = argument_symbols(self._graph)
        for position, node in enumerate(arguments):
            self._nodes.results[node] = self._input(node, position)
        for node in self._graph.nodes:
            if node.target == COPY_BACK and node.args[0] in self._inputs:
                self._write(node, *node.args)
            elif node.op in ("get_attr", "call_function"):
                self._read(node)
        self._add_sizes()
        self._set_results(self._graph.output_node())
        return ReadGraph(self._builder.module, self._interface, self._unsupported)

    def _write(self, node: fx.Node, argument: fx.Node, result: fx.Node) -> None:
        self._written[argument] = result
        position = self._interface.inputs[self._inputs[argument].index].position
        self._nodes.results[node] = Argument(position)

    def _read(self, node: fx.Node) -> None:
        self._builder.sources = (node.name,)
        try:
            self._nodes.read(node)
        except Unsupported as error:
            self._unsupported[node] = str(error)
            self._nodes.results[node] = substitute_inputs(self._builder.graph, node)

    def _input(self, node: fx.Node, position: int) -> Any:
        fake = node.meta.get("val")
        try:
            if isinstance(fake, torch.SymInt):
                return self._size(fake, position)
            if isinstance(fake, torch.Tensor):
                return self._tensor(node, fake, position)
            if isinstance(fake, torch.SymFloat | torch.SymBool):
                raise Unsupported("a data-dependent number that is not a size cannot be an input")
        except Unsupported as error:
            self._unsupported[node] = str(error)
            return UnsupportedValue(str(error))
        return fake  # a number, which is a constant of the graph in PyTorch

    def _size(self, fake: torch.SymInt, position: int) -> Dim:
        dim = dim_from(fake)
        self._require_given(dim)
        self._note_range(fake)
        self._note_symbol(dim, position, None)
        self._sizes.setdefault(dim, position)
        return dim

    def _tensor(self, node: fx.Node, fake: torch.Tensor, position: int) -> Value | Complex:
        """An input with the same memory layout as the argument, permuted to the order of its axes."""
        type, order = stored_type_from(fake), order_in_memory(fake)
        for dim in type.dims:
            self._require_given(dim)
        for axis, (dim, size) in enumerate(zip(type.dims, fake.shape, strict=False)):
            self._note_symbol(dim, position, axis)
            self._note_range(size)
        parts = type.dims[len(order) :]  # the axis of real and imaginary parts
        permuted = TensorType(type.dtype, (*(type.dims[axis] for axis in order), *parts))
        self._interface.inputs.append(Input(position, node.name, order, fake.dtype))
        self._interface.is_lazy |= is_lazy(fake)
        given = self._inputs[node] = self._builder.graph.add_input(permuted, node.name)
        value = read(self._builder, given) if fake.is_complex() else given
        ordered: Value | Complex = self._ordered(value, inverse(order))
        return ordered

    def _require_given(self, dim: Dim) -> None:
        if unknown := names_in(dim) - self._argument_symbols:
            raise Unsupported(f"no argument has the size {', '.join(sorted(unknown))} of {dim}")

    def _note_symbol(self, dim: Dim, position: int, axis: int | None) -> None:
        if _is_symbol(dim):
            self._interface.symbols.setdefault(str(dim), (position, axis))

    def _note_range(self, size: int | torch.SymInt) -> None:
        """Records the bounds of a size that PyTorch guards."""
        if not isinstance(size, torch.SymInt):
            return
        ranges = size.node.shape_env.var_to_range
        for each in size.node.expr.free_symbols & ranges.keys():
            low, high = ranges[each].lower, ranges[each].upper
            least = int(low) if low.is_Integer and low > 0 else 0
            bounded = high.is_Integer and high < 2**31
            self._builder.module.symbols.ranges[each.name] = Range(least, int(high) if bounded else None)

    def _ordered(self, value: Any, order: tuple[int, ...]) -> Any:
        if order == tuple(range(len(order))):
            return value
        if isinstance(value, Complex):
            return Complex(self._ordered(value.real, order), self._ordered(value.imag, order))
        transposed: Value = self._builder(Transpose(order), value)
        return transposed

    def _add_sizes(self) -> None:
        """Adds inputs for sizes that follow neither from sizes of tensors nor from other numbers."""
        graph = self._builder.graph
        known = {dim for value in graph.inputs for dim in value.type.dims}
        symbols = {str(dim) for dim in (*known, *self._sizes) if _is_symbol(dim)}
        for dim, position in self._sizes.items():
            follows = dim in known or (names_in(dim) <= symbols and not _is_symbol(dim))
            if isinstance(dim, Expr) and not follows:
                name = f"size_{position}"
                graph.add_input(TensorType(U8, (dim, 0)), name)
                self._interface.inputs.append(Input(position, name, None, None))

    def _set_results(self, node: fx.Node) -> None:
        results: Any = node.args[0]
        values: list[Value] = []
        for result in results if isinstance(results, list | tuple) else (results,):
            imported = self._nodes.results[result] if isinstance(result, fx.Node) else result
            if self._is_decided(result, imported):
                source = result.args[0] if result.target is operator.getitem else result
                self._unsupported[source] = "a result is a data-dependent number"
                imported = None
            if not isinstance(imported, Value | Complex):
                self._interface.outputs.append(Output(None, imported))
                continue
            fake = result.meta["val"]
            order, conjugated, negated = order_in_memory(fake), fake.is_conj(), fake.is_neg()
            values.append(self._stored(self._elements(imported, conjugated, negated), order))
            self._interface.outputs.append(Output(order, None, fake.is_complex(), conjugated, negated))
        named = {f"output_{k}": value for k, value in enumerate(values)}
        self._builder.module.set_outputs(named, dict(self._changes()))

    def _elements(self, value: Any, conjugated: bool, negated: bool) -> Any:
        """``value`` before it is conjugated and negated."""
        if conjugated:
            value = conjugate(self._builder, value)
        if not negated:
            return value
        if isinstance(value, Complex):
            return Complex(self._builder(Neg(), value.real), self._builder(Neg(), value.imag))
        return self._builder(Neg(), value)

    def _stored(self, value: Any, order: tuple[int, ...]) -> Value:
        """``value`` as an output of the module, with its axes in ``order``."""
        ordered = self._ordered(value, order)
        output: Value = stored(self._builder, ordered) if isinstance(ordered, Complex) else ordered
        return output

    def _is_decided(self, result: Any, value: Any) -> bool:
        """Whether a result is a data-dependent number, which PyTorch must compute."""
        if not isinstance(result, fx.Node) or isinstance(result.meta.get("val"), torch.Tensor):
            return False
        if isinstance(value, Expr):
            return not names_in(value) <= self._argument_symbols
        return isinstance(value, UnbackedInt | Value)

    def _changes(self) -> Iterator[tuple[Value, Value]]:
        """The states of the module, and their next values."""
        for argument, result in self._written.items():
            value = self._nodes.results[result]
            if isinstance(value, Value | Complex):
                state, fake = self._inputs[argument], argument.meta["val"]
                yield state, self._stored(value, order_in_memory(fake))
                self._interface.changed.append(self._interface.inputs[state.index].position)


def _is_symbol(dim: Dim) -> bool:
    return isinstance(dim, Expr) and names_in(dim) == {str(dim)}


def _dims(node: fx.Node) -> Iterator[Dim]:
    """The sizes of an argument, or the argument itself if it is a size; nothing if they are not known."""
    fake = node.meta.get("val")
    sizes = fake.shape if isinstance(fake, torch.Tensor) and fake.layout == torch.strided else (fake,)
    for size in sizes:
        if isinstance(size, torch.SymInt) and not size.node.is_nested_int():
            yield dim_from(size)
