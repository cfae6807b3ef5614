"""Classes of commands whose help shows the kind of a value only for options that take one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types_of_switches(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types_of_switches(super().get_params(ctx))


def _without_types_of_switches(parameters: Any) -> Any:
    """``--json`` takes no value, but Typer shows it as ``--json <bool>``, and ``-v`` as ``-v <int>``."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
            parameter.metavar = ""
    return parameters
