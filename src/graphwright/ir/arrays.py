"""NumPy for the modules that loading and running a model imports: itself imported when one of them uses it.

Its import takes longer than all of graphwright's. Who runs a model has done it already, to make an array.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "is_repeated", "np"]

Array: TypeAlias = "np.ndarray[Any, Any]"


class _Numpy:
    """Has what the module has; each name is looked up there once."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module("numpy"), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Numpy()


def is_repeated(array: Array) -> bool:
    """Whether ``array`` is one element seen several times: a view that takes no memory of its size."""
    return array.size > 1 and not any(
        stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1
    )
