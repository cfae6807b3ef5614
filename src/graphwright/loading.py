"""What ``graphwright.load`` does. The compiler is imported only where kernels must be made."""

from __future__ import annotations

import functools
import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from graphwright.config import Options
from graphwright.errors import Diagnostic, PackageError, ToolchainError, UnknownOpError
from graphwright.file_kinds import FileId, file_id
from graphwright.log import info, warn_once
from graphwright.package.archive import shown
from graphwright.package.package import Package, TensorSpec
from graphwright.package.read import read_package
from graphwright.package.sign import known_keys, user_key
from graphwright.package.stages import PartStep
from graphwright.runtime.devices import NATIVE, specialized
from graphwright.runtime.devices.base import Device, Shapes
from graphwright.runtime.devices.geared import geared, staged_gears
from graphwright.runtime.devices.guarded import GuardedFallback
from graphwright.runtime.devices.late import Late
from graphwright.runtime.devices.target import Shared, best_target, target_isa
from graphwright.runtime.model import Model

_STAGED = "graphwright.runtime.devices.staged"
"""Imported where the host runs a part of the model: with it come the IR and the ops."""


Key = bytes | str | os.PathLike[str]
"""A key, or the file that holds it."""


def load(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO,
    *,
    trust: bool | None = None,
    keys: Sequence[Key] = (),
    mmap: bool = False,
    verify: bool = False,
    specialize: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Model:
    """Load an ``.om`` file: from its path, its bytes, or a binary file that is open for reading.

    Its kernels run if this user's own build or one of ``keys`` (bytes, or files that hold them) signed it, or
    with ``trust``: options of these names do the same, ``trust=False`` forbids it. Otherwise, and
    on a CPU or device for which it holds none, or after a change of the kernel library, they are made again
    from its graph and weights. ``mmap`` leaves the weights in the file, which must not change while the model
    lives; where some repeat, a file holds those once, and all weights are in memory. Weights that are copied
    are checked for damage; with ``verify`` mapped ones are as well, and SHA-256 shows any change of a byte.
    ``specialize`` is the
    option of that name: "hot" makes static variants for shapes that recur, in the background. ``options`` is
    a CompileOptions, or a dict of some of them above those of the environment.
    Raises PackageError, PluginError, and ToolchainError where kernels must be made and no compiler is there.
    """
    start = time.perf_counter()
    options = Options.of(options, specialize=specialize)
    known = known_keys(options, keys)
    trust = options.trust if trust is None else trust
    found = Path(source) if isinstance(source, str | os.PathLike) else source
    isa = target_isa(options) if options.device in NATIVE else ""
    package = read_package(found, trust=trust, keys=known, use_mmap=mmap, verify=verify, isa=isa)
    sources = frozenset({file_id(os.stat(found))} if isinstance(found, Path) else ())
    where = shown(found)
    model = opened(package, options, where, sources)
    info("loaded %s in %.1f ms", where or "a package", 1e3 * (time.perf_counter() - start))
    return model


def unpickled(data: bytes, options: Options) -> Model:
    """The model whose ``.om`` is ``data``: who unpickles trusts it, so its kernels run."""
    return load(data, trust=True, options=options)


def opened(
    package: Package,
    options: Options,
    where: str = "",
    sources: frozenset[FileId] = frozenset(),
) -> Model:
    """What runs ``package``, which was read from ``where``. Raises as :func:`load` does."""
    if options.plugins:
        importlib.import_module("graphwright.plugins").load(*options.plugins)
    try:
        device = _device(package, options, where)
    except UnknownOpError:  # one that runs in Python: an installed plugin may bring it
        device = _device_with_plugins(package, options, where)
    if device is None:
        return _rebuilt(package, options, user_key(options.key_folder, create=False), where, sources)
    return Model(package, with_variants(device, package, options), options=options, sources=sources)


def device_of(package: Package, options: Options) -> Device | None:
    """What runs the package as it is; None where it holds nothing for this CPU and device."""
    device = _device(package, options)
    return None if device is None else with_variants(device, package, options)


def with_variants(device: Device, package: Package, options: Options) -> Device:
    """``device``, and variants for shapes that recur where ``options`` ask for them."""
    return specialized(device, package, options, _device)


def _device(package: Package, options: Options, where: str = "") -> Device | None:
    device = _assuming(package, options, where)
    if device is None or not package.general:
        return device
    known = f"it was compiled for shapes of which {', '.join(package.guards)} holds"
    return GuardedFallback(device, _compiling("forms", package, options, where, known))


def _assuming(package: Package, options: Options, where: str) -> Device | None:
    """What runs the programs of the package, where shapes break no guard of it."""

    def native(part: Package, shared: Shared) -> Device | None:
        device = _native(part, options, shared)
        return None if device is None else with_variants(device, part, options)

    if package.stages is not None:
        device = staged(package, options)
        if device is None or not package.between:
            return device
        return staged_gears(package, device, lambda each, part: with_variants(each, part, options))
    if package.between:
        return geared(package, native)
    return _variants(package, options, where) if package.variants else _native(package, options)


def _device_with_plugins(package: Package, options: Options, where: str) -> Device | None:
    importlib.import_module("graphwright.plugins").use(options)
    try:
        return _device(package, options, where)
    except UnknownOpError as error:
        raise package.lacking(error.name, where) from error


def _native(package: Package, options: Options, shared: Shared | None = None) -> Device | None:
    """What runs the package as it is, if it holds what this CPU and device run."""
    target, device = best_target(package, options), NATIVE.get(options.device)
    return None if target is None or device is None else device(package, target, options.plan_cache, shared)


def staged(package: Package, options: Options) -> Device | None:
    """What runs the stages of the package, if it holds what this CPU and device run. An open part is compiled
    at its first run, for the ranks that it meets there.
    """
    if package.stages is None:
        return None
    native: dict[int, Device] = {}
    shared = Shared()  # parts run one after the other
    for part in package.stages.parts():
        device = None if part.is_open else _native(package.of_variant(part.program), options, shared)
        if device is not None:
            native[part.number] = device
        elif not part.is_open:
            return None
    compiler = functools.cache(
        lambda: importlib.import_module("graphwright.api").part_builder(package, options)
    )

    def load(part: PartStep) -> Device:
        if part.is_open:
            return Late(lambda shapes: compiler()(part, shapes), key=lambda shapes: tuple(map(len, shapes)))
        return native[part.number]

    arrays = package.weights.arrays if package.stages.constants or package.stages.hosts() else {}
    made: Device = importlib.import_module(_STAGED).Staged(package.stages, load, arrays, shared.arenas)
    return made


def _variants(package: Package, options: Options, where: str) -> Device | None:
    """What runs the variants of the package as they are, and compiles one for shapes that none takes."""
    held, shared = [], Shared()
    for variant in package.variants:
        single = package.of_variant(variant)
        device = _native(single, options, shared)
        if device is None:
            return None
        held.append((variant, with_variants(device, single, options)))
    known = f"it holds variants for {'; '.join(_text(variant.inputs) for variant in package.variants)}"
    return Late(_compiling("builder", package, options, where, known), held)


def _compiling(
    maker: str, package: Package, options: Options, where: str, known: str
) -> Callable[[Shapes], Device]:
    """What compiles ``package`` for shapes that it has no program for: the API's ``maker``, imported when the
    first such shapes come. ``known`` says what it has programs for.
    """
    compiler = functools.cache(
        lambda: getattr(importlib.import_module("graphwright.api"), maker)(package, options)
    )

    def build(shapes: Shapes) -> Device:
        try:
            made: Device = compiler()(shapes)
        except ToolchainError as error:
            given = ", ".join(map(str, shapes))
            message = (
                f"no program in the package accepts inputs of shapes {given}, and none can be compiled here"
            )
            missing = Diagnostic("no-variant", message, where, known)
            raise ToolchainError(missing, *error.diagnostics) from error
        return made

    return build


def _text(specs: Sequence[TensorSpec]) -> str:
    """The inputs of a variant, as errors name them."""
    return ", ".join(f"{spec.name} {list(spec.shape or ())}".replace("'", "") for spec in specs)


def _rebuilt(
    package: Package, options: Options, key: bytes | None, where: str, sources: frozenset[FileId]
) -> Model:
    why = _why_not(package, options)
    try:
        model: Model = importlib.import_module("graphwright.api").rebuild(package, options, key, sources)
    except ToolchainError as error:
        hint = f"{why}. To compile it here: pip install graphwright[toolchain]"
        raise ToolchainError(
            *error.diagnostics, Diagnostic("untrusted", "has to be compiled here", where, hint)
        ) from error
    except PackageError as error:
        if error.diagnostics[0].code != "missing-plugin":
            raise
        compiled = Diagnostic("untrusted", "has to be compiled here", where, why)
        raise PackageError(*error.diagnostics, compiled) from error
    if not package.trusted or (package.isas() and options.device in NATIVE):
        warn_once(
            f"compiled again {where}",
            "%s is compiled at each start: %s. To keep what is compiled: graphwright compile FILE -o NEW.om",
            where,
            why,
        )
    return model


def _why_not(package: Package, options: Options) -> str:
    """Why a package does not run as it is."""
    if not package.trusted:
        runs = "trust=True (--trust, GRAPHWRIGHT_TRUST=1) runs them, and so do keys=[...] of who built it"
        return f"no trusted key signed its kernels, which are not run: {runs}"
    held, wanted = package.isas(), target_isa(options)
    if wanted not in held:
        return f"it holds kernels for {' and '.join(held) or 'no CPU'}, and this one is to run {wanted}"
    return "its kernels are for another version of graphwright"
