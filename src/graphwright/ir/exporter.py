"""What ops ask of the graph of ONNX that they are written to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphwright.ir.inference import Array
from graphwright.ir.symbols import Dim

if TYPE_CHECKING:
    from graphwright.ir.graph import Value
    from graphwright.ir.op import ConstRef
    from graphwright.ir.types import DType, TensorType

Operand: TypeAlias = "Value | str | None"
"""A value of the module, what :meth:`Exporter.emit` gave, or an input that is absent."""


class CannotExport(Exception):
    """ONNX has no nodes for an op with these attributes; the message says why."""


class Exporter(Protocol):
    """Writes the nodes of ONNX that stand for one node. What they give is known by its name."""

    def emit(
        self,
        op_type: str,
        *inputs: Operand,
        outputs: int = 1,
        since: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """Append a node; returns the name of its output, or a tuple of names when it has several.

        Attributes that are None or an empty tuple are left out; dtypes become ONNX's numbers. ``since``: the
        first opset that has the op in the form that is written. Raises CannotExport for an attribute that is
        a size which is not known.
        """

    def verbatim(self, node: bytes, version: int, *inputs: Operand) -> Any:
        """Append a node of the source model that has other inputs; returns the names of its outputs.

        ``version``: of its domain.
        """

    def const(self, array: Array) -> str:
        """A constant."""

    def weight(self, tensor: ConstRef) -> str:
        """A tensor of the module's constant pool."""

    def sizes(self, dims: Sequence[Dim]) -> str:
        """A vector of i64 that holds ``dims``, computed from shapes where they are not numbers."""

    def size(self, dim: Dim) -> str:
        """One size as a scalar of i64."""

    def cast(self, value: Operand, dtype: DType) -> str:
        """``value`` converted to ``dtype``."""

    def failure(self, types: Sequence[TensorType]) -> Any:
        """Nodes that end the run with an error when they are reached, and claim results of ``types``."""

    def branch(self, region: int, operands: Sequence[Operand]) -> Any:
        """The attribute that holds region number ``region``, which reads ``operands`` where they are."""

    def body(self, captured: Sequence[Operand], conditional: bool) -> Any:
        """The attribute that holds the only region as the body of a Loop, whose last inputs are ``captured``.

        ``conditional``: whether its first output says if there is another run; else there is one.
        """

    def inline(self, *operands: Operand) -> tuple[str, ...]:
        """The nodes of the only region, which reads ``operands``: the names of its outputs."""

    def call(self, *operands: Operand) -> Any:
        """A call of the function that the only region becomes."""


Export: TypeAlias = Callable[..., Any]
"""``(exporter, op, *inputs) -> the names of the outputs``."""


def as_onnx(
    op_type: str,
    table: Mapping[str, str] | None = None,
    *,
    operand: str = "",
    outputs: str = "",
    since: int = 1,
    domain: str = "",
    **more: str,
) -> Export:
    """Export as the one node ``op_type`` with all inputs; ``table`` and ``more`` name each attribute's field.

    ``operand`` names a field with sizes or axes that ONNX takes as one more, the last, input; where the field
    is None, it is among the inputs already. ``outputs`` names a field that the number of outputs tells.
    Other fields must have their default values.
    """
    fields = {**(table or {}), **more}

    def export(e: Exporter, op: Any, *inputs: Operand) -> Any:
        attributes = {name: _given(op, field) for name, field in fields.items()}
        refuse_others(op, {*fields.values(), operand, outputs})
        given = getattr(op, operand) if operand else None
        if given is not None:
            inputs = (*inputs, e.sizes(given) if isinstance(given, tuple) else e.size(given))
        return e.emit(op_type, *inputs, outputs=op.output_count(), since=since, domain=domain, **attributes)

    return export


def _given(op: Any, field: str) -> Any:
    """The value of a field; None for an empty text that says nothing."""
    value = getattr(op, field)
    return None if value == "" == op.attribute_defaults[field] else value


def refuse_others(op: Any, written: Collection[str]) -> None:
    """Raise CannotExport where a field that is not ``written`` has another value than by default."""
    for name, value in op.attributes().items():
        if name not in written and value != op.attribute_defaults[name]:
            raise CannotExport(f"ONNX has no {name}={value} of {op.name}")
