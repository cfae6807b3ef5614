"""Builds the library of a model: an operator for each Subgraph node that can have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Final

from graphwright.autofusion.onnxruntime.compiled import (
    CompiledPrograms,
    NotServed,
    compile_programs,
    prepare,
)
from graphwright.autofusion.onnxruntime.likely_sizes import chosen_by_sizes, demands_by_graph
from graphwright.autofusion.onnxruntime.operator_library import Library, Operator
from graphwright.autofusion.onnxruntime.programs import Outlined, program_module
from graphwright.compiler.unit import Unit
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.export.onnx import OnnxModel
from graphwright.frontends.onnx.dtypes import onnx_number
from graphwright.ir.builtin.subgraph import Subgraph
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.symbols import Constraint
from graphwright.ir.types import BF16, U8
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import ISAS

MOST_VALUES: Final = 256
MOST_DIMS: Final = 1024
"""The limit on the inputs, and on the outputs, of a program; as in ``operators.h``."""


@dataclass(frozen=True)
class _Draft:
    """An operator whose program is not compiled yet; ``prepared`` has the program for each ISA."""

    operator: Operator
    prepared: Mapping[str, Unit]


def build_library(
    module: Module, model: OnnxModel, programs: Outlined, options: Options, unserved: Mapping[str, str]
) -> Library:
    """Compiles the ``programs`` of ``module``, which are functions in ``model``, to operators. Those that
    ``unserved`` maps to a reason are left out. Raises ModelError, ToolchainError.
    """
    demands = demands_by_graph(module.main)
    isas = tuple(ISAS) if options.isa == "auto" else (options.isa,)
    names = {node: name for name, calls in model.calls.items() for node in calls}
    lengths = {function.name: len(function.input) for function in model.proto.functions}
    drafts: list[_Draft] = []
    refused: dict[str, str] = {}
    for node in programs.nodes:
        name = names[node]
        try:
            if name in unserved:
                raise NotServed(unserved[name])
            if lengths[name] != len(node.inputs):
                raise NotServed("sizes do not follow from those of its operands")
            known = demands.get(node.graph, ())
            drafts.append(_draft(name, module, node, isas, options, known))
        except (NotServed, ModelError) as reason:
            refused[name] = str(reason)
    prepared = {isa: [draft.prepared[isa] for draft in drafts] for isa in isas}
    compiled = compile_programs(prepared, options) if drafts else []
    faults = [_why_not(each.operator, number, compiled) for number, each in enumerate(drafts)]
    refused |= {each.operator.name: fault for each, fault in zip(drafts, faults, strict=True) if fault}
    served = [not fault for fault in faults]
    return Library(
        [each.operator for each in compress(drafts, served)],
        [replace(each, programs=list(compress(each.programs, served))) for each in compiled],
        refused,
        {node.op.source_name: reason for node, reason in programs.outside.items()},
        _has_bf16(module),
        _is_whole(module.main, {names[node] for node in programs.nodes} - set(refused), names),
    )


def _is_whole(graph: Graph, served: set[str], names: Mapping[Node, str]) -> bool:
    """Whether operators run all of ``graph``; if it chooses by sizes, all of its graph for likely sizes."""
    choice = chosen_by_sizes(graph)
    nodes = graph if choice is None else choice.regions[0]
    return all(
        node.is_constant or (isinstance(node.op, Subgraph) and names[node] in served) for node in nodes
    )


def _draft(
    name: str,
    module: Module,
    node: Node,
    isas: Sequence[str],
    options: Options,
    demands: Sequence[Constraint],
) -> _Draft:
    """The draft of an operator; ``demands`` are the known constraints on sizes. Raises NotServed,
    ModelError.
    """
    source = program_module(module, node, demands)
    operator = _operator(name, node, source.inputs)
    return _Draft(operator, prepare(source.module, isas, options))


def _operator(name: str, node: Node, taken: Sequence[int]) -> Operator:
    """The operator; ``taken`` are the operands that the program receives. Raises NotServed if an operator
    cannot have such inputs or outputs.
    """
    inputs = [value for value in node.inputs if value is not None]
    for values in ([inputs[position] for position in taken], node.outputs):
        if len(values) > MOST_VALUES or sum(len(value.type.dims) for value in values) > MOST_DIMS:
            raise NotServed("it has more inputs or outputs than an operator can have")
        if any(value.type.dtype.is_integer and value.type.dtype.bits < U8.bits for value in values):
            raise NotServed("it has inputs or outputs whose elements are smaller than a byte")
    fed = {position: number for number, position in enumerate(taken)}
    numbered = [(_type_number(value), fed.get(position, -1)) for position, value in enumerate(inputs)]
    return Operator(name, tuple(numbered), tuple(map(_type_number, node.outputs)))


def _type_number(value: Value) -> int:
    return onnx_number(value.type.dtype)


def _why_not(operator: Operator, number: int, compiled: Sequence[CompiledPrograms]) -> str:
    """The reason why the library cannot run a compiled program; empty if it can."""
    hosts = {host.op.partition("[")[0] for each in compiled for host in each.programs[number].stored.hosts}
    return f"Python would run {', '.join(sorted(hosts))}" if hosts else ""


def _has_bf16(module: Module) -> bool:
    return any(value.type.dtype is BF16 for node in module.walk() for value in node.outputs)
