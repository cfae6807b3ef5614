"""Loads the code of a target into the native runtime: resolves kernels by name, and passes weights
and tasks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import Diagnostic, PackageError, ToolchainError
from graphwright.executable.nodes import Program
from graphwright.executable.target_code import TargetCode
from graphwright.log import warn_once
from graphwright.option_files.rate_files import resolved
from graphwright.option_values import DEVICES
from graphwright.package.weights import Weights
from graphwright.records import dataclass, field, replace
from graphwright.runtime.crashes.brief_sites import brief_sites
from graphwright.support.source_record import changed_sources

LIBRARY_FOLDER = Path(_native.__file__).parent / "runtime" / "native"
LEVELS = ("baseline", "v3", "v4")
"""Microarchitecture levels of x86-64; each includes the instructions of those before it."""


def target_isa(options: Options) -> str:
    """The ISA whose kernels run. Raises ToolchainError on a CPU that lacks the instructions they need."""
    here = _native.isa()
    name = here if options.isa == "auto" else options.isa
    if name == "baseline":
        raise ToolchainError(
            Diagnostic("cpu", "this CPU has no AVX2 and FMA (x86-64-v3), which all kernels need")
        )
    if LEVELS.index(name) > LEVELS.index(here) and name not in options.targets:
        what = f"isa={name} needs another CPU: this one is x86-64-{here}"
        hint = f"to compile for both, set targets={name},{here}"
        raise ToolchainError(Diagnostic("cpu", what, hint=hint))
    return name


def for_this_cpu(options: Options) -> Options:
    """``options`` with the ISA of the kernels and the rates of the cost model filled in; unchanged if the
    device is not a CPU. Raises ToolchainError.
    """
    if options.device not in DEVICES:
        return options
    rates = resolved(options.calibration, options.calibration_file)
    return replace(options, isa=target_isa(options), calibration=rates)


def usable_isas() -> tuple[str, ...]:
    """The ISAs that this CPU supports and that have kernels, lowest level first."""
    return LEVELS[1 : LEVELS.index(_native.isa()) + 1]


def multiplies_bf16(options: Options) -> bool:
    """Whether the target CPU has bf16 dot-product instructions: this CPU if it is the target; a CPU of a
    higher level is assumed to have them.
    """
    return options.isa == "v4" and (_native.has_bf16() or _native.isa() != "v4")


def convolves_bf16(options: Options) -> bool:
    """Whether convolutions are faster in bf16 than in f32 on the target CPU (see :func:`multiplies_bf16`).
    Those of matrices can use AMX, those of images have only AVX512-BF16.
    """
    return multiplies_bf16(options) and (_native.has_fast_bf16() or _native.isa() != "v4")


@cache
def kernel_library(isa: str) -> _native.Library:
    """The library of precompiled kernels that is part of this installation."""
    path = LIBRARY_FOLDER / f"libgraphwright_kernels_{isa}.so"
    library = _native.open_library(str(path))
    with contextlib.suppress(KeyError):  # only an editable build has a record
        _warn_if_outdated(path, library.text("gw_kernels_sources"))
    return library


def _warn_if_outdated(path: Path, record: str) -> None:
    """Logs a warning if modules that wrote the library at ``path`` have changed: its kernels may then read
    their arguments, or compute sizes of scratch memory, in another way than the compiler does.
    """
    package = LIBRARY_FOLDER.parents[1]
    changed = changed_sources(path, record, package)
    if changed:
        message = "the kernel library was built before %s changed: build it again with pip install -e %s"
        warn_once("outdated kernels", message, _abbreviated(changed), package.parents[1])


def _abbreviated(names: Sequence[str]) -> str:
    """The first name, and the number of others."""
    others = len(names) - 1
    return f"{names[0]} and {others} other file{'s' * (others > 1)}" if others else names[0]


def library_digest(isa: str) -> str:
    """Identifies the version of :func:`kernel_library`."""
    return kernel_library(isa).text("gw_kernels_digest")


def export_faults(code: bytes, functions: Iterable[str]) -> list[str]:
    """Why a shared object cannot be loaded, or the ``functions`` that it does not export."""
    try:
        library = _native.load_library(code)
    except _native.LoadError as error:
        return [f"it cannot be loaded: {error}"]
    faults = []
    for function in functions:
        try:
            library.symbol(function)
        except KeyError:
            faults.append(f"it does not export the function {function}")
    return faults


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
