"""From a module to its package: which executables there are to be, and when one of them runs."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.compiler.buckets import compile_buckets
from graphwright.compiler.executables import compile_executables
from graphwright.compiler.modules import (
    Observer,
    input_specs,
    output_specs,
    package_module,
    program_of,
    run_passes,
    states,
)
from graphwright.compiler.partition import partition
from graphwright.compiler.pipeline import shape_passes
from graphwright.compiler.ranks import is_only, lacks_ranks, package_ranks, ranked
from graphwright.config import Options
from graphwright.executable.nodes import COMPILE, Dispatch, Executable
from graphwright.ir.clone import clone_module
from graphwright.ir.deferred import Deferred
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Array, Module
from graphwright.ir.text import print_module
from graphwright.package.package import MAIN, Package
from graphwright.package.weights import UnpackedWeights
from graphwright.passes.buckets import split_module
from graphwright.passes.dynamic import what_stays_dynamic
from graphwright.passes.retype import retype
from graphwright.records import replace
from graphwright.report import with_dynamic
from graphwright.runtime.target import for_this_cpu


def observe_nothing(name: str, product: object) -> None:
    """An observer of no stage."""


def compile_module(
    module: Module, options: Options, observe: Observer = observe_nothing, assume_found: bool = True
) -> Package:
    """The package of ``module``, which is changed.

    ``assume_found``: sizes that elements decide may be assumed to be as is likely, as those of inputs are.
    Raises ModelError, ToolchainError, PluginError.
    """
    buckets = split_module(module)
    if buckets is not None:
        return compile_buckets(buckets, options, observe)
    options = for_this_cpu(options)
    if options.device == "reference" or module.symbols.undecided or not _is_static(module):
        module.symbols.assume_nothing()
        run_passes(module, shape_passes(options), options, observe)
    if options.device == "reference":
        return _interpreted(module, options)
    if module.symbols.undecided or _lacks_ranks(module):
        return _compile_assuming(module, options, observe, assume_found)
    module.symbols.assumable, module.symbols.demands_all = None, True  # only what a decomposition adds
    return _compile_one(module, options, observe)


def _is_static(module: Module) -> bool:
    return all(value.type.is_static for value in module.main.inputs)


def _lacks_ranks(module: Module) -> bool:
    """Whether ranks are not known because those of inputs are not."""
    return any(value.type.shape is None for value in module.main.inputs) and lacks_ranks(module.main)


def _compile_assuming(module: Module, options: Options, observe: Observer, assume_found: bool) -> Package:
    """The package of ``module``, of which inference left something open: programs for what is likely, or for
    each rank, and the general graph, which is compiled for other shapes.
    """
    general, inputs = clone_module(module), [value.type for value in module.main.inputs]
    module.symbols.assumable = None if assume_found else frozenset(symbols_in(inputs))
    run_passes(module, shape_passes(options), options, observe)
    if _lacks_ranks(general):
        ranks = ranked(module)
        if is_only(ranks):
            (module,) = ranks
        elif all(partition(each.main).is_whole for each in ranks):
            return _reported(package_ranks(general, ranks, options), what_stays_dynamic(general))
    package = _compile_one(module, options, observe)
    return with_general(package, general) if module.symbols.guards else package


def compile_untrusted(module: Module, options: Options, observe: Observer = observe_nothing) -> Package:
    """As :func:`compile_module`, for types that follow from those of the inputs: others may be a
    stranger's.
    """
    buckets = split_module(module)
    if buckets is None:
        retype(module)
        return compile_module(module, options, observe)
    for each in buckets.modules:
        retype(each)
    return compile_buckets(buckets, options, observe)


def _interpreted(module: Module, options: Options) -> Package:
    """What the reference device runs."""
    package = replace(package_module(module, options), entries={MAIN: program_of(module, {}, module)})
    return _reported(package, what_stays_dynamic(module))


def _compile_one(module: Module, options: Options, observe: Observer) -> Package:
    """The package of ``module`` with one executable."""
    made = compile_executables([module], options, observe)
    report = with_dynamic(made.reports[0], made.dynamic[0])
    return made.package(module, made.executables[0], options, report)


def _reported(package: Package, dynamic: Sequence[str]) -> Package:
    """``package``, whose report says as well what stayed dynamic."""
    return replace(package, report=with_dynamic(package.report, dynamic))


def with_general(package: Package, general: Module) -> Package:
    """``package``, which compiles the ``general`` graph for shapes that break a guard: with that graph, and
    the constants of it that it neither has nor can unpack.
    """
    packed = {(how.source, how.shape) for how in package.weights.packings.values()}
    held = {ref.digest: general.constants.held(ref) for ref in general.constants}
    missing: dict[str, Array | Deferred] = {
        name: array
        for name, array in held.items()
        if name not in package.weights.tensors and (name, array.shape) not in packed
    }
    spare, main = package.spare, package.main
    assert main is not None

    def extended() -> UnpackedWeights:
        return UnpackedWeights({**missing, **spare().arrays})

    return replace(
        package,
        entries={**package.entries, MAIN: _guarded(main, general)},
        general=print_module(general, constants="short"),
        spare=extended,
    )


def _guarded(main: Executable, general: Module) -> Dispatch:
    """``main`` for shapes that break no guard of it, and what is compiled for others."""
    return Dispatch(input_specs(general), output_specs(general), (main,), COMPILE, states=states(general))
