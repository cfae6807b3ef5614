"""The model to debug: its observed compilation, and the feeds of a run that shows the fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

import graphwright as gw
from graphwright import ops
from graphwright.compiler.interface import input_specs
from graphwright.compiler.recompile import source_module
from graphwright.config import Options
from graphwright.executable.nodes import Dispatch, Program
from graphwright.export.onnx import write_model
from graphwright.frontends.onnx import load as load_onnx
from graphwright.ir.graph import Module
from graphwright.ir.op import Array
from graphwright.passes.buckets import has_buckets, selected_module
from graphwright.records import dataclass, replace
from graphwright.runtime.feeds.bindings import Bindings
from graphwright.runtime.model import Model
from graphwright.support.file_kinds import ONNX, kind_of_file
from graphwright.tools.arguments import Sizes, parse_constants
from graphwright.tools.check import all_feeds
from graphwright.tools.debugging.history import History
from graphwright.tools.debugging.programs import DebuggedProgram, programs_in_run
from graphwright.tools.debugging.submodel import Divisible, read_onnx, values_of
from graphwright.tools.feeds import make_feeds, shapes_of
from graphwright.tools.models import is_package
from graphwright.tools.run_flags import RunFlags


@dataclass(frozen=True)
class Subject:
    """A compiled model, the history of its compilation, and a run: the feeds, all its input ``arrays``
    including states, and the programs that it calls.
    """

    model: Model
    history: History
    feeds: Mapping[str, Any]
    arrays: Sequence[Array]
    programs: Sequence[DebuggedProgram]

    @property
    def source(self) -> Module:
        """The imported module."""
        return self.history.whole[0].module

    def outputs(self) -> list[Array]:
        """The outputs of a normal run, on the threads of the options; states are not changed."""
        arrays = [array.copy() if hasattr(array, "copy") else array for array in self.arrays]
        return self.model.executor.run(arrays, None, self.model.threads)

    def poisoned_outputs(self) -> list[Array]:
        """As :meth:`outputs`, but for a model of one program, memory that no task writes contains NaN."""
        if isinstance(self.model.entry.executable, Program):
            return self.programs[0].run.outputs()
        return self.outputs()


def open_subject(
    path: Path,
    options: Options,
    given: Sequence[str] | None = None,
    shapes: Sizes | None = None,
    constants: Sequence[str] | None = None,
    seed: int = 0,
    feeds: Mapping[str, Any] | None = None,
) -> Subject:
    """The model in a file, compiled for ``shapes``. A model that chooses programs by shape is compiled for
    the shapes of the feeds, so that it has one program. The feeds are ``feeds``, or else those ``given`` and
    random arrays for other inputs. The graph of a package is compiled again. Raises what ``compile`` raises,
    and EvaluationError.
    """
    options = replace(options, tune=0, targets=(), specialize="none", streams=1)
    source = source_of(path, options)
    fixed = parse_constants(list(constants or ()))
    buckets = isinstance(source, Module) and has_buckets(source)
    model, history = _compiled(source, options, {} if buckets else shapes or {}, fixed)
    feeds = make_feeds(model.inputs, given, shapes or {}, seed) if feeds is None else feeds
    if isinstance(model.entry.executable, Dispatch):
        sizes = shapes_of(feeds)
        source = selected_module(source, sizes) if isinstance(source, Module) else source
        model, history = _compiled(source, options, sizes, fixed)
    arrays = _arrays(model, feeds)
    return Subject(model, history, feeds, arrays, programs_in_run(model.package, history, arrays))


def requested_subject(path: Path, options: Options, flags: RunFlags) -> Subject:
    """The model in a file, compiled and run as the flags of a command say. Raises the exceptions of
    :func:`open_subject`.
    """
    return open_subject(path, options, flags.input, flags.sizes, flags.const, flags.seed)


def _arrays(model: Model, feeds: Mapping[str, Any]) -> list[Array]:
    """The inputs of a run in order, including states."""
    entry = model.entry
    fed = Bindings(entry.feeds, entry.outputs).named(feeds)
    named = dict(zip((spec.name for spec in entry.feeds), fed, strict=True))
    return [named[s.name] if s.name in named else model.states[s.name] for s in entry.inputs]


def source_of(path: Path, options: Options) -> str | Module:
    """The source for ``compile``: the graph of a package, or the file of another model."""
    if not is_package(path):
        return str(path)
    ops.load()
    return source_module(gw.load(path, options=options).package)


def divisible(path: Path, subject: Subject, constants: Sequence[str] | None) -> Divisible:
    """The model in a file as an ONNX model to reduce, with the values of the run. Raises ModelError if
    another kind of model cannot be written as ONNX.
    """
    values = values_of(subject.source, subject.arrays)
    if kind_of_file(path) is not ONNX:
        return Divisible(write_model(subject.source).with_weights(), values)
    proto = read_onnx(path)
    fixed = parse_constants(list(constants or ()))
    return Divisible(proto, {**values, **(all_feeds(load_onnx(proto), {}, fixed) if fixed else {})})


def random_feeds(
    proto: onnx.ModelProto, given: Sequence[str] | None, shapes: Sizes, seed: int
) -> dict[str, Any]:
    """Feeds for an ONNX model: those of ``given``, and random ones for the rest. Raises ModelError,
    FeedError.
    """
    ops.load()
    return make_feeds(input_specs(load_onnx(proto)), given, shapes, seed)


def evaluated(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Array]:
    """The values of a run of an ONNX model in f64, by name. Raises ModelError, FeedError, and the exceptions
    of references.
    """
    ops.load()
    module = load_onnx(proto)
    return values_of(module, Bindings(input_specs(module), ()).named(feeds))


def _compiled(
    source: str | Module, options: Options, shapes: Mapping[str, Any], constants: Mapping[str, Any]
) -> tuple[Model, History]:
    history = History()
    model = gw.compile(source, shapes=shapes, constants=constants, options=options, observe=history)
    return model, history
