"""Which target the kernels of a device are generated for.

A folder beside this file is a target: its ``target.py`` registers it. A target of a plugin registers itself.
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
"""The target that options ask for."""
_TARGETS: Final[dict[str, TargetOf]] = {}


def register_target(device: str, target_of: TargetOf) -> None:
    """Let ``target_of`` say what is compiled for, where the option ``device`` is this one."""
    _TARGETS[device] = target_of


def target_of(options: Options) -> Target:
    """The target of the option ``device``, which has one."""
    _load()
    return _TARGETS[options.device](options)


@cache
def _load() -> None:
    """Import the folders of this package."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}.target")
