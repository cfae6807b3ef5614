"""What users wrote themselves (ops, kernels, rules): told from the engine's own, and named where it fails."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from graphwright.errors import Diagnostic, GraphwrightError, PluginError

ENGINE = "graphwright."
T = TypeVar("T")

Thing = type | Callable[..., Any]
"""A class or function, which knows the module that it was defined in."""


def is_plugin_op(thing: Thing) -> bool:
    """Whether ``thing`` was not defined by graphwright itself."""
    return not _module(thing).startswith(ENGINE)


def plugin_of(thing: Thing) -> str:
    """What brings ``thing``: a module, or the name of a file that was loaded by its path."""
    name = _module(thing)
    script = getattr(sys.modules.get(name), "__file__", None) if name == "__main__" else None
    return Path(script).name if script else name


def defined_at(thing: Thing) -> str:
    """The file and line of a function, or the file of a class."""
    code = getattr(thing, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return getattr(sys.modules.get(_module(thing)), "__file__", None) or plugin_of(thing)


def blamed(error: BaseException, thing: Thing, doing: str) -> Diagnostic:
    """That ``thing`` raised ``error`` while ``doing`` something: with the last line of its own file."""
    module = _module(thing)
    where = defined_at(thing)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") == module:
            where = f"{frame.f_code.co_filename}:{line}"
    return Diagnostic("plugin", f"{doing} raised {type(error).__name__}: {error}", where)


def guarded(call: Callable[[], T], thing: Thing, doing: str, signals: tuple[type[Exception], ...] = ()) -> T:
    """What ``call`` gives, which runs ``thing``. What it raises but ``signals`` becomes a PluginError."""
    try:
        return call()
    except PluginError:
        raise
    except signals:
        raise
    except GraphwrightError as error:
        first = error.diagnostics[0]
        fault = Diagnostic("plugin", f"{doing}: {first.message}", defined_at(thing), first.hint)
        raise PluginError(fault, *error.diagnostics[1:]) from error
    except Exception as error:
        raise PluginError(blamed(error, thing, doing)) from error


def _module(thing: Thing) -> str:
    return getattr(thing, "__module__", None) or "__main__"
