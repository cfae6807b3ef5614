"""Imports NumPy at first use, for modules that are imported to load and run a model.

The import of NumPy takes longer than that of these modules. A caller with arrays has already imported it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "is_repeated", "np"]

Array: TypeAlias = "np.ndarray[Any, Any]"


class _Numpy:
    """Stands for the module ``numpy``, and imports it at the first access to an attribute."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module("numpy"), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Numpy()


def is_repeated(array: Array) -> bool:
    """Whether ``array`` is a broadcast of one element, which takes the memory of that element only."""
    return array.size > 1 and not any(
        stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1
    )
