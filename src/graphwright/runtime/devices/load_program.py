"""Loads the code of a target into the native runtime: resolves kernels by name, and passes weights
and tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import Program
from graphwright.executable.target_code import TargetCode
from graphwright.package.weights import Weights
from graphwright.records import dataclass, field
from graphwright.runtime.crashes.brief_sites import brief_sites
from graphwright.runtime.devices.kernel_library import kernel_library, library_digest
from graphwright.runtime.devices.this_cpu import LEVELS, target_isa


def best_target(targets: Mapping[str, TargetCode], options: Options) -> TargetCode | None:
    """The target of the highest ISA that this CPU supports, if it was compiled for the installed kernel
    library; with the option ``isa``, only that ISA is considered.
    """
    newest = target_isa(options)
    usable = LEVELS[: LEVELS.index(newest) + 1] if options.isa == "auto" else (newest,)
    held = (targets[isa] for isa in reversed(usable) if isa in targets)
    return next((target for target in held if target.library == library_digest(target.name)), None)


@dataclass
class Shared:
    """Arenas and loaded libraries, which the programs of a model share, as usually one of them runs at a
    time.
    """

    plans: int = Options.plan_cache
    """The most plans that each program caches."""
    arenas: _native.Arenas = field(default_factory=_native.Arenas)
    libraries: dict[bytes, _native.Library] = field(default_factory=dict)
    """Loaded shared objects by content."""
    crash_label: str | None = None
    """The name of the model in reports of crashes in its kernels; None if crashes are not reported."""
    crash_details: bool = False
    """Whether these reports have loops and operands as well, for which the tasks are decoded at load."""

    def library(self, data: bytes) -> _native.Library:
        """Loads a shared object, once for each content."""
        if data not in self.libraries:
            self.libraries[data] = _native.load_library(data)
        return self.libraries[data]


_PLUGIN_PREFIX: Final = "plugin_"
"""``kernels.ref.PLUGIN_PREFIX``, which running a package does not import."""


def load_program(program: Program, target: TargetCode, weights: Weights, shared: Shared) -> _native.Program:
    """Loads the tasks of ``target``. Raises PackageError if a kernel is missing or the tasks are
    malformed.
    """
    try:
        return _load(program, target, weights, shared)
    except (_native.ProgramError, _native.LoadError, OverflowError, ValueError) as error:
        raise PackageError(
            Diagnostic(
                "bad-program", f"the tasks or kernels are malformed: {error}", hint="compile the model again"
            )
        ) from error


def _load(program: Program, target: TargetCode, weights: Weights, shared: Shared) -> _native.Program:
    loaded = _linked(program, target, weights, shared)
    loaded.about = target
    if shared.crash_label is not None:
        loaded.watch_crashes(_sites(program, target, shared.crash_label, shared.crash_details))
    if loaded.states != sorted(program.states):
        declared = sorted(program.states)
        raise ValueError(f"the tasks update the inputs {loaded.states}, but the program declares {declared}")
    return loaded


def _linked(program: Program, target: TargetCode, weights: Weights, shared: Shared) -> _native.Program:
    libraries = {name: shared.library(data) for name, data in target.objects.items()}
    library = kernel_library(target.name)
    return _native.Program(
        target.stored.words,
        weights.data,
        [_address(symbol, module, library, libraries) for symbol, module in target.stored.kernels],
        hosts=_hosts(target),
        plan_cache=shared.plans,
        dtypes=lambda: [spec.dtype.numpy for spec in program.outputs],
        libraries=[library, *libraries.values()],
        arenas=shared.arenas,
        extents=[_extent(symbol, module, library, libraries) for symbol, module in target.stored.kernels],
    )


def _hosts(target: TargetCode) -> list[_native.HostFunction]:
    """The functions that run in Python."""
    if not target.stored.hosts:
        return []
    from graphwright.runtime.host_program.host_call import host_callable  # imports all ops

    return [host_callable(host) for host in target.stored.hosts]


def _sites(program: Program, target: TargetCode, label: str, has_details: bool) -> list[str]:
    """The crash report of each task."""
    if not has_details:
        return brief_sites(target, label)
    from graphwright.runtime.crashes.sites import crash_sites  # decodes the tasks, which a run does not need

    return crash_sites(program, target, label)


def _extent(
    symbol: str, module: str, library: _native.Library, generated: Mapping[str, _native.Library]
) -> int:
    """The address of the function that computes the memory extent of a kernel's accesses; 0 if a kernel of a
    plugin has none.
    """
    try:
        return _address(f"{symbol}_extent", module, library, generated)
    except PackageError:
        if module.startswith(_PLUGIN_PREFIX):
            return 0
        raise


def _address(
    symbol: str, module: str, library: _native.Library, generated: Mapping[str, _native.Library]
) -> int:
    own = (generated[module],) if module in generated else generated.values()
    for source in own if module else (library,):
        try:
            return source.symbol(symbol)
        except KeyError:
            continue
    raise PackageError(
        Diagnostic(
            "missing-kernel",
            f"the package needs kernel {symbol!r}, which neither it nor the kernel library contains",
            hint="compile the model again with this version",
        )
    )
