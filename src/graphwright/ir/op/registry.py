"""The registry of ops: the decorator that makes a class an op, and the classes by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast, dataclass_transform

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.op.contract import Op
from graphwright.ir.op.plugin_ops import defined_at, is_plugin_op, plugin_of
from graphwright.records import dataclass, fields

OpType = TypeVar("OpType", bound=type[Op])
_REGISTRY: dict[str, type[Op]] = {}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass_transform(frozen_default=True)
def op(name: str) -> Callable[[OpType], OpType]:
    """Class decorator that makes an op: a frozen dataclass, registered under the unique
    ``name``.

    A name consists of identifiers separated by dots. Raises PluginError for other names, for a class that is
    not an :class:`Op`, and for a user's op with the name of another op.
    """

    def register(cls: OpType) -> OpType:
        if not (isinstance(cls, type) and issubclass(cls, Op)):
            message = f"op {name!r}: {getattr(cls, '__name__', cls)!r} is not a subclass of Op"
            raise PluginError(Diagnostic("plugin-class", message, defined_at(cls)))
        if not _NAME.fullmatch(name):
            message = f"op {name!r}: a name consists of letters, digits, _ and dots, such as acme.Snake"
            raise PluginError(Diagnostic("plugin-class", message, defined_at(cls)))
        defined = family(cls)
        defined.name = name
        known = _REGISTRY.setdefault(name, defined)
        if known is not defined and known.__module__ != defined.__module__:
            raise _clash(name, known, defined)
        _REGISTRY[name] = defined
        return defined

    return register


def _clash(name: str, known: type[Op], new: type[Op]) -> Exception:
    """The error that two modules define one op. It blames the plugin, whichever was imported first."""
    later, earlier = (new, known) if is_plugin_op(new) else (known, new)
    if not is_plugin_op(later):
        return ValueError(f"op {name!r} is defined in {known.__module__} and again in {new.__module__}")
    owner = f"of the plugin {plugin_of(earlier)}" if is_plugin_op(earlier) else "of graphwright"
    message = f"op {name!r} of {plugin_of(later)} has the same name as an op {owner}"
    return PluginError(Diagnostic("plugin-clash", message, defined_at(later), "give it another name"))


@dataclass_transform(frozen_default=True)
def family(cls: OpType) -> OpType:
    """Class decorator for a base class of several ops that is not an op itself; ops inherit
    its attributes.
    """
    frozen: Any = dataclass(frozen=True, init=False)(cls)
    frozen.attribute_defaults = {field.name: field.default for field in fields(frozen)}
    return cast(OpType, frozen)


def op_class(name: str) -> type[Op]:
    """The op registered as ``name``. Raises KeyError if there is none. Import ``graphwright.ops`` first for
    built-in ops.
    """
    return _REGISTRY[name]


def registered_ops() -> dict[str, type[Op]]:
    """All registered ops by name."""
    return dict(sorted(_REGISTRY.items()))
