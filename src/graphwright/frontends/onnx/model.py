"""Imports an ONNX model: its inputs, initializers, outputs and metadata; ``graph.py`` reads the nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from graphwright.frontends.onnx.channel_blocks import with_block_size
from graphwright.frontends.onnx.declared_outputs import check_outputs
from graphwright.frontends.onnx.faults import Fault, Report, text
from graphwright.frontends.onnx.foreign import ForeignNodes
from graphwright.frontends.onnx.graph import GraphReader
from graphwright.frontends.onnx.model_files import ModelFiles
from graphwright.frontends.onnx.opsets import OLDEST, opset_versions
from graphwright.frontends.onnx.order import reads
from graphwright.frontends.onnx.read import Source, read
from graphwright.frontends.onnx.scope import POISON, Frame, Scope
from graphwright.frontends.onnx.tensors import mapped_contents
from graphwright.frontends.onnx.types import Binding, shape_text, tensor_type, usable_name
from graphwright.ir.build import new_main_graph
from graphwright.ir.constants.user_inputs import constant_for
from graphwright.ir.default_values import OVERRIDABLE
from graphwright.ir.graph import Module, Role, Signature
from graphwright.ir.nesting import MAX_DEPTH, deep_calls
from graphwright.records import dataclass
from graphwright.support.message_text import did_you_mean, listed

FIRST_IR_WITH_OPSETS = 3
"""The first version of the IR in which models import opsets; those before use the first one."""

Shapes = Mapping[str, Sequence[Binding]]


@dataclass(frozen=True)
class Opened:
    """A parsed model, and an empty module whose constant pool has started to hash the weights."""

    model: onnx.ModelProto
    files: ModelFiles
    module: Module


def open_model(source: Source, external_data: Path | None = None) -> Opened:
    """Parses ``source`` and starts to hash its weights, before :func:`load` needs them. Raises
    ModelError.

    ``external_data``: a second folder that may contain external data, besides the folder of the model.
    """
    model, files = read(source, external_data)
    module = Module()
    if contents := mapped_contents(model.graph.initializer, files):
        module.constants.hash_in_background(contents)
    return Opened(model, files, module)


def load(
    source: Source | Opened,
    *,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    keep_foreign: bool = False,
) -> Module:
    """Reads an ONNX model (a path, bytes, an open binary file or a ModelProto) into a module with the entry
    ``main``. Raises :class:`~graphwright.errors.ModelError` with all faults of the model.

    - ``shapes``: sizes of inputs. A number fixes a size, and all sizes with the same name. A string makes a
      size symbolic under this name. None keeps the size of the model.
    - ``constants``: arrays, numbers or lists that replace inputs.
    - ``outputs``: names of node outputs; only the nodes that they need are read. If a name is not a node
      output, all nodes are read, because it can be a value inside a function
      (:func:`graphwright.passes.model_interface.keep_outputs`).
    - ``keep_foreign``: keep foreign nodes as they are, for a model that is exported to ONNX again
      (:mod:`graphwright.frontends.onnx.foreign`).

    The ops must be registered: ``graphwright.ops.load()`` registers the built-in ones.
    """
    opened = source if isinstance(source, Opened) else open_model(source)
    report = Report()
    try:
        # protobuf limits the nesting of subgraphs, but not of function calls
        with deep_calls(min(len(opened.model.functions), MAX_DEPTH)):
            _read_model(opened, report, shapes or {}, constants or {}, outputs, keep_foreign)
    except Fault as fault:
        report.add(fault, "the model")
    report.raise_if_any()
    return opened.module


def _read_model(
    opened: Opened,
    report: Report,
    shapes: Shapes,
    constants: Mapping[str, Any],
    wanted: Sequence[str] | None,
    keep_foreign: bool,
) -> None:
    model, module = opened.model, opened.module
    imports = [(text(o.domain), o.version) for o in model.opset_import]
    if not imports and 0 < model.ir_version < FIRST_IR_WITH_OPSETS:
        imports = [("", OLDEST)]
    frame = Frame(opset_versions(imports))
    foreign = ForeignNodes(model.graph) if keep_foreign else None
    reader = GraphReader(module, model.functions, report, foreign)
    builder, _ = new_main_graph(module)
    scope = Scope(builder, frame, opened.files)
    module.metadata = {text(entry.key): text(entry.value) for entry in model.metadata_props}
    named, data = _inputs(opened, report, constants)
    _check_names(report, named, data, shapes, constants)
    for name in filter(data.__contains__, shapes):
        _bind_sizes(reader, data[name], shapes[name])
    for name in filter(named.__contains__, constants):
        _bind_constant_sizes(reader, named[name], constants[name])
    nodes, names, unread = _required_nodes(model.graph, wanted)
    data = {name: info for name, info in data.items() if name not in unread}
    for name, info in (data | {name: named[name] for name in constants if name in named}).items():
        _read_input(reader, scope, name, info, shapes.get(name), constants)
    reader.read_initializers(model.graph, scope)
    reader.read_nodes(with_block_size(nodes, model.graph, opened.files), scope)
    check_outputs(model.graph, scope, report)
    if reader.incomplete:
        reader.report_all_unsupported(model.graph, frame.opsets)
    if not names:
        raise Fault("outputs", "the graph has no outputs", "the model is incomplete: export it again")
    outputs = reader.read_outputs(names, scope, "the model's outputs")
    if outputs is not None:
        builder.graph.set_outputs(outputs, [text(name) for name in names])
        module.signatures["main"] = Signature((Role.DATA,) * len(builder.graph.inputs))


def _inputs(
    opened: Opened, report: Report, constants: Mapping[str, Any]
) -> tuple[dict[str, onnx.ValueInfoProto], dict[str, onnx.ValueInfoProto]]:
    """All inputs by name, and the inputs without a default value. The metadata lists the other ones."""
    graph = opened.model.graph
    initial = {text(t.name) for t in graph.initializer}
    initial |= {text(t.values.name) for t in graph.sparse_initializer}
    named = {text(info.name): info for info in graph.input}
    data = {name: info for name, info in named.items() if name not in initial}
    if len(named) < len(graph.input):
        fault = Fault("duplicate-name", "two inputs have the same name", "rename one of them")
        report.add(fault, "the model")
    if opened.model.ir_version >= 4 and len(data) < len(named):
        overridable = sorted(named.keys() - data.keys() - constants.keys())
        opened.module.metadata[OVERRIDABLE] = json.dumps(overridable)
    return named, data


def _read_input(
    reader: GraphReader,
    scope: Scope,
    name: str,
    info: onnx.ValueInfoProto,
    shape: Sequence[Binding] | None,
    constants: Mapping[str, Any],
) -> None:
    """Adds an input to the graph, or the constant that replaces it."""
    try:
        declared = tensor_type(info, reader.dims, shape)
        if name in constants:
            scope.initializers[name] = constant_for(constants[name], declared)
        else:
            scope.bind(name, scope.builder.graph.add_input(declared, name))
    except (Fault, ValueError) as error:
        fault = error if isinstance(error, Fault) else Fault("constants", str(error))
        reader.report.add(fault, f"input {name}")
        scope.values[name] = POISON


def _required_nodes(
    graph: onnx.GraphProto, outputs: Sequence[str] | None
) -> tuple[Sequence[onnx.NodeProto], list[str], set[str]]:
    """The nodes that ``outputs`` need, the names of the outputs, and the names that only other nodes read."""
    own = [info.name for info in graph.output]
    producers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    if outputs is None or not all(name in producers or name in own for name in outputs):
        return graph.node, own, set()
    needs = [reads(node) for node in graph.node]
    pending, kept, read = list(outputs), set(), set(outputs)
    while pending:
        index = producers.get(pending.pop())
        if index is not None and index not in kept:
            kept.add(index)
            read |= needs[index]
            pending += needs[index]
    unread = {name for names in needs for name in names} - read
    return [node for index, node in enumerate(graph.node) if index in kept], list(outputs), unread


def _check_names(
    report: Report,
    named: Mapping[str, onnx.ValueInfoProto],
    data: Mapping[str, onnx.ValueInfoProto],
    shapes: Shapes,
    constants: Mapping[str, Any],
) -> None:
    """Reports names in ``shapes`` and ``constants`` that are not inputs, and shapes of inputs with a default
    value.
    """
    for what, given, known in (("shapes", shapes, data), ("constants", constants, named)):
        unknown = [name for name in given if name not in known]
        if unknown:
            inputs = listed([f"{name} {shape_text(info)}" for name, info in data.items()])
            hint = f"{did_you_mean(unknown, known)}the inputs are: {inputs}"
            report.add(Fault(what, f"not an input: {', '.join(map(repr, unknown))}", hint), "the model")


def _bind_constant_sizes(reader: GraphReader, info: onnx.ValueInfoProto, value: Any) -> None:
    """Binds the named sizes of an input to the shape of the constant that replaces it."""
    try:
        sizes = np.shape(value)
    except ValueError:  # a ragged list
        return
    dims = info.type.tensor_type.shape.dim
    for dim, size in zip(dims, sizes, strict=False) if len(dims) == len(sizes) else ():
        if usable_name(dim):
            reader.dims.bind(usable_name(dim), size)


def _bind_sizes(reader: GraphReader, info: onnx.ValueInfoProto, sizes: Sequence[Binding]) -> None:
    """Checks ``sizes`` against the declared ones. A number binds the name of its size wherever the name
    occurs.
    """
    name, declared = text(info.name), info.type.tensor_type
    hint = f"the input is {name} {shape_text(info)}"
    if declared.HasField("shape") and len(declared.shape.dim) != len(sizes):
        raise Fault(
            "shapes", f"{name!r} has rank {len(declared.shape.dim)}, but {len(sizes)} sizes are given", hint
        )
    for size in sizes:
        if not isinstance(size, int | str | None) or isinstance(size, bool):
            raise Fault("shapes", f"{size!r} is not a size of {name!r}", "give a number, a name, or None")
        if isinstance(size, int) and not 0 <= size < 2**31:
            raise Fault("shapes", f"{size} is not a size of {name!r}", hint)
    for dim, size in zip(declared.shape.dim, sizes, strict=False):
        fixed = dim.dim_value if dim.WhichOneof("value") == "dim_value" else 0
        if fixed > 0 and size is not None and size != fixed:
            raise Fault("shapes", f"{name!r} has a fixed size of {fixed}, which cannot become {size}", hint)
        if isinstance(size, int) and usable_name(dim):
            reader.dims.bind(usable_name(dim), size)
