"""Loads plugins: finds and imports their modules, and reports faults of an import with file and line."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from graphwright.errors import Diagnostic, GraphwrightError, PluginError
from graphwright.fusion.rules.registry import registered_fusion_rules
from graphwright.ir.op import registered_ops
from graphwright.kernels.candidates.registry import registered_candidates
from graphwright.passes.plugin_passes import registered_passes

GROUP: Final = "graphwright.plugins"
"""Entry points that are loaded before a model is compiled."""


def load_plugin(plugin: str) -> ModuleType:
    """Imports a plugin: the path of a ``.py`` file, or the name of an installed plugin or of a module. Raises
    PluginError.
    """
    if plugin.endswith(".py") or os.sep in plugin:
        return _load_file(Path(plugin))
    for entry in entry_points(group=GROUP, name=plugin):
        return load_entry(entry)
    return _load_module(plugin)


def load_entry(entry: EntryPoint) -> ModuleType:
    """Imports an installed plugin. Raises PluginError."""
    try:
        return _load_module(entry.module)
    except PluginError as error:
        package = entry.dist.name if entry.dist else "a package"
        hint = f"it is the installed plugin {entry.name!r} of {package}: --no-autoload skips it"
        raise PluginError(*error.diagnostics, Diagnostic("plugin-load", hint)) from error


def _load_module(name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        hint = "give the path of a .py file, or the name of an importable module"
        raise PluginError(Diagnostic("plugin-missing", f"there is no module {name!r}", hint=hint))
    with _loading(name, found.origin or name):
        return importlib.import_module(name)


def _load_file(path: Path) -> ModuleType:
    """Imports a file under its file name, ``my_ops.py``, by which packages and errors refer to it."""
    if not os.path.isfile(path):
        raise PluginError(Diagnostic("plugin-missing", f"there is no file {str(path)!r}"))
    path = path.resolve()
    for module in list(sys.modules.values()):
        if _file_of(module) == str(path):
            return module
    name = path.name
    if name in sys.modules:
        other = sys.modules[name].__file__
        raise PluginError(
            Diagnostic("plugin-clash", f"{other} has the same name", str(path), "rename one of them")
        )
    if path.suffix != ".py":
        raise PluginError(Diagnostic("plugin-missing", "its name does not end in .py", str(path)))
    loader = _Uncached(name, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    module.__file__ = str(path)
    sys.modules[name] = module
    with _loading(name, str(path)), _importable_files(path.parent):
        loader.exec_module(module)
    return module


class _Uncached(SourceFileLoader):
    """Compiles the file at each load: Python takes cached bytecode for current if the file was changed within
    a second and kept its size.
    """

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


@contextmanager
def _importable_files(folder: Path) -> Iterator[None]:
    """Lets imports find the files of ``folder``, after all other modules; plugins that are already loaded are
    reused.
    """
    loaded = {Path(name).stem: module for name, module in sys.modules.items() if _is_in(folder, name, module)}
    aliases = {name: module for name, module in loaded.items() if name not in sys.modules}
    sys.modules.update(aliases)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in aliases:
            del sys.modules[name]


def _is_in(folder: Path, name: str, module: ModuleType) -> bool:
    return name.endswith(".py") and _file_of(module) == str(folder / name)


def _file_of(module: ModuleType) -> object:
    """The file of a module, without triggering lazy attributes."""
    return vars(module).get("__file__") if isinstance(module, ModuleType) else None


@contextmanager
def _loading(name: str, file: str) -> Iterator[None]:
    """Turns exceptions of an import, including SystemExit, into a PluginError with the line."""
    before = _registered()
    try:
        yield
    except GraphwrightError:
        sys.modules.pop(name, None)
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise PluginError(_load_fault(error, file)) from error
    if _registered() <= before:
        sys.modules.pop(name, None)
        hint = "use @op, @candidate, register(...) or register_fusion_rules(...)"
        raise PluginError(Diagnostic("plugin-empty", "it registers no op, kernel, rule or pass", file, hint))


def _registered() -> set[object]:
    """All registered ops, kernels, rules and passes; a new registration under the same name is
    another one.
    """
    kernels = (function for _, function in registered_candidates())
    passes = (each for _, each in registered_passes())
    return {*registered_ops().values(), *kernels, *passes, *registered_fusion_rules()}


def _load_fault(error: BaseException, file: str) -> Diagnostic:
    where = file
    if isinstance(error, SyntaxError):
        where = f"{error.filename or file}:{error.lineno}"
        return Diagnostic("plugin-load", f"cannot be read: {error.msg}", where)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == file:
            where = f"{file}:{line}"
    return Diagnostic("plugin-load", f"cannot be loaded: {type(error).__name__}: {error}", where)
