"""Fuses an ONNX model and writes it as an ONNX model again: ``autofuse(source) -> Autofused``."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graphwright import plugins
from graphwright.autofusion.graph_counts import GraphCounts, count_graph
from graphwright.autofusion.onnxruntime.build import build_library
from graphwright.autofusion.onnxruntime.likely_sizes import (
    joined_forms,
    likely_form,
    mark_choice,
    without_choice,
)
from graphwright.autofusion.onnxruntime.operator_library import Library
from graphwright.autofusion.onnxruntime.programs import outline_programs
from graphwright.autofusion.regions import fuse_model
from graphwright.autofusion.source_metadata import copy_metadata
from graphwright.autofusion.standalone import Standalone, build_standalone
from graphwright.compiler.interface import input_specs
from graphwright.compiler.pipeline import source_passes
from graphwright.compiler.run_passes import run_passes
from graphwright.config import Options
from graphwright.cost.machine import Machine
from graphwright.cost.nominal import nominal
from graphwright.errors import Diagnostic, ModelError
from graphwright.executable.specs import TensorSpec
from graphwright.export.onnx import FUNCTION_DOMAIN, OnnxModel, write_model
from graphwright.export.onnx.functions import all_nodes
from graphwright.frontends.onnx import Opened, load, open_model
from graphwright.frontends.onnx.opsets import opset_versions
from graphwright.frontends.onnx.read import Source
from graphwright.ir.builtin.foreign import Foreign
from graphwright.ir.builtin.fused import region_of
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.nesting import regions_of
from graphwright.ir.symbols import names_in, symbol
from graphwright.kernels.candidates.registry import load as load_candidates
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.records import dataclass, field, replace
from graphwright.runtime.devices.this_cpu import for_this_cpu
from graphwright.support.escaping import terminal
from graphwright.support.file_kinds import FileId
from graphwright.support.gc_pause import gc_paused
from graphwright.targets.base import Target
from graphwright.targets.registry import target_of

METADATA: Final = "graphwright.fused"
"""The metadata key of models that were fused by graphwright."""
DUPLICATE: Final = "GW_ERROR_DUPLICATE_FUSION"


@dataclass(frozen=True)
class Request:
    """What :func:`autofuse` writes, and whether it accepts a model that was fused before."""

    inline: bool = False
    """Put the nodes of fused regions in the graph, grouped, instead of functions."""
    redo: bool = False
    """Undo an earlier fusion of the model, and fuse it again."""
    library: bool = False
    """Also make functions of the largest parts that one program can compute, and compile these to operators
    for ONNX Runtime.
    """
    unserved: Mapping[str, str] = field(default_factory=dict)
    """The functions for which the library gets no operator, with the reason for each."""
    standalone: bool = False
    """Compile the model to a library that runs all of it."""
    version: str = ""
    """The version of graphwright, which the model names as the version of its producer."""


@dataclass(frozen=True)
class Summary:
    """What fusion found in a model, and what it saves."""

    operators: Counter[str]
    """How often each op occurs in the simplified model."""
    foreign: Counter[str]
    """The ops that stay unchanged in the model because engines may have kernels for them, and how often each
    occurs.
    """
    candidates: int
    """The number of merges that were considered."""
    merges: int
    """The number of them that were made."""
    regions: int
    """The number of fused operators."""
    fused_nodes: int
    """The number of nodes in them."""
    before: GraphCounts
    after: GraphCounts
    benefit_ms: float
    """An upper bound of the time that a run saves: from bytes at the rate of the memory, and from launches,
    both as in :mod:`graphwright.cost.machine`.
    """
    assumed_sizes: Sequence[str]
    """The values of dynamic dimensions for these estimates, as in ``N=64``."""


@dataclass(frozen=True)
class Autofused:
    """The fused model and the libraries that were requested."""

    model: OnnxModel
    inputs: Sequence[TensorSpec]
    """The inputs of the model."""
    summary: Summary
    operator_library: Library | None
    """The operators for ONNX Runtime, if they were requested."""
    standalone: Standalone | None
    """The library that runs the whole model by itself, if it was requested."""
    read: frozenset[FileId]
    """The files of the source model, including those of its weights."""


@gc_paused()
def autofuse(source: Source, request: Request | None = None, options: Options | None = None) -> Autofused:
    """Simplifies and fuses the model ``source``, and writes it as ONNX again, by default without libraries.

    Raises ModelError, with the code ``GW_ERROR_DUPLICATE_FUSION`` for a model that was fused before unless
    ``request.redo``; OptionError, PluginError, ToolchainError.
    """
    request, wanted = request or Request(), options or Options.from_environment()
    options = for_this_cpu(wanted)
    plugins.use(options)
    load_candidates()
    target = target_of(options)
    opened = _open(source, options, request.redo)
    standalone = build_standalone(opened, wanted) if request.standalone else None
    module = _load(opened)
    with regions_of(module):
        passes = source_passes(options, _is_quantized)
        run_passes(module, passes, options)
        likely = likely_form(module, passes, options.verify) if request.library else None
        summary = _fuse(module, target, options)
        if likely is not None:
            fuse_model(likely, target, options)
        write = functools.partial(
            write_model,
            metadata=_metadata(summary),
            version=request.version,
            inline=request.inline,
            source_opset=_opset(opened),
        )
        if request.library:
            model, library = _with_library(module, likely, write, wanted, request.unserved)
        else:
            model, library = write(module), None
        copy_metadata(opened.model, model.proto)
    return Autofused(model, input_specs(module), summary, library, standalone, frozenset(opened.files.read))


def _open(source: Source, options: Options, redo: bool) -> Opened:
    """The source model, without what an earlier fusion added if ``redo``. Raises ModelError."""
    opened = open_model(source, options.external_data)
    _refuse_fused(opened, redo)
    return replace(opened, model=without_choice(opened.model)) if redo else opened


def _opset(opened: Opened) -> int:
    """The opset of the default domain that the source model imports."""
    return opset_versions((each.domain, each.version) for each in opened.model.opset_import).get("", 1)


def _load(opened: Opened) -> Module:
    """The module of a model, in which foreign nodes stay. Engines may run it on any sizes."""
    module = load(opened, keep_foreign=True)
    module.metadata.pop(METADATA, None)
    module.symbols.assume_nothing()
    return module


def _fuse(module: Module, target: Target, options: Options) -> Summary:
    """Replaces the regions of ``module`` that ``target`` can fuse by Fused nodes. Raises ModelError."""
    before, operators = count_graph(module), _operators(module)
    fusion = fuse_model(module, target, options)
    after = count_graph(module)
    return Summary(
        operators=operators,
        foreign=Counter(node.op.source_name for node in module.walk() if isinstance(node.op, Foreign)),
        candidates=fusion.considered,
        merges=fusion.merged,
        regions=len(fusion.regions),
        fused_nodes=sum(_nodes_in(region_of(node)) for node in fusion.regions),
        before=before,
        after=after,
        benefit_ms=_benefit_ms(before, after, target.machine),
        assumed_sizes=[f"{name}={nominal(symbol(name), module.symbols)}" for name in _symbols(module)],
    )


def _metadata(summary: Summary) -> dict[str, str]:
    """The metadata of a fused model, by which a second fusion recognizes it."""
    if not summary.fused_nodes:
        return {}
    return {METADATA: json.dumps({"regions": summary.regions, "nodes": summary.fused_nodes})}


def _with_library(
    module: Module,
    likely: Module | None,
    write: Callable[[Module], OnnxModel],
    options: Options,
    unserved: Mapping[str, str],
) -> tuple[OnnxModel, Library]:
    """The model in which each part of ``module`` that a program can run is a function, and the library with
    these programs. If one program can run the whole model on ``likely`` sizes, the model contains both forms.
    Raises ModelError, ToolchainError.
    """
    if likely is not None:
        model, library = _with_programs(joined_forms(module, likely), write, options, unserved)
        if library.whole:
            mark_choice(model.proto)
            return model, replace(library, likely_sizes=list(map(str, likely.symbols.guards)))
    return _with_programs(module, write, options, unserved)


def _with_programs(
    module: Module, write: Callable[[Module], OnnxModel], options: Options, unserved: Mapping[str, str]
) -> tuple[OnnxModel, Library]:
    """The model whose programs are functions, and their library. If a program cannot be compiled, foreign
    nodes may be the reason: they then stay outside of all programs.
    """
    spare = clone_module(module) if any(map(_is_native, module.walk())) else None
    programs = outline_programs(module)
    model = write(module)
    library = build_library(module, model, programs, options, unserved)
    if spare is None or library.refused.keys() <= unserved.keys():
        return model, library
    for node in spare.walk():
        if isinstance(node.op, Foreign):
            node.op = replace(node.op, is_native=False)
    return _with_programs(spare, write, options, unserved)


def _is_native(node: Node) -> bool:
    return isinstance(node.op, Foreign) and node.op.is_native


def _is_quantized(node: Node) -> bool:
    """Whether a node dequantizes integers: engines expect such nodes directly before the ops that read
    them.
    """
    return isinstance(node.op, DequantizeLinear)


def _refuse_fused(opened: Opened, redo: bool) -> None:
    """Raises ModelError for a model that graphwright has fused already, unless ``redo`` can undo this."""
    model, where = opened.model, terminal(str(opened.files.path or ""))
    bodies = {each.name for each in model.functions if each.domain == FUNCTION_DOMAIN}
    calls = {node.op_type for node in all_nodes(model.graph.node) if node.domain == FUNCTION_DOMAIN}
    if not calls <= bodies:
        message = "only the library of this fused model has its nodes and weights"
        raise ModelError(Diagnostic(DUPLICATE, message, where, "give the original model"))
    if not redo and (bodies or METADATA in {entry.key for entry in model.metadata_props}):
        hint = "give the original model, or --redo, which inlines its functions and fuses it again"
        raise ModelError(Diagnostic(DUPLICATE, "the model was fused by graphwright already", where, hint))


def _benefit_ms(before: GraphCounts, after: GraphCounts, machine: Machine) -> float:
    moved = (before.activation_bytes - after.activation_bytes) / machine.memory.moved
    return float(moved + (before.launches - after.launches) * machine.task_ns) / 1e6


def _symbols(module: Module) -> list[str]:
    """The symbolic sizes of inputs."""
    dims = [dim for value in module.main.inputs for dim in value.type.shape or ()]
    return list(dict.fromkeys(name for dim in dims for name in sorted(names_in(dim))))


def _operators(module: Module) -> Counter[str]:
    return Counter(node.op.source_name for node in module.walk() if not node.is_constant)


def _nodes_in(region: Graph) -> int:
    return sum(not node.is_constant for node in region)
