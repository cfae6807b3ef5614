"""The part of ``onnxruntime.transformers`` that runs models: :mod:`io_binding_helper`, which optimum imports.

The rest optimizes and converts models; importing it says so.
"""

from __future__ import annotations

from typing import NoReturn

from graphwright.onnxruntime.refused import missing_part


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise missing_part(f"transformers.{name}")
