"""Helpers of the imports of ONNX Runtime's own ops. Its optimizer writes such ops into models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Import, Importer, OnnxImporter, Op
from graphwright.ops.contrib.attribute_names import attribute_names
from graphwright.ops.core.binary import Add
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.transpose import Transpose

DOMAIN = "com.microsoft"


def contribute(cls: type[Op], **imports: Import) -> None:
    """Registers import functions of ops of the domain at ``cls``, the main op of their results."""
    found = dict(cls.onnx)
    for name, convert in imports.items():
        found[name, 1, DOMAIN] = _checked(name, convert)
    cls.onnx = found


def _checked(name: str, convert: Import) -> Import:
    """``convert``, which raises Fault for attributes that the op does not have: a newer op may have them,
    whose meaning is not known here.
    """
    known = attribute_names(name)
    if known is None:
        return convert

    def checked(i: OnnxImporter) -> Any:
        unknown = ", ".join(repr(each) for each in i.attributes if each not in known)
        if unknown:
            listed = ", ".join(sorted(known)) or "none"
            raise i.fail(f"there is no attribute {unknown}", f"its attributes are: {listed}")
        return convert(i)

    return checked


def added(i: Importer, x: Value, *terms: Value | None) -> Value:
    """``x`` plus each of ``terms`` that is not None."""
    for term in terms:
        if term is not None:
            x = i.emit(Add(), x, term)
    return x


def channels_last(i: Importer, x: Value, compute: Callable[[Value], Value]) -> Value:
    """``compute``, which is channels first, applied to a channels-last image; the result is channels last."""
    rank = rank_of(x)
    channels_first = i.emit(Transpose((0, rank - 1, *range(1, rank - 1))), x)
    y: Value = i.emit(Transpose((0, *range(2, rank), 1)), compute(channels_first))
    return y


class WithInputs:
    """An importer of the same node with other inputs, none of which is a constant of the source model."""

    def __init__(self, i: Importer, inputs: Sequence[Value | None]) -> None:
        self._importer, self._inputs = i, inputs

    def input(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise self._importer.fail(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self._inputs[index] if index < len(self._inputs) else None

    def inputs(self) -> list[Value | None]:
        return list(self._inputs)

    def constant(self, index: int) -> Array | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._importer, name)
