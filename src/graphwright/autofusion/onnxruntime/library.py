"""Builds the library: kernels of fused regions for each ISA, and the adapter that ONNX Runtime registers."""

from __future__ import annotations

from typing import Final

from graphwright.autofusion.onnxruntime.adapter import ServedRegion, adapter_source, check
from graphwright.autofusion.onnxruntime.kernels import NotServed, RegionLaunch, region_launch
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.ir.graph import Graph, Module
from graphwright.kernels.candidates.generated import GeneratedKernels
from graphwright.records import dataclass, field, replace
from graphwright.targets.cpu.isa import ISAS
from graphwright.targets.cpu.target import TARGETS
from graphwright.targets.cpu.toolchain import (
    BUILD_SCRIPT,
    Unit,
    build_script,
    compile_library,
    find_toolchain,
    library_commands,
)

LEVELS: Final = tuple(ISAS)
"""ISAs of the library, the least first; ``custom_ops.h`` chooses among them by the CPU."""


@dataclass
class Library:
    """The operators of one model. ``refused``: functions without one, and why."""

    options: Options
    served: list[ServedRegion] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    _generated: dict[str, GeneratedKernels] = field(default_factory=dict)
    _symbols: dict[tuple[str, str], str] = field(default_factory=dict)
    """Names of kernels in the library, by ISA and the names that they were generated under."""

    def add(self, name: str, module: Module, region: Graph) -> None:
        """Serve the function ``name``, whose body is ``region`` of ``module``, if one kernel computes it."""
        try:
            launches = {isa: self._launch(isa, module, region) for isa in LEVELS}
        except (NotServed, ModelError) as reason:
            self.refused[name] = str(reason)
            return
        pairs = {
            isa: (each, self._named(isa, each.launch.kernel.symbol, name)) for isa, each in launches.items()
        }
        self.served.append(ServedRegion(name, pairs))

    def units(self) -> dict[str, Unit]:
        """The files of the library: kernels for each ISA, and the adapter."""
        files = {f"kernels_{isa}.c": Unit(self._kernels(isa), ISAS[isa]) for isa in LEVELS}
        return {**files, "adapter.c": Unit(adapter_source(self.served, LEVELS), None)}

    def build(self) -> bytes:
        """The shared object. Raises ToolchainError."""
        return compile_library(self.units(), find_toolchain(self.options))

    def sources(self) -> dict[str, str]:
        """The files that the library is made of, and ``build.sh``, which makes it of them. Raises
        ToolchainError.
        """
        units, toolchain = self.units(), find_toolchain(self.options)
        runs = library_commands(units, toolchain, "library.so")
        commands = [[*toolchain.command, *arguments, "-o", made] for arguments, made in runs]
        return {**{name: unit.source for name, unit in units.items()}, BUILD_SCRIPT: build_script(commands)}

    def _launch(self, isa: str, module: Module, region: Graph) -> RegionLaunch:
        generated = self._generated.setdefault(isa, GeneratedKernels())
        options = replace(self.options, isa=isa)
        found = region_launch(module, region, TARGETS[isa], options, generated)
        check(found)
        return found

    def _named(self, isa: str, kernel: str, function: str) -> str:
        """What a kernel is called: as the first function that it computes."""
        return self._symbols.setdefault((isa, kernel), f"{function}_{isa}")

    def _kernels(self, isa: str) -> str:
        kernels = self._generated.get(isa, GeneratedKernels()).kernels()
        named = [
            (replace(kernel, name=self._symbols[isa, kernel.name]), comment)
            for kernel, comment in kernels
            if (isa, kernel.name) in self._symbols
        ]
        source = TARGETS[isa].emit(named)
        return source.replace('visibility("default")', 'visibility("hidden")')  # the adapter calls them
