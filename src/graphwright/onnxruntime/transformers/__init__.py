"""ONNX Runtime's tools for transformers: the files of an installed ONNX Runtime package, if there is one (see
:mod:`graphwright.onnxruntime.installed`).

Otherwise, the only module is :mod:`io_binding_helper`, which runs models and which optimum imports. The other
ones optimize and convert models; importing them raises an error that says so.
"""

from __future__ import annotations

from typing import NoReturn

from graphwright.onnxruntime.installed import available, load
from graphwright.onnxruntime.refused import missing_part

if available(__name__):
    load(__name__, globals())


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__") or available(__name__):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise missing_part(f"transformers.{name}")
