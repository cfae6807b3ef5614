"""Ops without a native kernel: run on their NumPy reference, under the GIL.

The one lazy edge from the runtime to the ops: they are imported when a program that needs them is loaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from graphwright.errors import GraphwrightError, ModelError
from graphwright.ir.arrays import Array, np
from graphwright.runtime.devices.base import REFERENCE_FAULTS, RunError, reference_fault

if TYPE_CHECKING:
    from graphwright.ir.op import Op
    from graphwright.lower.tasks import HostFunction

Operand = tuple[memoryview, tuple[int, ...]]


def op_of(text: str) -> Op:
    """The op that the graph text writes so."""
    importlib.import_module("graphwright.ops").load()
    made: Op = importlib.import_module("graphwright.ir.text").parse_op(text)
    return made


def reference_of(op: Op, place: str) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The reference of ``op``: arrays (or None) in, arrays out. It raises RunError, which names ``place``."""
    evaluate = importlib.import_module("graphwright.ir.infer").evaluate

    def call(arrays: Sequence[Any]) -> tuple[Any, ...]:
        try:
            with np.errstate(all="ignore"):
                made: tuple[Any, ...] = evaluate(op, arrays, place)
        except ModelError as error:
            raise RunError(*error.diagnostics) from error
        except REFERENCE_FAULTS as error:
            if isinstance(error, GraphwrightError):
                raise
            raise reference_fault(error, place) from error
        return made

    return call


def host_callable(host: HostFunction) -> Callable[[list[Operand | None], list[Operand]], None]:
    """What the executor calls: reads the inputs' memory, runs the op's reference, fills the outputs'."""
    op = op_of(host.op)
    reference = reference_of(op, op.name)
    input_types = [None if typed is None else typed[0].numpy for typed in host.inputs]
    dtypes = [typed[0] for typed in host.outputs]
    output_types = [dtype.numpy for dtype in dtypes]
    infer = importlib.import_module("graphwright.ir.infer")
    made = importlib.import_module("graphwright.ir.types").TensorType

    def call(inputs: list[Operand | None], outputs: list[Operand]) -> None:
        arrays = [None if o is None else _array(o, t) for o, t in zip(inputs, input_types, strict=True)]
        results = reference(arrays)
        try:
            infer.check_results(op, results, [made(d, o[1]) for d, o in zip(dtypes, outputs, strict=True)])
            for operand, dtype, result in zip(outputs, output_types, results, strict=True):
                np.copyto(_array(operand, dtype), result, casting="no")
        except REFERENCE_FAULTS as error:
            raise reference_fault(error, op.name) from error

    return call


def _array(operand: Operand, dtype: Any) -> Array:
    memory, shape = operand
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
