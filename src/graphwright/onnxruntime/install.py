"""Makes later imports of ``onnxruntime`` import this package."""

from __future__ import annotations

import importlib
import sys

_NAME = "onnxruntime"


def install() -> None:
    """Makes ``import onnxruntime`` in this process import ``graphwright.onnxruntime``.

    Call it before anything imports onnxruntime: raises RuntimeError if something has.
    """
    ours = importlib.import_module(f"graphwright.{_NAME}")
    other = sys.modules.get(_NAME, ours)
    if other is not ours:
        raise RuntimeError(
            f"onnxruntime is imported already, from {getattr(other, '__file__', None)}: "
            "call graphwright.onnxruntime.install() before all that imports it"
        )
    sys.modules[_NAME] = ours
