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
from graphwright.targets.cpu.toolchain import Unit, compile_library, find_toolchain

LEVELS: Final = tuple(ISAS)
"""ISAs of the library, the least first; ``custom_ops.h`` chooses among them by the CPU."""


@dataclass
class Library:
    """The operators of one model. ``refused``: functions without one, and why."""

    options: Options
    served: list[ServedRegion] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    _generated: dict[str, GeneratedKernels] = field(default_factory=dict)

    def add(self, name: str, module: Module, region: Graph) -> None:
        """Serve the function ``name``, whose body is ``region`` of ``module``, if one kernel computes it."""
        try:
            launches = {isa: self._launch(isa, module, region) for isa in LEVELS}
        except (NotServed, ModelError) as reason:
            self.refused[name] = str(reason)
            return
        symbols = {isa: _symbol(launch.launch.kernel.symbol, isa) for isa, launch in launches.items()}
        pairs = {isa: (launch, symbols[isa]) for isa, launch in launches.items()}
        self.served.append(ServedRegion(name, pairs))

    def sources(self) -> dict[str, str]:
        """The files of the library: kernels for each ISA, and the adapter."""
        files = {f"kernels_{isa}.c": self._kernels(isa) for isa in LEVELS}
        return {**files, "adapter.c": adapter_source(self.served, LEVELS)}

    def build(self) -> bytes:
        """The shared object. Raises ToolchainError."""
        sources = self.sources()
        units = [Unit(sources[f"kernels_{isa}.c"], ISAS[isa]) for isa in LEVELS]
        return compile_library([*units, Unit(sources["adapter.c"], None)], find_toolchain(self.options))

    def _launch(self, isa: str, module: Module, region: Graph) -> RegionLaunch:
        generated = self._generated.setdefault(isa, GeneratedKernels())
        options = replace(self.options, isa=isa)
        found = region_launch(module, region, TARGETS[isa], options, generated)
        check(found)
        return found

    def _kernels(self, isa: str) -> str:
        wanted = {region.launches[isa][1] for region in self.served}
        kernels = self._generated.get(isa, GeneratedKernels()).kernels()
        named = [(replace(kernel, name=_symbol(kernel.name, isa)), comment) for kernel, comment in kernels]
        source = TARGETS[isa].emit([each for each in named if each[0].name in wanted])
        return source.replace('visibility("default")', 'visibility("hidden")')  # the adapter calls them


def _symbol(kernel: str, isa: str) -> str:
    return f"{kernel}_{isa}"
