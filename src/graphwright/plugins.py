"""Users' own ops, kernels, rules and passes: loading of plugins, and the API that they use.

A plugin is a Python file or module that registers something when it is imported. It is loaded by an import,
with :func:`load`, with ``--plugin``, or, if installed, through an entry point of the group
``graphwright.plugins``:

>>> gw.plugins.load("my_ops.py", "my_package.rules")

This module exports all that a plugin needs: ``from graphwright.plugins import Op, op, ...``. docs/plugins.md
shows an op, a kernel in C and a rule.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import graphwright.ops
from graphwright.config import Options
from graphwright.errors import Diagnostic, PluginError
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule
from graphwright.fusion.rules.registry import register_fusion_rules
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
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library.bits import double_bits
from graphwright.layout.blocks import stored_shape
from graphwright.ops.core.checks import FLOATS, INTEGERS, need_dtype, same_dtype
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.pointwise import Pointwise
from graphwright.passes.base import Pass, Record
from graphwright.passes.plugin_passes import Point, register
from graphwright.plugin_loading import GROUP, load_entry, load_plugin
from graphwright.records import MISSING
from graphwright.targets.cpu.user_code import CSource

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
    return tuple(load_plugin(os.fspath(plugin)) for plugin in plugins)


@cache
def autoload() -> None:
    """Imports every installed plugin, once. Raises PluginError."""
    graphwright.ops.load()
    for entry in entry_points(group=GROUP):
        load_entry(entry)


def use(options: Options) -> None:
    """Imports the plugins that ``options`` request. Raises PluginError."""
    load(*options.plugins)
    if not options.no_autoload:
        autoload()
