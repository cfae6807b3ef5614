"""Implements ``graphwright.load``. The compiler is imported only if kernels must be compiled."""

from __future__ import annotations

import copyreg
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from graphwright.config import Options
from graphwright.errors import Diagnostic, OptionError, PackageError, ToolchainError, UnknownOpError
from graphwright.lazy_compiler import load_plugins, recompile, recompiler, use_plugins
from graphwright.log import info, warn_once
from graphwright.option_values import DEVICES
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.package.read_archive import source_name
from graphwright.package.sign import known_keys, user_key
from graphwright.records import dataclass, replace
from graphwright.runtime.devices.load_program import Shared
from graphwright.runtime.devices.this_cpu import target_isa
from graphwright.runtime.executor import Executor
from graphwright.runtime.instantiate import NATIVE, instantiate
from graphwright.runtime.model import Model, Origin, make_models
from graphwright.support.file_kinds import FileId, file_id

Key = bytes | str | os.PathLike[str]
"""A key as bytes, or the path of a key file."""


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
    """Loads an ``.om`` file from its path, its bytes, or a binary file open for reading.

    Its kernels run if it was signed by this user or by one of ``keys`` (bytes or key files), or with
    ``trust=True``. The options of these names have the same effect; ``trust=False`` overrides them. The graph
    of any other file is compiled again. So is that of a file without code for this CPU or device, or that was
    compiled for another version of the kernel library.

    - ``mmap``: map the weights instead of copying them; the file must not change while the model is in
      use. A file with run-length encoded weights is always copied.
    - ``verify``: check all weights by SHA-256, which detects any change. By default only copied weights
      are checked, for damage.
    - ``specialize``: the option of that name; "hot" compiles static variants for recurring shapes in the
      background.
    - ``options``: a CompileOptions, or a dict of options that override the environment's.

    Raises PackageError, PluginError, OptionError, and ToolchainError if kernels must be compiled and there is
    no compiler.
    """
    start = time.perf_counter()
    _check_source(source)
    _check_switches(trust=trust, mmap=mmap, verify=verify)
    options = Options.of(options, specialize=specialize)
    known = known_keys(options, keys)
    trust = options.trust if trust is None else trust
    found = Path(source) if isinstance(source, str | os.PathLike) else source
    isa = target_isa(options) if options.device in NATIVE else ""
    package = read_package(found, trust=trust, keys=known, use_mmap=mmap, verify=verify, isa=isa)
    sources = frozenset({file_id(os.stat(found))} if isinstance(found, Path) else ())
    where = source_name(found)
    model = _Opening(package, options, sources, where).loaded()
    info("loaded %s in %.1f ms", where or "a package", 1e3 * (time.perf_counter() - start))
    return model


def _check_source(source: object) -> None:
    """Raises PackageError for an empty path, which would be the working directory."""
    if isinstance(source, str) and not source:
        raise PackageError(Diagnostic("source", "the path is empty", hint="give the path of an .om file"))


def _check_switches(**given: object) -> None:
    """Raises OptionError for arguments that are not bool or None: a text such as "no" would be true."""
    for name, value in given.items():
        if value is not None and not isinstance(value, bool):
            message = f"{name}={value!r}: it must be True or False, not of type {type(value).__name__}"
            raise OptionError(Diagnostic("option", message, hint="see help(graphwright.load)"))


def unpickled(data: bytes, options: Options, entry: str) -> Model:
    """The model of ``entry`` from the bytes of an ``.om``. Its kernels run, as unpickling implies trust."""
    return load(data, trust=True, options=options).entries[entry]


copyreg.pickle(Model, lambda model: (unpickled, model.packed()))


def make_model(
    package: Package,
    key: bytes | None,
    options: Options,
    sources: frozenset[FileId] = frozenset(),
    where: str = "",
) -> Model:
    """Makes the model of a package that was compiled here from the source model at ``where``. Raises
    ToolchainError if the package is only for other CPUs.
    """
    return _Opening(package, options, sources, where).compiled(lambda: key)


@dataclass(frozen=True)
class _Opening:
    """A package from which a model is made."""

    package: Package
    options: Options
    sources: frozenset[FileId]
    where: str
    """What it was read or compiled from; empty if it has no name."""

    def loaded(self) -> Model:
        """The model of a package that was read; its graph is compiled again if its kernels cannot run. Raises
        the errors of :func:`load`.
        """
        options = self.options
        if options.plugins:
            load_plugins(options)
        try:
            executors = self._executors()
        except UnknownOpError:  # an op that runs in Python, which an installed plugin may define
            use_plugins(options)
            executors = self._executors_with_plugins()
        if executors is not None:
            return self._model(executors, lambda: None)
        key = partial(user_key, options.key_folder, create=True)
        return replace(self, package=self._recompiled()).compiled(key)

    def compiled(self, key: Callable[[], bytes | None]) -> Model:
        """The model of a package that was compiled here; ``key`` is called for the key that signs it when it
        is saved. Raises ToolchainError.
        """
        executors = self._executors()
        if executors is None:
            message = (
                f"none of the targets {', '.join(self.package.isas())} runs on this CPU with "
                f"isa={self.options.isa}"
            )
            raise ToolchainError(Diagnostic("cpu", message, hint="add one that does, as in targets=v4,v3"))
        return self._model(executors, key)

    def _model(self, executors: Mapping[str, Executor], key: Callable[[], bytes | None]) -> Model:
        def remake(options: Options) -> Model:
            return replace(self, options=options).compiled(key)

        return make_models(Origin(self.package, key, self.options, self.sources, remake), executors)

    def _executors(self) -> dict[str, Executor] | None:
        """The executors of all entries, which share memory; None if one has no code for this CPU or
        device.
        """
        package, options = self.package, self.options
        has_details = options.debug or package.options.get("debug") == "true" or options.crash_dir is not None
        label = None if options.no_crash_report and not has_details else self.where or "a model"
        shared = Shared(options.plan_cache, crash_label=label, crash_details=has_details)
        executors = {
            name: instantiate(package.only(name), options, recompiler, shared) for name in package.entries
        }
        running = {name: executor for name, executor in executors.items() if executor is not None}
        return running if len(running) == len(executors) else None

    def _executors_with_plugins(self) -> dict[str, Executor] | None:
        try:
            return self._executors()
        except UnknownOpError as error:
            raise self.package.lacking(error.name, self.where) from error

    def _recompiled(self) -> Package:
        """Compiles the package for this machine, with a warning that this happens at each start."""
        package, where, why = self.package, self.where, _why_not(self.package, self.options)
        try:
            compiled = recompile(package, self.options)
        except ToolchainError as error:
            hint = f"{why}. To compile it here: pip install graphwright[toolchain]"
            raise ToolchainError(
                *error.diagnostics, Diagnostic("untrusted", "must be compiled on this machine", where, hint)
            ) from error
        except PackageError as error:
            if error.diagnostics[0].code != "missing-plugin":
                raise
            untrusted = Diagnostic("untrusted", "must be compiled on this machine", where, why)
            raise PackageError(*error.diagnostics, untrusted) from error
        if not package.trusted or (package.isas() and self.options.device in NATIVE):
            warn_once(
                f"compiled again {where}",
                "%s is compiled at each start: %s. To save the result: graphwright compile FILE -o NEW.om",
                where,
                why,
            )
        return compiled


def _why_not(package: Package, options: Options) -> str:
    """The reason why a package must be compiled again."""
    if not package.trusted:
        return (
            "its kernels are not signed with a trusted key, so they are not run; to run them, use trust=True "
            "(--trust, GRAPHWRIGHT_TRUST=1), or keys=[...] with the key of the builder"
        )
    held = package.isas()
    if options.device not in DEVICES:
        targets = " and ".join(held) or "no target"
        return f"it contains kernels for {targets}, but not for device {options.device}"
    wanted = target_isa(options)
    if wanted not in held:
        return f"it contains kernels for {' and '.join(held) or 'no CPU'}, but not for {wanted}"
    return "its kernels are for another version of graphwright"
