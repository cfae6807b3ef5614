"""graphwright: an open graph engine for deep learning.

>>> import graphwright as gw
>>> model = gw.compile("model.onnx")
>>> outputs = model.run({"x": array})
>>> model.save("model.om")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphwright.support.gc_pause import gc_paused

if TYPE_CHECKING:
    from graphwright import plugins as plugins
    from graphwright import torch as torch
    from graphwright.api import compile as compile
    from graphwright.builder.graph_builder import GraphBuilder as GraphBuilder
    from graphwright.config import Options
    from graphwright.errors import FeedError as FeedError
    from graphwright.errors import GraphwrightError as GraphwrightError
    from graphwright.errors import ModelError as ModelError
    from graphwright.errors import OptionError as OptionError
    from graphwright.errors import PackageError as PackageError
    from graphwright.errors import PluginError as PluginError
    from graphwright.errors import ToolchainError as ToolchainError
    from graphwright.gears import Gears as Gears
    from graphwright.ir.sizes import SizeRange
    from graphwright.kernel_sources import emit_sources as emit_sources
    from graphwright.loading import load as load
    from graphwright.profiling.profile import profile as profile
    from graphwright.runtime.memory_use import Memory as Memory
    from graphwright.runtime.model import Model as Model
    from graphwright.runtime.threads import set_threads as set_threads
    from graphwright.session import InferenceSession as InferenceSession
    from graphwright.session import SessionOptions as SessionOptions
    from graphwright.view.notebook import draw as draw

    CompileOptions = Options
    Dim = SizeRange
    __version__: str

_HOMES = {
    "compile": ("graphwright.api", "compile"),
    "load": ("graphwright.loading", "load"),
    "CompileOptions": ("graphwright.config", "Options"),
    "Model": ("graphwright.runtime.model", "Model"),
    "Memory": ("graphwright.runtime.memory_use", "Memory"),
    "InferenceSession": ("graphwright.session", "InferenceSession"),
    "SessionOptions": ("graphwright.session", "SessionOptions"),
    "Gears": ("graphwright.gears", "Gears"),
    "Dim": ("graphwright.ir.sizes", "SizeRange"),
    "GraphBuilder": ("graphwright.builder.graph_builder", "GraphBuilder"),
    "profile": ("graphwright.profiling.profile", "profile"),
    "set_threads": ("graphwright.runtime.threads", "set_threads"),
    "draw": ("graphwright.view.notebook", "draw"),
    "emit_sources": ("graphwright.kernel_sources", "emit_sources"),
    "plugins": ("graphwright.plugins", ""),
    "torch": ("graphwright.torch", ""),
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


def __dir__() -> list[str]:
    return sorted({*_HOMES, "__version__", *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    if name == "__version__":  # asked for seldom, and reading it takes as long as loading a model
        value = importlib.import_module("importlib.metadata").version("graphwright")
    elif name in _HOMES:
        value = _imported(*_HOMES[name])
    else:
        raise AttributeError(f"module 'graphwright' has no attribute {name!r}")  # Python says what is close
    globals()[name] = value
    return value


def _imported(module: str, attribute: str) -> Any:
    with gc_paused():
        home = importlib.import_module(module)
    return getattr(home, attribute) if attribute else home
