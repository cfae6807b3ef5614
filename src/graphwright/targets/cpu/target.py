"""The CPU targets, one for each ISA."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from graphwright.config import Options
from graphwright.cost.calibration import machine_of
from graphwright.cost.machine import Machine
from graphwright.errors import ToolchainError
from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.refusal import Refusal
from graphwright.ir.symbols import Dim
from graphwright.ir.types import DType
from graphwright.loop_nests.limits import Limits
from graphwright.loop_nests.nest import Nest
from graphwright.records import dataclass
from graphwright.targets.cpu.c.dtypes import has_code
from graphwright.targets.cpu.cache import KernelCache
from graphwright.targets.cpu.emit import emit_file, grid_of, scratch_of
from graphwright.targets.cpu.isa import ISAS, Isa
from graphwright.targets.cpu.limits import LIMITS
from graphwright.targets.cpu.toolchain import Compilers, find_toolchain
from graphwright.targets.registry import register_target


@dataclass(frozen=True)
class CpuTarget:
    """x86-64 with the vectors of ``isa``: kernels are C, compiled to shared objects that the native runtime
    calls.
    """

    isa: Isa
    limits: Limits = LIMITS
    source_suffix: str = ".c"

    @property
    def name(self) -> str:
        return self.isa.name

    @property
    def library(self) -> str:
        return self.isa.name

    @property
    def channel_block(self) -> int:
        return self.isa.lanes

    @property
    def machine(self) -> Machine:
        return self.isa.machine

    def has_code(self, dtype: DType) -> bool:
        return has_code(dtype)

    def node_refusal(self, node: Node) -> Refusal | None:
        """Always None, as C can express every node that has loops."""
        return None

    def region_refusal(self, nodes: Sequence[Node], nest: Nest) -> Refusal | None:
        """Always None, as C can express every loop nest."""
        return None

    def kernel_refusal(self, kernel: Kernel) -> str | None:
        """Always None, as candidates reject unsupported dtypes before."""
        return None

    def grid_of(self, kernel: Kernel) -> Dim:
        return grid_of(kernel)

    def scratch_of(self, kernel: Kernel) -> Dim:
        return scratch_of(kernel)

    def emit(self, kernels: Sequence[tuple[Kernel, str]]) -> str:
        return emit_file(kernels, self.isa)

    def compiler(self, options: Options) -> CpuCompiler:
        return CpuCompiler(self.isa, options)


class CpuCompiler:
    """The C compiler of this machine with the user's cache of compiled kernels."""

    def __init__(self, isa: Isa, options: Options) -> None:
        self._isa, self._options, self._running = isa, options, Compilers()

    @cached_property
    def _cache(self) -> KernelCache:
        return KernelCache(self._options)

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """Shared objects of ``sources``. Without a compiler it returns cached ones, whichever compiler made
        them.

        Raises ToolchainError.
        """
        try:
            toolchain = find_toolchain(self._options)
        except ToolchainError:
            kept = self._cache.kept(sources, self._isa)
            if kept is None:
                raise
            return kept
        return self._cache.compile(sources, self._isa, toolchain, self._running)

    def stop(self) -> None:
        """Stops the running compiler processes."""
        self._running.stop()


TARGETS: Final = {name: CpuTarget(isa) for name, isa in ISAS.items()}


def target_of(options: Options) -> CpuTarget:
    """The target of the option ``isa``, which must not be ``auto``, with the rates of the option
    ``calibration``.
    """
    known, machine = TARGETS[options.isa], machine_of(options.isa, options.calibration)
    return known if machine == known.machine else CpuTarget(known.isa.on(machine))


register_target("cpu", target_of)
register_target("null", target_of)
