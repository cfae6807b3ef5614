"""Programs compiled for one ISA: their tasks, kernels and shared weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from graphwright.compiler.code_generation import CodeGeneration
from graphwright.compiler.partition import partition
from graphwright.compiler.pipeline import graph_passes, shape_passes
from graphwright.compiler.run_passes import run_passes
from graphwright.compiler.unit import Unit, run_kernel_passes
from graphwright.config import Options
from graphwright.executable.target_code import TargetCode
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.package.weights import Weights
from graphwright.passes.base import Record
from graphwright.records import dataclass, replace

LIBRARY = "library"
"""The name of the shared object with the precompiled kernels of graphwright."""


class NotServed(Exception):
    """The library has no operator for a part of the model; the message says why."""


@dataclass(frozen=True)
class CompiledPrograms:
    """Compiled programs. ``programs`` has the code of each, in order; all have the same shared objects."""

    isa: str
    programs: Sequence[TargetCode]
    weights: Weights

    @property
    def objects(self) -> Mapping[str, bytes]:
        """The shared objects of generated kernels."""
        return self.programs[0].objects if self.programs else {}

    @property
    def sources(self) -> Mapping[str, str]:
        """The C sources of generated kernels, by file name."""
        return self.programs[0].sources if self.programs else {}

    def kernels(self, number: int) -> list[tuple[str, str]]:
        """The symbol of each kernel of a program, and the shared object that exports it."""
        found = self.programs[number].stored.kernels
        return [(symbol, self._object(symbol, module)) for symbol, module in found]

    def _object(self, symbol: str, module: str) -> str:
        if not module:
            return LIBRARY
        if module in self.objects:
            return module
        return next(name for name in self.objects if f" {symbol}(" in self.sources[f"{name}.c"])


def prepare(module: Module, isas: Sequence[str], options: Options) -> dict[str, Unit]:
    """Runs all passes on ``module``, and on a copy for each ISA those that depend on it. Raises NotServed,
    ModelError.
    """
    run_passes(module, shape_passes(module, options), options)
    if module.symbols.undecided:
        raise NotServed("what its operators compute depends on dynamic sizes")
    module.symbols.assume_of(None)
    module.symbols.demands_all = True  # only constraints that a decomposition adds
    records = run_passes(module, graph_passes(options), options)
    return {isa: _prepare_for(isa, clone_module(module), records, options) for isa in isas}


def _prepare_for(isa: str, module: Module, records: Sequence[Record], options: Options) -> Unit:
    unit = run_kernel_passes(Unit(module, records), replace(options, isa=isa))
    if not partition(module.main).is_whole:
        raise NotServed("it needs several programs")
    return unit


def compile_programs(prepared: Mapping[str, Sequence[Unit]], options: Options) -> list[CompiledPrograms]:
    """The programs for each ISA. The C compiler works for all ISAs at the same time. Raises ModelError,
    ToolchainError.
    """
    started: dict[str, CodeGeneration] = {}
    compiled = []
    with ExitStack() as stack:
        for isa, each in prepared.items():
            started[isa] = code = CodeGeneration(each, replace(options, isa=isa))
            stack.push(code)  # before the start: an interrupt between the two would leave the compiler alone
            code.start()
        for isa, code in started.items():
            results = code.finish()
            programs = [each.program.targets[isa] for each in results]
            compiled.append(CompiledPrograms(isa, programs, results[-1].weights))
    return compiled
