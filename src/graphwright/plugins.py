"""Users' own ops, kernels, rules and passes: loading of plugins, and the API that they use.

A plugin is a Python file or module that registers something when it is imported. It is loaded by an import,
with :func:`load`, with ``--plugin``, or, if installed, through an entry point of the group
``graphwright.plugins``:

>>> gw.plugins.load("my_ops.py", "my_package.rules")

This module exports all that a plugin needs: ``from graphwright.plugins import Op, op, ...``. docs/plugins.md
shows an op, a kernel in C and a rule.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import graphwright.ops
from graphwright.config import Options
from graphwright.errors import Diagnostic, GraphwrightError, PluginError
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule
from graphwright.fusion.rules.registry import register_fusion_rules, registered_fusion_rules
from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.interfaces.blocked_form import Blocked, BlockedForm, can_be_blocked
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.loops.nodes import Scalar, apply, cast, maximum, minimum, select
from graphwright.ir.match import Const, Match, Opt, P, Rest, Rule, Var, always, used_once
from graphwright.ir.op import (
    Array,
    Fact,
    Import,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    Trait,
    arg,
    op,
    registered_ops,
)
from graphwright.ir.symbols import Dim, ceildiv, product, symbol
from graphwright.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    DType,
    TensorType,
)
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate, registered_candidates
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library.bits import double_bits
from graphwright.layout.blocks import stored_shape
from graphwright.ops.core.common import FLOATS, INTEGERS, dtype_attribute, need_dtype, same_dtype
from graphwright.ops.core.pointwise import Pointwise
from graphwright.passes.base import Pass, Record
from graphwright.passes.plugin_passes import Point, register, registered_passes
from graphwright.records import MISSING
from graphwright.targets.cpu.source import CSource

GROUP: Final = "graphwright.plugins"
"""Entry points that are loaded before a model is compiled."""

__all__ = [
    "BF16",
    "BOOL",
    "F16",
    "F32",
    "F64",
    "FLOATS",
    "GROUP",
    "I8",
    "I16",
    "I32",
    "I64",
    "INTEGERS",
    "STRING",
    "U8",
    "U16",
    "U32",
    "U64",
    "Array",
    "Blocked",
    "BlockedForm",
    "Builder",
    "CSource",
    "Candidate",
    "Const",
    "Context",
    "DType",
    "Dim",
    "Fact",
    "FromNode",
    "FusionRule",
    "Importer",
    "InferError",
    "Inference",
    "Launch",
    "Match",
    "Module",
    "Node",
    "Op",
    "Opt",
    "P",
    "Padded",
    "PaddingRule",
    "Pass",
    "Point",
    "Pointwise",
    "Record",
    "Rest",
    "Rule",
    "Run",
    "Sample",
    "Scalar",
    "TensorType",
    "Trait",
    "Value",
    "Var",
    "always",
    "apply",
    "arg",
    "autoload",
    "can_be_blocked",
    "candidate",
    "cast",
    "ceildiv",
    "double_bits",
    "load",
    "maximum",
    "minimum",
    "need_dtype",
    "op",
    "product",
    "register",
    "register_fusion_rules",
    "same_dtype",
    "select",
    "stored_shape",
    "symbol",
    "use",
    "used_once",
]  # fmt: skip


class FromNode(dict[tuple[str, int] | tuple[str, int, str], Import]):
    """The ``onnx`` table of an op that corresponds to one ONNX node: ``onnx = FromNode("Snake", 1,
    "my.domain")``.

    The node has the operands of the op in the same order, and attributes with the names of its fields; a
    missing attribute gets its default.
    """

    def __init__(self, op_type: str, since: int, domain: str) -> None:
        super().__init__({(op_type, since, domain): self._import})
        self._owner: type[Op] = Op

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self._owner = owner

    def _import(self, i: Importer) -> object:
        given = {
            name: _attribute(i, name, default) for name, default in self._owner.attribute_defaults.items()
        }
        return i.emit(self._owner(**given), *i.inputs())


def _attribute(i: Importer, name: str, default: Any) -> Any:
    if default is MISSING:
        return i.required_attr(name)
    value = i.attr(name, default)
    if isinstance(default, DType):
        return dtype_attribute(i, value)
    if default is None or isinstance(value, type(default)):
        return value
    return type(default)(value)


def load(*plugins: str | os.PathLike[str]) -> tuple[ModuleType, ...]:
    """Imports plugins, each once: paths of ``.py`` files, names of modules, or names of
    installed plugins.

    A file can import others in its folder. Raises PluginError with the file and line of the
    fault.
    """
    graphwright.ops.load()  # so that the plugin is blamed for a name clash with a built-in op
    for plugin in plugins:
        if not isinstance(plugin, str | os.PathLike):
            message = f"a plugin must be the path of a .py file or a name, not {plugin!r:.100}"
            raise PluginError(Diagnostic("plugin", message, hint='as in load("my_ops.py")'))
    return tuple(_load(os.fspath(plugin)) for plugin in plugins)


@cache
def autoload() -> None:
    """Imports every installed plugin, once. Raises PluginError."""
    graphwright.ops.load()
    for entry in entry_points(group=GROUP):
        _load_entry(entry)


def use(options: Options) -> None:
    """Imports the plugins that ``options`` request. Raises PluginError."""
    load(*options.plugins)
    if not options.no_autoload:
        autoload()


def _load(plugin: str) -> ModuleType:
    if plugin.endswith(".py") or os.sep in plugin:
        return _load_file(Path(plugin))
    for entry in entry_points(group=GROUP, name=plugin):
        return _load_entry(entry)
    return _load_module(plugin)


def _load_entry(entry: EntryPoint) -> ModuleType:
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
