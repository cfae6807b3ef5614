"""Users' own classes and functions (ops, kernels, rules): distinguishes them from built-in ones, and names
them in errors.
"""

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
"""A class or function."""


def is_plugin_op(thing: Thing) -> bool:
    """Whether ``thing`` is defined outside graphwright."""
    return not _module(thing).startswith(ENGINE)


def plugin_of(thing: Thing) -> str:
    """The plugin that defines ``thing``: a module, or the name of a file that was loaded by path."""
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
    """A diagnostic that ``thing`` raised ``error`` while ``doing`` something, with the last line in its own
    file.
    """
    module = _module(thing)
    where = defined_at(thing)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") == module:
            where = f"{frame.f_code.co_filename}:{line}"
    return Diagnostic("plugin", f"{doing} raised {type(error).__name__}: {error}", where)


def guarded(call: Callable[[], T], thing: Thing, doing: str, signals: tuple[type[Exception], ...] = ()) -> T:
    """The result of ``call``, which runs ``thing``. Exceptions other than ``signals`` become a
    PluginError.
    """
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
