"""NumPy for the modules that loading and running a model imports: itself imported when one of them uses it.

Its import takes longer than all of graphwright's. Who runs a model has done it already, to make an array.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "np"]

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
