"""Finds the import function of a PyTorch operator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from torch import _ops as torch_ops

from graphwright import ops
from graphwright.ir.op import AtenImport, registered_ops


@cache
def import_functions() -> Mapping[str, AtenImport]:
    """All import functions by operator: ``"add.Tensor"``, or ``"relu"`` for a default overload."""
    ops.load()
    return {name: convert for cls in registered_ops().values() for name, convert in cls.aten.items()}


def import_function(target: Any) -> AtenImport | None:
    """The import function of the operator ``target``; None if there is none."""
    if isinstance(target, torch_ops.HigherOrderOperator):
        return import_functions().get(f"higher_order.{target!s}")
    if not isinstance(target, torch_ops.OpOverload):
        return None
    name, overload = str(target).removeprefix("aten.").rsplit(".", 1)
    known = import_functions()
    suffix = "" if overload == "default" else f".{overload}"
    return known.get(f"{name}{suffix}") or known.get(f"{name.removesuffix('_copy')}{suffix}")
