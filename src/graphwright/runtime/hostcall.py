"""Ops without a native kernel: run on their NumPy reference, from the native executor, under the GIL.

The one lazy edge from the runtime to the ops: they are imported when a program that needs them is loaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphwright.errors import Diagnostic
from graphwright.ir.arrays import Array, np
from graphwright.runtime.devices.base import REFERENCE_FAULTS, RunError

if TYPE_CHECKING:
    from graphwright.lower.tasks import HostFunction

Operand = tuple[memoryview, tuple[int, ...]]


def host_callable(host: HostFunction) -> Callable[[list[Operand | None], list[Operand]], None]:
    """What the executor calls: reads the inputs' memory, runs the op's reference, fills the outputs'."""
    importlib.import_module("graphwright.ops").load()
    op = importlib.import_module("graphwright.ir.text").parse_op(host.op)
    evaluate = importlib.import_module("graphwright.ir.infer").evaluate
    input_types = [None if typed is None else typed[0].numpy for typed in host.inputs]
    output_types = [typed[0].numpy for typed in host.outputs]

    def call(inputs: list[Operand | None], outputs: list[Operand]) -> None:
        arrays = [None if o is None else _array(o, t) for o, t in zip(inputs, input_types, strict=True)]
        try:
            with np.errstate(all="ignore"):
                results = evaluate(op, arrays)
            for operand, dtype, result in zip(outputs, output_types, results, strict=True):
                np.copyto(_array(operand, dtype), result, casting="no")
        except REFERENCE_FAULTS as error:
            raise RunError(Diagnostic("reference", f"{type(error).__name__}: {error}", op.name)) from error

    return call


def _array(operand: Operand, dtype: Any) -> Array:
    memory, shape = operand
    return np.frombuffer(memory, dtype=dtype).reshape(shape)
