"""Validates what a plugin's kernel candidate returns, before it is used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from graphwright.cost.machine import Machine
from graphwright.cost.predict import stream_ns
from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Node, Value
from graphwright.ir.op.plugin_ops import defined_at, guarded
from graphwright.ir.symbols import Dim, Expr, names_in
from graphwright.kernels.launch import Alias, ByteRange, Copy, Launch, Run
from graphwright.kernels.ref import KernelRef
from graphwright.records import replace

_USERS_CODE = 8
"""The assumed ratio of a plugin kernel's time to the time of moving its operands."""


def checked_candidate(
    call: Callable[[], Any],
    function: Callable[..., Any],
    node: Node,
    temporaries: Collection[Value],
    machine: Machine,
) -> Run | Alias | str:
    """The result of the plugin's ``function`` for ``node``. Raises PluginError if it cannot be launched."""
    name = getattr(function, "__name__", "a kernel")
    doing = f"kernel {name} for {node.op.name}"
    found = guarded(call, function, doing)
    if isinstance(found, str | Alias):
        return found
    run = Run((found,)) if isinstance(found, Launch) else found
    if not isinstance(run, Run):
        returned = type(found).__name__
        fault = f"returned {returned} instead of a Launch, or a text with the reason why it does not apply"
    else:
        fault = next(_faults(run, node, {*temporaries, *run.temporaries}), "")
    if fault:
        raise PluginError(Diagnostic("plugin-kernel", f"{doing}: {fault}", defined_at(function)))
    return replace(run, launches=tuple(_with_work(launch, machine) for launch in run.launches))


def _with_work(launch: Launch | Copy, machine: Machine) -> Launch | Copy:
    """``launch`` with an estimate of its time from the size of its operands, if it has none."""
    if isinstance(launch, Copy) or launch.work != 0:
        return launch
    moved = sum((o.bytes for o in launch.operands if isinstance(o, Value)), start=0)
    return replace(launch, work=_USERS_CODE * stream_ns(moved, machine))


def _faults(run: Run, node: Node, temporaries: Collection[Value]) -> Iterator[str]:
    known = symbols_in(value.type for value in (*_values(node), *temporaries))
    written: set[Value] = set()
    for launch in run.launches:
        if isinstance(launch, Launch):
            yield from _launch_faults(launch, node, temporaries, known)
            written |= {v for v in _written(launch) if v is not None}
        elif isinstance(launch, Copy):
            written.add(launch.target)
        else:
            yield f"{type(launch).__name__} is not a Launch"
            return
    for number, value in enumerate(node.outputs):
        if value not in written:
            yield f"no launch writes output {number}: add its position in operands to writes"


def _launch_faults(
    launch: Launch, node: Node, temporaries: Collection[Value], known: Collection[str]
) -> Iterator[str]:
    if not isinstance(launch.kernel, KernelRef):
        yield f"{launch.kernel!r} is not a kernel: context.c_function(source, name) returns one"
    for position, operand in enumerate(launch.operands):
        value = operand.value if isinstance(operand, ByteRange) else operand
        if value is None:
            continue
        if not isinstance(value, Value):
            yield f"operand {position} is {type(value).__name__}, not a value of the graph"
            return
        if value not in _values(node) and value not in temporaries and not is_constant(value):
            yield f"operand {position} is neither an input nor an output of the node"
        if value in node.outputs and position not in launch.writes:
            yield f"operand {position} is an output, but its position is not in writes"
    for position in launch.writes:
        if not 0 <= position < len(launch.operands):
            yield f"writes names operand {position}, but there are {len(launch.operands)} operands"
            return
    if any(v is not None and v not in node.outputs and v not in temporaries for v in _written(launch)):
        yield "writes names an operand that is not an output"
    sizes = [("grid", launch.grid), ("scratch", launch.scratch), ("work", launch.work)]
    sizes += [(f"args[{number}]", dim) for number, dim in enumerate(launch.args)]
    for what, dim in sizes:
        yield from _size_faults(what, dim, known)


def _size_faults(what: str, dim: Dim, known: Collection[str]) -> Iterator[str]:
    if isinstance(dim, bool) or not isinstance(dim, int | Expr):
        yield f"{what} is {dim!r}, not an integer or a size"
        return
    strange = sorted(names_in(dim) - set(known))
    if strange:
        yield f"{what} depends on {', '.join(strange)}, which is not a size of the node's inputs or outputs"
    if isinstance(dim, int) and dim < 0 and not what.startswith("args"):
        yield f"{what} is {dim}"


def _written(launch: Launch) -> list[Value | None]:
    operands = [launch.operands[position] for position in launch.writes]
    values = [operand.value if isinstance(operand, ByteRange) else operand for operand in operands]
    return [value if isinstance(value, Value) else None for value in values]


def _values(node: Node) -> list[Value]:
    return [value for value in (*node.inputs, *node.outputs) if value is not None]
