"""Loading a target into the native runtime: kernels found by name, weights handed over, tasks encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from graphwright import _native
from graphwright.config import DEVICES, Options
from graphwright.errors import Diagnostic, PackageError, ToolchainError
from graphwright.executable.nodes import Program
from graphwright.executable.target_code import TargetCode
from graphwright.option_files.rate_files import resolved
from graphwright.package.weights import Weights
from graphwright.records import dataclass, field, replace

LIBRARY_FOLDER = Path(_native.__file__).parent / "runtime" / "native"
LEVELS = ("baseline", "v3", "v4")
"""Levels of x86-64, each with the instructions of those before it."""


def target_isa(options: Options) -> str:
    """The ISA whose kernels run. Raises ToolchainError on a CPU that has not what they need."""
    here = _native.isa()
    name = here if options.isa == "auto" else options.isa
    if name == "baseline":
        raise ToolchainError(
            Diagnostic("cpu", "this CPU has no AVX2 and FMA (x86-64-v3), which all kernels need")
        )
    if LEVELS.index(name) > LEVELS.index(here) and name not in options.targets:
        what = f"isa={name} needs another CPU: this one is x86-64-{here}"
        hint = f"to compile for both, give targets={name},{here}"
        raise ToolchainError(Diagnostic("cpu", what, hint=hint))
    return name


def for_this_cpu(options: Options) -> Options:
    """``options`` with the ISA whose kernels run and the rates that costs are predicted from; as they are for
    a device that is no CPU. Raises ToolchainError.
    """
    if options.device not in DEVICES:
        return options
    rates = resolved(options.calibration, options.calibration_file)
    return replace(options, isa=target_isa(options), calibration=rates)


def usable_isas() -> tuple[str, ...]:
    """The ISAs that this CPU has and kernels are written for, the least first."""
    return LEVELS[1 : LEVELS.index(_native.isa()) + 1]


def multiplies_bf16(options: Options) -> bool:
    """Whether the CPU that kernels are for has instructions for products of bf16: this one, or one of a
    higher level, which is taken to have them."""
    return options.isa == "v4" and (_native.has_bf16() or _native.isa() != "v4")


@cache
def kernel_library(isa: str) -> _native.Library:
    """The kernels that this graphwright comes with."""
    return _native.open_library(str(LIBRARY_FOLDER / f"libgraphwright_kernels_{isa}.so"))


def library_digest(isa: str) -> str:
    """What tells :func:`kernel_library` from those of other versions."""
    return kernel_library(isa).text("gw_kernels_digest")


def export_faults(code: bytes, functions: Iterable[str]) -> list[str]:
    """Why a shared object cannot be loaded, or which of ``functions`` it does not export."""
    try:
        library = _native.load_library(code)
    except _native.LoadError as error:
        return [f"it cannot be loaded: {error}"]
    faults = []
    for function in functions:
        try:
            library.symbol(function)
        except KeyError:
            faults.append(f"there is no function {function}")
    return faults


def best_target(targets: Mapping[str, TargetCode], options: Options) -> TargetCode | None:
    """The target of the newest ISA that this CPU has, compiled for the kernels that are here; with the option
    ``isa``, of that one alone.
    """
    newest = target_isa(options)
    usable = LEVELS[: LEVELS.index(newest) + 1] if options.isa == "auto" else (newest,)
    held = (targets[isa] for isa in reversed(usable) if isa in targets)
    return next((target for target in held if target.library == library_digest(target.name)), None)


@dataclass
class Shared:
    """What programs of which one runs at a time, mostly, have together: memory of runs, kernels by bytes."""

    plans: int = Options.plan_cache
    """Plans of input shapes that each keeps."""
    arenas: _native.Arenas = field(default_factory=_native.Arenas)
    libraries: dict[bytes, _native.Library] = field(default_factory=dict)
    watched: str | None = None
    """What a crash in a kernel calls the model; None where crashes are not watched."""

    def library(self, data: bytes) -> _native.Library:
        """A shared object, loaded once."""
        if data not in self.libraries:
            self.libraries[data] = _native.load_library(data)
        return self.libraries[data]


_FOREIGN: Final = "plugin_"
"""How the names of shared objects of users' own C begin."""


def load_program(program: Program, target: TargetCode, weights: Weights, shared: Shared) -> _native.Program:
    """The target's tasks, ready to run; a PackageError if a kernel is missing or they are malformed."""
    try:
        return _load(program, target, weights, shared)
    except (_native.ProgramError, _native.LoadError, OverflowError, ValueError) as error:
        raise PackageError(
            Diagnostic("bad-program", f"the tasks or kernels are malformed: {error}")
        ) from error


def _load(program: Program, target: TargetCode, weights: Weights, shared: Shared) -> _native.Program:
    loaded = _linked(program, target, weights, shared)
    if loaded.states != sorted(program.states):
        raise ValueError(f"the tasks update inputs {loaded.states}, the program {sorted(program.states)}")
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
        sites=() if shared.watched is None else _sites(program, target, shared.watched),
        extents=[_extent(symbol, module, library, libraries) for symbol, module in target.stored.kernels],
        about=target,
    )


def _hosts(target: TargetCode) -> list[_native.HostFunction]:
    """What runs in Python: with it come the ops, so it is imported where there is something."""
    if not target.stored.hosts:
        return []
    from graphwright.runtime.hostcall import host_callable

    return [host_callable(host) for host in target.stored.hosts]


def _sites(program: Program, target: TargetCode, model: str) -> list[str]:
    """What crashes say, made of the tasks, which running does not read."""
    from graphwright.runtime.crash_sites import crash_sites

    return crash_sites(program, target, model)


def _extent(
    symbol: str, module: str, library: _native.Library, generated: Mapping[str, _native.Library]
) -> int:
    """The address of what says how far a kernel reaches; 0 where a user's own has none."""
    try:
        return _address(f"{symbol}_extent", module, library, generated)
    except PackageError:
        if module.startswith(_FOREIGN):
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
            f"kernel {symbol!r} is not there",
            hint="compile the model with this version",
        )
    )
