"""An ONNX graph or function under construction: its nodes, the names of its values, and its sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from graphwright.export.onnx.attributes import attribute_proto
from graphwright.ir.graph import Value
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Dim, Expr
from graphwright.support.unique_names import UniqueNames


class Scope:
    """One level of the model. A subgraph sees the values and sizes of ``outer``; a function does not."""

    def __init__(self, names: UniqueNames, outer: Scope | None = None) -> None:
        self.names, self.outer = names, outer
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[Value, str] = {}
        self._dims: dict[Dim, tuple[str, int]] = {}
        """For each symbolic size, a value and the axis that has it."""
        self._symbols: dict[str, tuple[Dim, int]] = {}
        """A size that is a multiple of a symbol, and that multiple."""
        self.sizes: dict[Dim, str] = {}
        """Sizes that are computed: vectors of one element."""

    def name_of(self, value: Value) -> str:
        """The name of a value of this scope or of one around it."""
        scope: Scope | None = self
        while scope is not None:
            if value in scope.values:
                return scope.values[value]
            scope = scope.outer
        raise KeyError(value)

    def bind(self, value: Value, name: str) -> None:
        """Binds ``name`` to ``value``, so that later nodes can read its sizes."""
        self.values[value] = name
        for axis, dim in enumerate(value.type.shape or ()):
            if isinstance(dim, Expr):
                self._dims.setdefault(dim, (name, axis))
                scaled = scaled_symbol(dim)
                if scaled is not None and scaled[1] < self._symbols.get(scaled[0], (0, 1 << 62))[1]:
                    self._symbols[scaled[0]] = (dim, scaled[1])

    def axis_with_size(self, dim: Dim) -> tuple[str, int] | None:
        """A value that has the size ``dim`` along an axis, and that axis."""
        if dim in self._dims or self.outer is None:
            return self._dims.get(dim)
        return self.outer.axis_with_size(dim)

    def multiple_of(self, symbol: str) -> tuple[Dim, int] | None:
        """A size of a known value that is a multiple of ``symbol``, and that multiple."""
        if symbol in self._symbols or self.outer is None:
            return self._symbols.get(symbol)
        return self.outer.multiple_of(symbol)

    def known_size(self, dim: Dim) -> str | None:
        """The name of a size that was computed."""
        if dim in self.sizes or self.outer is None:
            return self.sizes.get(dim)
        return self.outer.known_size(dim)

    def demand(self, symbol: str) -> str | None:
        """The input of the enclosing function that passes the size ``symbol``, as a vector of one element;
        None outside of functions.
        """
        return None if self.outer is None else self.outer.demand(symbol)

    @property
    def is_in_function(self) -> bool:
        """Whether the scope is in a function, which cannot read the initializers of the model."""
        return self.outer is not None and self.outer.is_in_function

    def append(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str = "",
        name: str = "",
        attributes: Mapping[str, object] | None = None,
    ) -> onnx.NodeProto:
        """Appends a node."""
        node = onnx.NodeProto(op_type=op_type, domain=domain, name=name, input=_without_last(inputs))
        node.output.extend(outputs)
        for key, value in (attributes or {}).items():
            if value is not None and not (isinstance(value, tuple) and not value):
                node.attribute.append(attribute_proto(key, value))
        self.nodes.append(node)
        return node


class FunctionScope(Scope):
    """The body of a function. Sizes that do not follow from the shapes of its operands become additional
    inputs.
    """

    def __init__(self) -> None:
        super().__init__(UniqueNames())
        self.demanded: dict[str, str] = {}
        """The symbols whose values the caller has to pass, and the inputs for them."""

    @property
    def is_in_function(self) -> bool:
        return True

    def demand(self, symbol: str) -> str:
        if symbol not in self.demanded:
            self.demanded[symbol] = self.names.take(f"size_{symbol}")
        return self.demanded[symbol]


def _without_last(inputs: Sequence[str]) -> Sequence[str]:
    """``inputs`` without missing optional inputs at the end."""
    count = len(inputs)
    while count and not inputs[count - 1]:
        count -= 1
    return inputs[:count]
