"""The registry of targets by device.

Each folder next to this file is a target, which its ``target.py`` registers. A target of a plugin registers
itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Final

import graphwright.targets as package
from graphwright.config import Options
from graphwright.targets.base import Target

TargetOf = Callable[[Options], Target]
"""Makes the target for the given options."""
_TARGETS: Final[dict[str, TargetOf]] = {}


def register_target(device: str, target_of: TargetOf) -> None:
    """Registers the targets of a device: ``target_of`` makes the target if the option ``device`` is
    ``device``.
    """
    _TARGETS[device] = target_of


def target_of(options: Options) -> Target:
    """The target for the option ``device``, which must have one."""
    _load()
    return _TARGETS[options.device](options)


@cache
def _load() -> None:
    """Imports the targets in the folders of this package."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}.target")
