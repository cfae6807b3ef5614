"""Fuses an ONNX model and writes it as an ONNX model again: ``autofuse(source) -> Autofused``."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graphwright import plugins
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
from graphwright.autofusion.traffic import Traffic, traffic
from graphwright.compiler.pipeline import source_passes
from graphwright.compiler.run_passes import run_passes
from graphwright.compiler.specs import input_specs
from graphwright.config import Options
from graphwright.cost.machine import Machine
from graphwright.cost.nominal import nominal
from graphwright.errors import Diagnostic, ModelError
from graphwright.executable.specs import TensorSpec
from graphwright.export.onnx import FUNCTION_DOMAIN, OnnxModel, write_model
from graphwright.frontends.onnx import Opened, load, open_model
from graphwright.frontends.onnx.read import Source
from graphwright.ir.foreign import Foreign
from graphwright.ir.fused import region_of
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.nesting import regions_of
from graphwright.ir.symbols import names_in, symbol
from graphwright.kernels.candidates.registry import load as load_candidates
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.records import dataclass, field, replace
from graphwright.runtime.devices.target import for_this_cpu
from graphwright.support.file_kinds import FileId
from graphwright.support.gc_pause import gc_paused
from graphwright.targets.registry import target_of

METADATA: Final = "graphwright.fused"
"""The metadata key of models that were fused by graphwright."""
DUPLICATE: Final = "GW_ERROR_DUPLICATE_FUSION"


@dataclass(frozen=True)
class Autofused:
    """The fused model, and what fusion found and did."""

    model: OnnxModel
    inputs: Sequence[TensorSpec]
    """The inputs of the model."""
    operators: Counter[str]
    """How often each op occurs in the simplified model."""
    foreign: Counter[str]
    """How often each op occurs that graphwright does not know, and keeps."""
    candidates: int
    """The number of merges that were considered."""
    merges: int
    """The number of them that were made."""
    regions: int
    """The number of fused operators."""
    fused_nodes: int
    """The number of nodes in them."""
    before: Traffic
    after: Traffic
    benefit_ms: float
    """An upper bound of the time that a run saves: from bytes at the rate of the memory, and from launches,
    both as in :mod:`graphwright.cost.machine`.
    """
    assumed_sizes: Sequence[str]
    """The values of dynamic dimensions for these estimates, as in ``N=64``."""
    operator_library: Library | None
    """The operators for ONNX Runtime, if they were requested."""
    outside: Mapping[str, str]
    """The ops that no operator of this library contains, with the reason for each."""
    likely_sizes: Sequence[str]
    """The conditions on sizes under which one program runs the whole model; for other sizes, several programs
    run it.
    """
    standalone: Standalone | None
    """The library that runs the whole model by itself, if it was requested."""
    read: frozenset[FileId]
    """The files of the source model, including those of its weights."""


@gc_paused()
def autofuse(
    source: Source,
    *,
    options: Options | None = None,
    inline: bool = False,
    redo: bool = False,
    library: bool = False,
    standalone: bool = False,
    left: Mapping[str, str] | None = None,
    version: str = "",
) -> Autofused:
    """Simplifies and fuses the model ``source``, and writes it as ONNX again.

    ``inline`` puts the nodes of fused regions in the graph, grouped, instead of functions. ``redo`` undoes an
    earlier fusion of the model, and fuses it again. With ``library``, the largest parts that one program
    computes are functions as well, and compiled to operators for ONNX Runtime
    (:class:`~graphwright.autofusion.onnxruntime.operator_library.Library`), but for the functions ``left``,
    which says why. With ``standalone``, the model is also compiled to a library that runs all of it
    (:class:`~graphwright.autofusion.standalone.Standalone`). Raises ModelError, with the code
    ``GW_ERROR_DUPLICATE_FUSION`` for such a model without ``redo``; OptionError, PluginError, ToolchainError.
    """
    wanted = options or Options.from_environment()
    options = for_this_cpu(wanted)
    plugins.use(options)
    load_candidates()
    target = target_of(options)
    opened = _open(source, options, redo)
    alone = build_standalone(opened, wanted) if standalone else None
    module = _load(opened)
    with regions_of(module):
        passes = source_passes(options, _is_quantized)
        run_passes(module, passes, options)
        before, operators = traffic(module), _operators(module)
        likely = likely_form(module, passes, options.verify) if library else None
        fusion = fuse_model(module, target, options)
        if likely is not None:
            fuse_model(likely, target, options)
        after, nodes = traffic(module), sum(_nodes_in(region_of(node)) for node in fusion.regions)
        noted = {METADATA: json.dumps({"regions": len(fusion.regions), "nodes": nodes})} if nodes else {}
        write = functools.partial(write_model, metadata=noted, version=version, inline=inline)
        if library:
            written = _with_library(module, likely, write, wanted, left or {})
        else:
            written = _Written(write(module))
        copy_metadata(opened.model, written.model.proto)
    return Autofused(
        model=written.model,
        inputs=input_specs(module),
        operators=operators,
        foreign=Counter(node.op.source_name for node in module.walk() if isinstance(node.op, Foreign)),
        candidates=fusion.considered,
        merges=fusion.merged,
        regions=len(fusion.regions),
        fused_nodes=nodes,
        before=before,
        after=after,
        benefit_ms=_benefit_ms(before, after, target.machine),
        assumed_sizes=[f"{name}={nominal(symbol(name), module.symbols)}" for name in _symbols(module)],
        operator_library=written.library,
        outside=written.outside,
        likely_sizes=written.likely_sizes,
        standalone=alone,
        read=frozenset(opened.files.read),
    )


def _open(source: Source, options: Options, redo: bool) -> Opened:
    """The source model, without what an earlier fusion added if ``redo``. Raises ModelError."""
    opened = open_model(source, options.external_data)
    if redo:
        return replace(opened, model=without_choice(opened.model))
    _refuse_fused(opened)
    return opened


def _load(opened: Opened) -> Module:
    """The module of a model, with ops that are unknown here. Engines may run it on any sizes."""
    module = load(opened, keep_foreign=True)
    module.metadata.pop(METADATA, None)
    module.symbols.assume_nothing()
    return module


@dataclass(frozen=True)
class _Written:
    """A fused model and its library: some fields of :class:`Autofused`."""

    model: OnnxModel
    library: Library | None = None
    outside: Mapping[str, str] = field(default_factory=dict)
    likely_sizes: Sequence[str] = field(default_factory=list)


def _with_library(
    module: Module,
    likely: Module | None,
    write: Callable[[Module], OnnxModel],
    options: Options,
    left: Mapping[str, str],
) -> _Written:
    """Makes programs of ``module`` functions, and compiles them. If one program can run the whole model on
    ``likely`` sizes, the model contains both forms. Raises ModelError, ToolchainError.
    """
    if likely is not None:
        model, library, outside = _with_programs(joined_forms(module, likely), write, options, left)
        if library.whole:
            mark_choice(model.proto)
            return _Written(model, library, outside, list(map(str, likely.symbols.guards)))
    return _Written(*_with_programs(module, write, options, left))


def _with_programs(
    module: Module, write: Callable[[Module], OnnxModel], options: Options, left: Mapping[str, str]
) -> tuple[OnnxModel, Library, Mapping[str, str]]:
    """The model whose programs are functions, their library, and the ops outside of them with the reasons."""
    programs = outline_programs(module)
    model = write(module)
    library = build_library(module, model, programs.nodes, options, left)
    return model, library, {node.op.source_name: why for node, why in programs.outside.items()}


def _is_quantized(node: Node) -> bool:
    """Whether a node dequantizes integers: engines expect such nodes directly before the ops that read
    them.
    """
    return isinstance(node.op, DequantizeLinear)


def _refuse_fused(opened: Opened) -> None:
    """Raises ModelError for a model that graphwright has fused already."""
    keys = {entry.key for entry in opened.model.metadata_props}
    domains = {function.domain for function in opened.model.functions}
    if METADATA in keys or FUNCTION_DOMAIN in domains:
        hint = "give the original model, or --redo, which inlines its functions and fuses it again"
        raise ModelError(Diagnostic(DUPLICATE, "the model was fused by graphwright already", hint=hint))


def _benefit_ms(before: Traffic, after: Traffic, machine: Machine) -> float:
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
