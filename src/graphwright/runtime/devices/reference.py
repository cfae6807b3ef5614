"""The reference device: interprets the graph node by node on the NumPy references of the ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.errors import Collector, Diagnostic, FeedError, GraphwrightError, ModelError
from graphwright.ir.arrays import Array
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import Observer, evaluate_module, input_sizes
from graphwright.ir.graph import Module, Value
from graphwright.ir.sizes import scaled_symbol, span_of
from graphwright.ir.symbols import Dim, SymbolTable
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import PassManager
from graphwright.runtime.devices.constraint_errors import constraint_error
from graphwright.runtime.executor import (
    REFERENCE_FAULTS,
    Executor,
    RunError,
    apart_from,
    reference_fault,
    update_states,
    write_output,
)
from graphwright.support.event_sink import is_recording, now, record_node


class Reference(Executor):
    """Interprets a module."""

    def __init__(self, module: Module) -> None:
        self._module, self._updates = module, module.state_updates()
        names = enumerate(module.main.output_names)
        self._names = [f"output {name!r}" for position, name in names if position not in self._updates]
        self._runs = 0

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        results = self._evaluated(arrays, _recorder() if is_recording() else None)
        if outputs is None:
            return results
        return list(map(write_output, results, outputs, self._names))

    def trim(self) -> int:
        return 0

    def stats(self) -> dict[str, int]:
        return {"runs": self._runs, "host_calls": self._runs}

    def _evaluated(self, arrays: Sequence[Array], observe: Observer | None = None) -> list[Array]:
        self._check_sizes(arrays)
        self._runs += 1
        try:
            with np.errstate(all="ignore"):
                values = list(evaluate_module(self._module, arrays, observe=observe))
        except ModelError as error:  # a node rejects the operands that it got in this run
            raise RunError(*error.diagnostics) from error
        except GraphwrightError:
            raise
        except REFERENCE_FAULTS as error:
            raise reference_fault(error, getattr(error, "__notes__", [""])[0]) from error
        states = {position: arrays[source] for position, source in self._updates.items()}
        results = [value for position, value in enumerate(values) if position not in states]
        if states:
            held = list(states.values())
            results = apart_from(held, results)
            update_states(held, [values[position] for position in states])
        return results

    def _check_sizes(self, arrays: Sequence[Array]) -> None:
        """Raises FeedError if shapes do not fit the inputs, or violate an assumption of shape inference."""
        inputs, table = self._module.main.inputs, self._module.symbols
        axes = _sizes_of(inputs, arrays, table)
        shapes = {
            value.name: array.shape
            for value, array in zip(inputs, arrays, strict=True)
            if value.type.dtype.element is None
        }
        shaped = clone_module(self._module)
        shape_inputs(shaped, shapes)
        if any(value.type.shape is None for value in inputs):  # constraints of nodes are not known before
            PassManager((InferShapes(),)).run(shaped)
        sizes = input_sizes(self._module.main, arrays)
        faults = Collector(FeedError)
        for guard in table.guards:
            if guard.broken_by(sizes):
                raise FeedError(Diagnostic("guard", str(guard), guard.node))
        broken = [constraint for constraint in table.constraints if constraint.broken_by(sizes)]
        faults.extend([constraint_error(constraint, axes) for constraint in broken])
        faults.raise_if_any()


def _sizes_of(
    inputs: Sequence[Value], arrays: Sequence[Array], table: SymbolTable
) -> dict[str, tuple[int, str]]:
    """The value of each symbol in the types of ``inputs``, and a text that names the axis that binds it.

    Raises FeedError with the texts of the CPU's checks for arrays whose shapes do not fit.
    """
    sizes: dict[str, tuple[int, str]] = {}
    faults = Collector(FeedError)
    for value, array in zip(inputs, arrays, strict=True):
        dims = value.type.shape
        if value.type.dtype.element is not None or dims is None:
            continue
        if len(dims) != array.ndim:
            message = f"{value.name!r} must have rank {len(dims)}, but has rank {array.ndim}"
            faults.add("feed-shape", message)
            continue
        for axis, (dim, size) in enumerate(zip(dims, array.shape, strict=True)):
            where = f"axis {axis} of {value.name!r}"
            if needed := _needed(dim, size, where, sizes, table):
                faults.add("constraint", f"{where} must be {needed}, but is {size}")
    faults.raise_if_any()
    return sizes


def _needed(dim: Dim, size: int, where: str, sizes: dict[str, tuple[int, str]], table: SymbolTable) -> str:
    """What the axis at ``where``, which is ``dim`` in the model, must be; empty if ``size`` fits. Adds the
    value of its symbol to ``sizes``.
    """
    if isinstance(dim, int):
        return "" if dim == size else str(dim)
    scaled, span = scaled_symbol(dim), span_of(dim, table)
    if scaled is None:
        return ""
    if not span.holds(size):
        return span.words
    name, scale = scaled
    bound = scale * sizes.setdefault(name, (size // scale, where))[0]
    return "" if bound == size else f"{dim} (here {bound})"


def _recorder() -> Observer:
    """Records an event for each node of a run, which begins at the end of the node before it."""
    last = now()

    def observe(value: Value, array: Array) -> None:
        nonlocal last
        producer = value.producer
        assert producer is not None
        record_node(producer.op.name, producer.location, last)
        last = now()

    return observe
