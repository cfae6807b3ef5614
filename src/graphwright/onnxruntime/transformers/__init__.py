"""The files of the installed package, if there is one; see :mod:`graphwright.onnxruntime.installed`.

Without it there is the part that runs models: :mod:`io_binding_helper`, which optimum imports. The rest
optimizes and converts models; importing it says so.
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
