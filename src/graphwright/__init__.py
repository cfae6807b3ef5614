"""graphwright: an open graph engine for deep learning.

>>> import graphwright as gw
>>> model = gw.compile("model.onnx")
>>> outputs = model.run({"x": array})
>>> model.save("model.om")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphwright.garbage import uncollected

if TYPE_CHECKING:
    from graphwright import plugins as plugins
    from graphwright._native import set_threads as set_threads
    from graphwright.api import compile as compile
    from graphwright.builder import GraphBuilder as GraphBuilder
    from graphwright.config import Options
    from graphwright.errors import FeedError as FeedError
    from graphwright.errors import GraphwrightError as GraphwrightError
    from graphwright.errors import ModelError as ModelError
    from graphwright.errors import PackageError as PackageError
    from graphwright.errors import PluginError as PluginError
    from graphwright.errors import ToolchainError as ToolchainError
    from graphwright.gears import Gears as Gears
    from graphwright.ir.sizes import Dim as Dim
    from graphwright.loading import load as load
    from graphwright.runtime.model import Model as Model
    from graphwright.session import InferenceSession as InferenceSession
    from graphwright.session import SessionOptions as SessionOptions

    CompileOptions = Options

_HOMES = {
    "compile": ("graphwright.api", "compile"),
    "load": ("graphwright.loading", "load"),
    "CompileOptions": ("graphwright.config", "Options"),
    "Model": ("graphwright.runtime.model", "Model"),
    "InferenceSession": ("graphwright.session", "InferenceSession"),
    "SessionOptions": ("graphwright.session", "SessionOptions"),
    "Gears": ("graphwright.gears", "Gears"),
    "Dim": ("graphwright.ir.sizes", "Dim"),
    "GraphBuilder": ("graphwright.builder", "GraphBuilder"),
    "set_threads": ("graphwright._native", "set_threads"),
    "plugins": ("graphwright.plugins", ""),
    **{
        name: ("graphwright.errors", name)
        for name in (
            "FeedError",
            "GraphwrightError",
            "ModelError",
            "OptionError",
            "PackageError",
            "PluginError",
            "ToolchainError",
        )
    },
}
"""Where each public name lives; "" is the module itself. Modules are imported when a name is first
used: running an .om needs few of them.
"""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphwright' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    with uncollected():
        home = importlib.import_module(module)
    value = getattr(home, attribute) if attribute else home
    globals()[name] = value
    return value
