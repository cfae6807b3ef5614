"""The kernels that are generated for one model, and the cost of their launches."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from graphwright.cost.loops import kernel_work, work_ns_at
from graphwright.cost.machine import Machine
from graphwright.cost.predict import Work
from graphwright.ir.graph import Value
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.symbols import Dim, substitute
from graphwright.kernels.ref import PLUGIN_PREFIX, KernelRef
from graphwright.loop_nests import RegionKernel
from graphwright.records import dataclass, field, replace
from graphwright.targets.base import Target
from graphwright.targets.cpu.user_code import CSource

GENERATED = "generated"
"""The module name of kernels that are compiled for one model."""

Addition = tuple[dict[Any, Any], Hashable, object]
"""An addition that can be undone: the table, its new key, and the value."""


@dataclass(frozen=True)
class KernelCost:
    """The cost of a launch of a kernel, in terms of the kernel's own sizes."""

    grid: Dim
    scratch: Dim
    work: Work

    def at(self, sizes: Mapping[str, Dim], machine: Machine) -> tuple[Dim, Dim, Dim]:
        """The units of work, bytes of scratch and nanoseconds on one core for ``sizes``."""
        work_ns = work_ns_at(self.work, sizes, machine)
        return substitute(self.grid, sizes), substitute(self.scratch, sizes), work_ns


@dataclass
class GeneratedKernels:
    """The kernels generated for a model; equal kernels are generated once and share a symbol.

    What a candidate adds can be undone if another candidate is chosen.
    """

    names: dict[Kernel, str] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    units: dict[CSource, str] = field(default_factory=dict)
    """The C code of plugins, with the module name of each."""
    functions: dict[CSource, dict[str, None]] = field(default_factory=dict)
    """The functions of the C code that are called."""
    regions: dict[Hashable, tuple[RegionKernel, list[Value]]] = field(default_factory=dict)
    """Kernels of regions and the values of each region, by a key that equal regions share."""
    costs: dict[str, KernelCost] = field(default_factory=dict)
    """The costs of launched kernels, by their final names."""
    _added: list[Addition] = field(default_factory=list)

    def mark(self) -> int:
        """A mark for :meth:`take_back`."""
        return len(self._added)

    def take_back(self, mark: int) -> list[Addition]:
        """Undoes the additions since ``mark``; :meth:`put_back` redoes them, with the same kernel names."""
        taken, self._added[mark:] = self._added[mark:], []
        for table, key, _ in reversed(taken):
            del table[key]
        return taken

    def put_back(self, taken: Iterable[Addition]) -> None:
        """Redoes additions that were undone."""
        for table, key, value in taken:
            self._put(table, key, value)

    def _put(self, table: dict[Any, Any], key: Hashable, value: object) -> None:
        table[key] = value
        self._added.append((table, key, value))

    def add(self, kernel: Kernel, comment: str) -> KernelRef:
        """Adds ``kernel`` under a name made from its own name and a counter."""
        key = replace(kernel, name="")
        if key not in self.names:
            self._put(self.names, key, f"{kernel.name}_{len(self.names)}")
            self._put(self.comments, self.names[key], comment)
        return KernelRef(self.names[key], GENERATED)

    def merge(self, kernel: Kernel, names: Sequence[str]) -> str:
        """Replaces the kernels ``names`` by ``kernel``, which gets the first of these names."""
        replaced = set(names)
        self.names = {known: name for known, name in self.names.items() if name not in replaced}
        self.names[replace(kernel, name="")] = names[0]
        return names[0]

    def add_source(self, source: CSource, function: str) -> KernelRef:
        """Adds a function of a plugin's C code."""
        if source not in self.units:
            names = (f"{PLUGIN_PREFIX}{source.stem}{k or ''}" for k in itertools.count())
            self._put(self.units, source, next(name for name in names if name not in self.units.values()))
            self._put(self.functions, source, {})
        if function not in self.functions[source]:
            self._put(self.functions[source], function, None)
        return KernelRef(function, self.units[source])

    def cost_of(self, ref: KernelRef, kernel: Kernel, target: Target) -> KernelCost:
        """The cost of a launch of ``kernel``, which was added as ``ref``."""
        if ref.symbol not in self.costs:
            work = kernel_work(kernel, target.machine)
            cost = KernelCost(target.grid_of(kernel), target.scratch_of(kernel), work)
            self._put(self.costs, ref.symbol, cost)
        return self.costs[ref.symbol]

    def kernels(self) -> list[tuple[Kernel, str]]:
        """The kernels with their final names, and comments about their origin."""
        return [(replace(kernel, name=name), self.comments[name]) for kernel, name in self.names.items()]
