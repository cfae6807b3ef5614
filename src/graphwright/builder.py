"""Models built by hand.

>>> from graphwright.ops.matmul import MatMul
>>> from graphwright.ops.softmax import Softmax
>>> b = gw.GraphBuilder()
>>> x = b.input("x", "f32", ("N", 64))
>>> b.output("y", b(Softmax(axis=-1), b(MatMul(), x, weights)))
>>> model = b.compile()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.api import compile
from graphwright.config import Options
from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.build import new_graph
from graphwright.ir.graph import Module, Role, Signature, Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import SymbolError, parse_dim
from graphwright.ir.types import DTYPES, TensorType
from graphwright.runtime.model import Model

Operand = Value | np.ndarray[Any, Any] | float | bool | None


class GraphBuilder:
    """Adds inputs, ops and outputs to a module; types are inferred, and checked, as ops are added."""

    def __init__(self) -> None:
        self.module = Module()
        self._builder, _ = new_graph(self.module, "main", ())
        self._outputs: dict[str, Value] = {}

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> Value:
        """An input. Sizes are numbers, names (equal sizes share one), or expressions: ``"2*N"``."""
        graph = self.module.main
        if not name or any(value.name == name for value in graph.inputs):
            raise _fault("input-name", f"{name!r} is empty or taken already")
        if dtype not in DTYPES:
            raise _fault("dtype", f"there is no dtype {dtype!r}", f"one of {', '.join(DTYPES)}")
        try:
            dims = tuple(size if isinstance(size, int) else parse_dim(size) for size in shape)
        except SymbolError as error:
            raise _fault("input-size", f"input {name!r}: {error}") from error
        return graph.add_input(TensorType(DTYPES[dtype], dims), name)

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """A constant with the elements of ``array``, which are copied."""
        return self._builder.const(np.array(array))

    def __call__(self, op: Op, *operands: Operand, name: str = "") -> Any:
        """Add ``op``. Its Value, or a tuple of them where it has several outputs.

        Arrays become constants, and numbers constants of the first operand's dtype. None leaves out an
        operand. Raises ModelError where types do not fit.
        """
        values = [self._value(operand, operands) for operand in operands]
        return self._builder(op, *values, name=name)

    def output(self, name: str, value: Value) -> None:
        """Make ``value`` an output called ``name``."""
        if not name or name in self._outputs:
            raise _fault("output-name", f"{name!r} is empty or taken already")
        self._outputs[name] = value

    def build(self) -> Module:
        """The module, which the builder no longer changes."""
        if not self._outputs:
            raise _fault("outputs", "the graph has no outputs", "call output(name, value)")
        graph = self.module.main
        graph.set_outputs(list(self._outputs.values()), list(self._outputs))
        self.module.signatures["main"] = Signature((Role.DATA,) * len(graph.inputs))
        return self.module

    def compile(self, options: Options | None = None) -> Model:
        """The compiled model; the builder is used up."""
        return compile(self.build(), options=options)

    def _value(self, operand: Operand, operands: Sequence[Operand]) -> Value | None:
        if operand is None or isinstance(operand, Value):
            return operand
        if isinstance(operand, np.ndarray | np.generic):
            return self.constant(np.asarray(operand))
        typed = next((o for o in operands if isinstance(o, Value)), None)
        if typed is None:
            raise _fault("operand", f"nothing says of which dtype {operand!r} is", "give an array")
        return self._builder.const(operand, typed.type.dtype)


def _fault(code: str, message: str, hint: str = "") -> ModelError:
    return ModelError(Diagnostic(code, message, hint=hint))
