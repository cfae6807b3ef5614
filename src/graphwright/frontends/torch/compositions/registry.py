"""What registers a composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

Composition: TypeAlias = Callable[..., Any]
Function = TypeVar("Function", bound=Composition)

COMPOSITIONS: dict[Any, Composition] = {}


def composition(*operators: Any) -> Callable[[Function], Function]:
    """Register a function for these operators."""

    def register(function: Function) -> Function:
        COMPOSITIONS.update(dict.fromkeys(operators, function))
        return function

    return register
