"""What ``graphwright.load`` does. The compiler is imported only where kernels must be made."""

from __future__ import annotations

import copyreg
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from graphwright.compiling import load_plugins, recompile, recompiler, use_plugins
from graphwright.config import DEVICES, Options
from graphwright.errors import Diagnostic, PackageError, ToolchainError, UnknownOpError
from graphwright.log import info, warn_once
from graphwright.package.archive import shown
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.package.sign import known_keys, user_key
from graphwright.runtime.executor import Executor
from graphwright.runtime.instantiate import NATIVE, instantiate
from graphwright.runtime.model import Model, make_models
from graphwright.runtime.target import Shared, target_isa
from graphwright.support.file_kinds import FileId, file_id

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


def unpickled(data: bytes, options: Options, entry: str) -> Model:
    """The model of ``entry`` of the ``.om`` ``data``: who unpickles trusts it, so its kernels run."""
    return load(data, trust=True, options=options).entries[entry]


copyreg.pickle(Model, lambda model: (unpickled, model.packed()))


def opened(
    package: Package,
    options: Options,
    where: str = "",
    sources: frozenset[FileId] = frozenset(),
) -> Model:
    """What runs ``package``, which was read from ``where``. Raises as :func:`load` does."""
    if options.plugins:
        load_plugins(options)
    try:
        executors = _executors(package, options, where)
    except UnknownOpError:  # one that runs in Python: an installed plugin may bring it
        use_plugins(options)
        executors = _with_plugins(package, options, where)
    if executors is not None:
        return _model(package, executors, None, options, sources)
    key = user_key(options.key_folder, create=False)
    return made(_recompiled(package, options, where), key, options, sources, where)


def made(
    package: Package,
    key: bytes | None,
    options: Options,
    sources: frozenset[FileId] = frozenset(),
    where: str = "",
) -> Model:
    """What runs a package that was compiled here, of the model at ``where``. Raises ToolchainError where it
    is for other CPUs alone.
    """
    executors = _executors(package, options, where)
    if executors is None:
        message = f"none of the targets {', '.join(package.isas())} runs on this CPU, or as isa={options.isa}"
        raise ToolchainError(Diagnostic("cpu", message, hint="add one that does, as in targets=v4,v3"))
    return _model(package, executors, key, options, sources)


def _model(
    package: Package,
    executors: Mapping[str, Executor],
    key: bytes | None,
    options: Options,
    sources: frozenset[FileId],
) -> Model:
    def again(options: Options) -> Model:
        return made(package, key, options, sources)

    return make_models(package, executors, key, options, sources, again)


def _executors(package: Package, options: Options, where: str) -> dict[str, Executor] | None:
    """What runs each entry, on memory that they share; None where one does not run on this CPU or device."""
    has_details = options.debug or package.options.get("debug") == "true" or options.crash_dir is not None
    label = None if options.no_crash_report and not has_details else where or "a model"
    shared = Shared(options.plan_cache, crash_label=label, crash_details=has_details)
    made = {name: instantiate(package.only(name), options, recompiler, shared) for name in package.entries}
    running = {name: executor for name, executor in made.items() if executor is not None}
    return running if len(running) == len(made) else None


def _with_plugins(package: Package, options: Options, where: str) -> dict[str, Executor] | None:
    try:
        return _executors(package, options, where)
    except UnknownOpError as error:
        raise package.lacking(error.name, where) from error


def _recompiled(package: Package, options: Options, where: str) -> Package:
    """``package`` compiled here, and a warning where that happens at each start."""
    why = _why_not(package, options)
    try:
        compiled = recompile(package, options)
    except ToolchainError as error:
        hint = f"{why}. To compile it here: pip install graphwright[toolchain]"
        raise ToolchainError(
            *error.diagnostics, Diagnostic("untrusted", "has to be compiled here", where, hint)
        ) from error
    except PackageError as error:
        if error.diagnostics[0].code != "missing-plugin":
            raise
        untrusted = Diagnostic("untrusted", "has to be compiled here", where, why)
        raise PackageError(*error.diagnostics, untrusted) from error
    if not package.trusted or (package.isas() and options.device in NATIVE):
        warn_once(
            f"compiled again {where}",
            "%s is compiled at each start: %s. To keep what is compiled: graphwright compile FILE -o NEW.om",
            where,
            why,
        )
    return compiled


def _why_not(package: Package, options: Options) -> str:
    """Why a package does not run as it is."""
    if not package.trusted:
        runs = "trust=True (--trust, GRAPHWRIGHT_TRUST=1) runs them, and so do keys=[...] of who built it"
        return f"no trusted key signed its kernels, which are not run: {runs}"
    held = package.isas()
    if options.device not in DEVICES:
        return (
            f"it holds kernels for {' and '.join(held) or 'no target'}, and none for device {options.device}"
        )
    wanted = target_isa(options)
    if wanted not in held:
        return f"it holds kernels for {' and '.join(held) or 'no CPU'}, and this one is to run {wanted}"
    return "its kernels are for another version of graphwright"
