"""The registry of compositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

Composition: TypeAlias = Callable[..., Any]
Function = TypeVar("Function", bound=Composition)

COMPOSITIONS: dict[Any, Composition] = {}
"""By operator, or by the name of an operator that is defined only after its library is imported."""


def composed(operator: Any) -> Composition | None:
    """The composition of ``operator``; None if there is none."""
    return COMPOSITIONS.get(operator) or COMPOSITIONS.get(str(operator))


def composition(*operators: Any) -> Callable[[Function], Function]:
    """Decorator that registers a function as the composition of these operators."""

    def register(function: Function) -> Function:
        COMPOSITIONS.update(dict.fromkeys(operators, function))
        return function

    return register
