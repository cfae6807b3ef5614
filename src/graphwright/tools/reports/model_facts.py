"""The facts about a model that ``inspect --json`` prints, under stable keys.

Keys are only added; ``format`` is incremented if a key changes its meaning or is removed. Sizes are in bytes.
A shape is a list of numbers and texts, or null if the rank is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import graphwright
from graphwright.compiler.report import dynamic_lines
from graphwright.executable.nodes import (
    COMPILE,
    Dispatch,
    between_buckets,
    buckets_of,
    host_programs_of,
)
from graphwright.executable.specs import TensorSpec
from graphwright.executable.target_code import TargetCode
from graphwright.fusion.traffic import Traffic, total_of, traffic_of
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.builtin.subgraph import Subgraph
from graphwright.ir.graph import Module
from graphwright.ir.op import registered_ops
from graphwright.ir.sizes import SizeRange, span_of
from graphwright.ir.symbols import Expr
from graphwright.low_ir.tasks import TaskKind
from graphwright.package.pack_weights import UnpackedWeights
from graphwright.package.package import Entry, Package
from graphwright.package.weights import Weights
from graphwright.runtime.model import Model
from graphwright.tools.flags import shown_path

FORMAT: Final = 1
_LEAST: Final = re.compile(
    r"(?P<low>-?\d+) <= (?P<size>.+?)(?: (?P<sign>[-+]) (?P<offset>\d+))? (?P<node>\(node .*)", re.DOTALL
)
Memory = Callable[[], tuple[Mapping[str, Sequence[int]], int, int] | None]
"""The shapes of the inputs, the bytes of the arena, and the peak of live bytes; None if sizes are dynamic."""


def model_facts(path: Path, model: Model, module: Module | None, memory: Memory) -> dict[str, Any]:
    """All facts. ``module`` is the graph of the entry, None if its plugins are not loaded."""
    found, package, entry = memory(), model.package, model.entry
    return {
        "format": FORMAT,
        "graphwright": graphwright.__version__,
        "file": {"path": shown_path(path), "bytes": path.stat().st_size},
        "entries": list(package.entries),
        "inputs": list(map(_spec, entry.feeds)),
        "states": list(map(_spec, entry.states)),
        "outputs": list(map(_spec, entry.outputs)),
        "sizes": {} if module is None else {dim: _span(span) for dim, span in size_spans(module).items()},
        "constraints": constraint_texts(entry),
        "guards": guard_texts(entry),
        "dynamic": dynamic_lines(entry.report),
        "options": dict(package.options),
        "metadata": dict(entry.metadata),
        "plugins": dict(package.plugins),
        "ops": None if module is None else op_counts(module),
        "traffic": None if module is None else _traffic(module),
        "weights": _weights(package.weights),
        "weights_of_the_graph": _weights(package.spare()),
        "programs": _programs(entry),
        "host_ops": _hosts(entry),
        "gears": _gears(entry),
        "memory": None
        if found is None
        else {
            "inputs": {name: list(shape) for name, shape in found[0].items()},
            "arena_bytes": found[1],
            "live_bytes": found[2],
        },
    }


def constraint_texts(entry: Entry) -> list[str]:
    """The constraints on the sizes of the inputs, such as ``W >= 33`` for ``0 <= W - 33``."""
    return [_bound_text(line) for line in entry.constraints]


def _bound_text(constraint: str) -> str:
    found = _LEAST.fullmatch(constraint)
    if found is None:
        return constraint
    offset = int(f"{found['sign'] or '+'}{found['offset'] or 0}")
    return f"{found['size']} >= {int(found['low']) - offset} {found['node']}"


def size_spans(module: Module) -> dict[str, SizeRange]:
    """The ranges of the dynamic dimensions of the inputs, by text."""
    dims = [dim for value in module.main.inputs for dim in value.type.shape or () if isinstance(dim, Expr)]
    return {str(dim): span_of(dim, module.symbols) for dim in dims}


def op_counts(module: Module) -> dict[str, Any]:
    """The number of ops by name, and the number of those in fused regions."""
    counts = Counter(n.op.name for n in module.walk() if not isinstance(n.op, Fused | Subgraph | Constant))
    regions = [node.regions[0] for node in module.walk() if isinstance(node.op, Fused)]
    inside = sum(not node.is_constant for region in regions for node in region)
    return {
        "count": counts.total(),
        "fused": inside,
        "fused_regions": len(regions),
        "by_name": dict(counts.most_common()),
    }


def _traffic(module: Module) -> dict[str, Any]:
    """The bytes that kernels read and write in a run, in total, by node, and if each op were a kernel."""
    nodes = traffic_of(module)
    fused, unfused = total_of(nodes)
    return {
        **sides(fused, unfused),
        "nodes": [{"name": node.name, **sides(node.fused, node.unfused)} for node in nodes],
    }


def sides(fused: Traffic, unfused: Traffic) -> dict[str, int]:
    """The bytes read and written, fused and if each op were a kernel."""
    return {
        "read": fused.read,
        "written": fused.written,
        "unfused_read": unfused.read,
        "unfused_written": unfused.written,
    }


def target_facts(target: TargetCode) -> dict[str, Any]:
    """The facts about one program for one ISA: its tasks by kind, its kernels, and the ops that NumPy
    runs.
    """
    program = target.task_graph
    generated = sum(bool(kernel.module) for kernel in program.kernels)
    return {
        "isa": target.name,
        "tasks": dict(Counter(task.kind.name.lower() for task in program.tasks).most_common()),
        "shape_instructions": len(program.shape),
        "kernels": {"library": len(program.kernels) - generated, "generated": generated},
        "numpy_ops": [task.name for task in program.tasks if task.kind is TaskKind.HOSTCALL],
    }


def has_all_plugins(package: Package) -> bool:
    """Whether all ops of the package are registered; a package with kernels can run without."""
    return package.plugins.keys() <= registered_ops().keys()


def guard_texts(entry: Entry) -> list[str]:
    """The guards of programs that run the whole model; for sizes that violate them, the model is compiled
    again.
    """
    main = entry.executable
    cases = main.cases if isinstance(main, Dispatch) and main.otherwise == COMPILE else ()
    return [text for case in cases for text in case.guards]


def _programs(entry: Entry) -> list[dict[str, Any]]:
    """Each program with the shapes that it accepts."""
    return [
        {
            "inputs": list(map(_spec, program.inputs)),
            "targets": list(map(target_facts, program.targets.values())),
        }
        for program in entry.programs()
    ]


def _hosts(entry: Entry) -> list[dict[str, str]]:
    programs = () if entry.executable is None else host_programs_of(entry.executable)
    return [
        {"op": host.op.partition("[")[0], "node": host.node, "reason": host.reason}
        for program in programs
        for host in program.hosts()
    ]


def _gears(entry: Entry) -> dict[str, Any] | None:
    main = entry.executable
    if not isinstance(main, Dispatch) or not buckets_of(main):
        return None
    shapes = [{spec.name: list(spec.shape or ()) for spec in gear.inputs} for gear in buckets_of(main)]
    return {"other_shapes": between_buckets(main), "shapes": shapes}


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "dtype": str(spec.dtype),
        "shape": None if spec.shape is None else list(spec.shape),
    }


def _span(span: SizeRange) -> dict[str, int | None]:
    return {"least": span.low, "most": span.high, "multiple": span.multiple}


def _weights(weights: Weights | UnpackedWeights) -> dict[str, int]:
    tensors = weights.tensors.values()
    return {"tensors": len(tensors), "bytes": sum(tensor.size for tensor in tensors)}
