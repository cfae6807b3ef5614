"""Runs ops without a native kernel on their NumPy reference, under the GIL.

This module imports all ops and the IR. It is imported only when a program that needs them is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import graphwright.ops
from graphwright.errors import GraphwrightError, ModelError
from graphwright.ir.arrays import Array, np
from graphwright.ir.free_symbols import sizes_named
from graphwright.ir.inference.infer import check_results, evaluate
from graphwright.ir.op import Op
from graphwright.ir.symbols import Expr, substitute
from graphwright.ir.text import parse_op
from graphwright.ir.types import TensorType
from graphwright.low_ir.tasks import HostFunction
from graphwright.runtime.executor import REFERENCE_FAULTS, RunError, reference_fault

Operand = tuple[memoryview, tuple[int, ...]]


def op_of(text: str) -> Op:
    """Parses an op from its text in a graph, such as ``Softmax[axis=-1]``."""
    graphwright.ops.load()
    return parse_op(text)


def reference_of(op: Op, location: str) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The reference of ``op`` as a function from arrays (or None) to arrays. It raises RunError, which names
    the node at ``location``.
    """

    def call(arrays: Sequence[Any]) -> tuple[Any, ...]:
        try:
            with np.errstate(all="ignore"):
                return evaluate(op, arrays, location)
        except ModelError as error:
            raise RunError(*error.diagnostics) from error
        except REFERENCE_FAULTS as error:
            if isinstance(error, GraphwrightError):
                raise
            raise reference_fault(error, location) from error

    return call


def host_callable(host: HostFunction) -> Callable[[list[Operand | None], list[Operand]], None]:
    """The function that the native executor calls: it wraps the memory of the inputs, runs the reference of
    the op, and copies the results to the memory of the outputs.

    If attributes of the op contain symbolic sizes, one more input passes their values as the sizes of its
    axes (see ``HostFunction``).
    """
    op = op_of(host.op)
    names = sizes_named(op)
    reference = _sized(op, names) if names else reference_of(op, op.name)
    input_types = [None if typed is None else typed[0].numpy for typed in host.inputs]
    dtypes = [typed[0] for typed in host.outputs]
    output_types = [dtype.numpy for dtype in dtypes]

    def call(inputs: list[Operand | None], outputs: list[Operand]) -> None:
        arrays = [None if o is None else _array(o, t) for o, t in zip(inputs, input_types, strict=True)]
        results = reference(arrays)
        try:
            check_results(op, results, [TensorType(d, o[1]) for d, o in zip(dtypes, outputs, strict=True)])
            for operand, dtype, result in zip(outputs, output_types, results, strict=True):
                np.copyto(_array(operand, dtype), result, casting="no")
        except REFERENCE_FAULTS as error:
            raise reference_fault(error, op.name) from error

    return call


def _sized(op: Op, names: Sequence[str]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """The reference of ``op``, whose last operand is an empty array: its axes after the first have the sizes
    that ``names`` stand for.
    """

    def call(arrays: list[Any]) -> tuple[Any, ...]:
        *operands, empty = arrays
        sizes = dict(zip(names, empty.shape[1:], strict=True))
        return reference_of(with_sizes(op, sizes), op.name)(operands)

    return call


def with_sizes(op: Op, sizes: Mapping[str, int]) -> Op:
    """``op`` with numbers in place of the symbols in ``sizes``."""
    return op.with_attributes(lambda value: _bound(value, sizes))


def type_with_sizes(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    """``type`` with numbers in place of the symbols in ``sizes``."""
    if type.shape is None:
        return type
    return TensorType(type.dtype, tuple(substitute(dim, sizes) for dim in type.shape))


def _bound(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, Expr):
        return substitute(value, sizes)
    if isinstance(value, TensorType):
        return type_with_sizes(value, sizes)
    return tuple(_bound(part, sizes) for part in value) if isinstance(value, tuple) else value


def _array(operand: Operand, dtype: Any) -> Array:
    memory, shape = operand
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
