"""The built-in ops, one file each, in folders of a family. Importing it registers none: call :func:`load`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Registers every built-in op. The first call imports the modules of this package; later ones are
    free.
    """
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
