"""Evaluates graphs node by node with the NumPy references of the ops. This defines the meaning of a module;
results of every device are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.inference.infer import check_results, evaluate, fact_of
from graphwright.ir.op import Array
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.ir.op.region_op import LoopOp, region_op
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Expr, substitute
from graphwright.ir.symbols import evaluate as number_of
from graphwright.ir.types import F32, F64, TensorType

Observer = Callable[[Value, Array], None]
"""Called with every value that a node computes."""


def evaluate_module(
    module: Module, arrays: Sequence[Array], *, wide: bool = False, observe: Observer | None = None
) -> tuple[Array, ...]:
    """The outputs of the entry for ``arrays``, which are in the order of its inputs.

    With ``wide``, f32 inputs, constants and casts become f64. Raises SymbolError if an op needs a size that
    is not known. Exceptions of a reference get a note with the name of the node.
    """
    arrays = [in_f64(a) for a in arrays] if wide else list(arrays)
    sizes = input_sizes(module.main, arrays)
    return Evaluator(module, sizes, wide=wide, observe=observe).graph(module.main, arrays)


def in_f64(array: Array) -> Array:
    """``array`` in f64 if it is f32; for a list, each item."""
    if array is None or isinstance(array, dict):  # an empty optional, or a map
        return array
    if isinstance(array, list):
        items: Any = [in_f64(item) for item in array]
        return cast("Array", items)
    return array.astype(np.float64) if array.dtype == np.float32 else array


def input_sizes(graph: Graph, arrays: Sequence[Array]) -> dict[str, int]:
    """The values of the symbols that a dim of an input determines."""
    sizes: dict[str, int] = {}
    for value, array in zip(graph.inputs, arrays, strict=True):
        if value.type.dtype.element is not None:
            continue
        dims = array.shape if value.type.shape is None else value.type.shape
        for dim, size in zip(dims, array.shape, strict=True):
            scaled = scaled_symbol(dim)
            if scaled is not None:
                sizes[scaled[0]] = size // scaled[1]
    return sizes


class Evaluator:
    """Runs graphs and nodes of ``module``. ``sizes``: the values of symbols that the inputs determine."""

    def __init__(
        self,
        module: Module,
        sizes: Mapping[str, int],
        *,
        wide: bool = False,
        observe: Observer | None = None,
    ) -> None:
        self.module, self.sizes, self.wide, self.observe = module, dict(sizes), wide, observe

    def graph(self, graph: Graph, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
        """The outputs of ``graph`` for ``arrays``, in the order of its inputs."""
        known: dict[Value | None, Array | None] = {None: None, **dict(zip(graph.inputs, arrays, strict=True))}
        last_use = {v: node for node in graph for v in node.inputs if v is not None}
        for node in graph:
            try:
                results = self.node(node, [known[v] for v in node.inputs])
            except Exception as error:
                error.add_note(node.location)
                raise
            for value, array in zip(node.outputs, results, strict=True):
                known[value] = array
                self.bind_sizes(value, array)
                if self.observe is not None:
                    self.observe(value, array)
            for operand in node.inputs:  # free arrays after their last use
                if operand is not None and last_use[operand] is node and operand not in graph.outputs:
                    known[operand] = None
        return tuple(_present(known[value], value.type) for value in graph.outputs)

    def node(self, node: Node, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
        """The outputs of ``node`` for ``arrays``, in the order of its inputs."""
        if isinstance(node.op, Constant):
            array = self.module.constants[node.op.value]
            return (in_f64(array) if self.wide else array,)
        if isinstance(node.op, LoopOp):
            types = [self._bound(value.type) for value in node.outputs]
            op = node.op.with_attributes(self._attribute)
            return op.repeat(lambda k, given: self._region(node.regions[k], given), arrays, types)
        if node.regions:
            chooser = region_op(node.op)
            selected = chooser.selected_region(*map(fact_of, arrays))
            if selected is None:
                raise NotImplementedError(f"{node.op.name} does not run one of its regions")
            captured = chooser.captured_operands(len(arrays))
            return self._region(node.regions[selected], arrays[len(arrays) - captured :])
        results = evaluate(node.op.with_attributes(self._attribute), arrays, node.location)
        if is_plugin_op(type(node.op)) and not self.wide:
            check_results(node.op, results, [value.type for value in node.outputs])
        return results

    def _region(self, graph: Graph, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
        """Runs a region. The sizes of its inputs can have other values in each run."""
        for value, array in zip(graph.inputs, arrays, strict=True):
            self.bind_sizes(value, array)
        return self.graph(graph, arrays)

    def bind_sizes(self, value: Value, array: Array | None) -> None:
        """Binds the symbols in the shape of ``value`` to the sizes of ``array``."""
        if isinstance(array, np.ndarray) and value.type.shape is not None and not value.type.is_static:
            for dim, size in zip(value.type.shape, array.shape, strict=True):
                scaled = scaled_symbol(dim)
                if scaled is not None:
                    self.sizes[scaled[0]] = size // scaled[1]

    def _bound(self, type: TensorType) -> TensorType:
        """``type`` with numbers in place of the symbols that are bound."""
        if type.shape is None:
            return type
        return TensorType(type.dtype, tuple(substitute(dim, self.sizes) for dim in type.shape))

    def _attribute(self, value: Any) -> Any:
        """An attribute with numbers in place of symbols and, if ``wide``, with f64 in place of f32."""
        if isinstance(value, Expr):
            return number_of(value, self.sizes)
        if isinstance(value, tuple) and any(isinstance(item, Expr) for item in value):
            return tuple(self._attribute(item) for item in value)
        return F64 if self.wide and value is F32 else value


def _present(array: Array | None, type: TensorType) -> Array:
    if array is None and type.dtype.kind == "optional":
        empty: Any = None
        return cast("Array", empty)
    if array is None:
        raise ValueError("an output of a region is absent")
    return array
