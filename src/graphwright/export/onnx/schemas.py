"""Finds the first opset that has an ONNX op for operands of given dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from onnx import defs

from graphwright.frontends.onnx.types import onnx_type_text
from graphwright.ir.op.exporter import CannotExport
from graphwright.ir.types import DType

OPSET: Final = 21
"""The default opset, which ONNX Runtime supports from 1.18 on; ops that need a later one raise it."""


@cache
def first_opset(op_type: str, operands: Sequence[DType | None], result: DType | None) -> int:
    """The first opset from OPSET on whose ``op_type`` accepts operands of these dtypes (None if unknown) and
    can return ``result``. Raises CannotExport if there is none.
    """
    schemas = _schemas(op_type)
    for schema in schemas:
        if _takes(schema, operands) and (result is None or _can_output(schema, onnx_type_text(result))):
            return max(OPSET, schema.since_version)
    dtypes = ", ".join(str(dtype) for dtype in (*operands, result) if dtype is not None)
    raise CannotExport(f"no version of ONNX has {op_type} of {dtypes}")


@cache
def _schemas(op_type: str) -> tuple[defs.OpSchema, ...]:
    """Versions from the one of OPSET on, oldest first."""
    found = [s for s in _by_name().get(op_type, ()) if not s.deprecated]
    before = [s for s in found if s.since_version <= OPSET]
    later = [s for s in found if s.since_version > OPSET]
    return (*before[-1:], *later)


@cache
def _by_name() -> dict[str, list[defs.OpSchema]]:
    named: dict[str, list[defs.OpSchema]] = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda each: each.since_version):
        if schema.domain == "":
            named.setdefault(schema.name, []).append(schema)
    return named


def _takes(schema: defs.OpSchema, operands: Sequence[DType | None]) -> bool:
    """Whether the schema allows these dtypes, with equal dtypes for equal type parameters."""
    allowed = {each.type_param_str: set(each.allowed_type_strs) for each in schema.type_constraints}
    formals, chosen = list(schema.inputs), dict[str, str]()
    for position, dtype in enumerate(operands):
        if dtype is None:
            continue
        formal = formals[min(position, len(formals) - 1)]
        text = onnx_type_text(dtype)
        if text not in allowed.get(formal.type_str, {formal.type_str}):
            return False
        if formal.is_homogeneous and chosen.setdefault(formal.type_str, text) != text:
            return False
    return True


def _can_output(schema: defs.OpSchema, text: str) -> bool:
    """Whether an output can be, or be a sequence of, tensors of this type."""
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    types = {given for output in schema.outputs for given in allowed.get(output.type_str, (output.type_str,))}
    return not types.isdisjoint((text, f"seq({text})"))
