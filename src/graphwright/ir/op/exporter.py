"""The interface for exporting ops to ONNX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphwright.ir.op.inference import Array
from graphwright.ir.symbols import Dim

if TYPE_CHECKING:
    from graphwright.ir.graph import Value
    from graphwright.ir.op.contract import ConstRef
    from graphwright.ir.types import DType, TensorType

Operand: TypeAlias = "Value | str | None"
"""A value of the module, a name that :meth:`Exporter.emit` returned, or None for an absent input."""


class CannotExport(Exception):
    """ONNX cannot express an op with these attributes; the message says why."""


class Exporter(Protocol):
    """Writes the ONNX nodes for one node of the module. Values of the exported graph are
    identified by name.
    """

    source_opset: int
    """The opset of the source model, at least the default of exported models. Ops of later opsets are
    written in other ops, so that an engine which runs the source runs the result.
    """

    def emit(
        self,
        op_type: str,
        *inputs: Operand,
        outputs: int = 1,
        since: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """Appends a node. Returns the name of its output, or a tuple of names if it has
        several.

        Attributes that are None or an empty tuple are omitted; dtypes become ONNX data types. ``since``: the
        first opset that has the op in this form. Raises CannotExport for an attribute that is a symbolic
        size.
        """

    def verbatim(self, node: bytes, version: int, *inputs: Operand) -> Any:
        """Appends a node of the source model with other inputs. Returns the names of its
        outputs.

        ``version``: the opset of its domain.
        """

    def const(self, array: Array) -> str:
        """A constant."""

    def weight(self, tensor: ConstRef) -> str:
        """A tensor of the module's constant pool."""

    def sizes(self, dims: Sequence[Dim]) -> str:
        """An i64 vector with ``dims``; symbolic dims are computed from shapes."""

    def size(self, dim: Dim) -> str:
        """One dim as an i64 scalar."""

    def cast(self, value: Operand, dtype: DType) -> str:
        """``value`` converted to ``dtype``."""

    def failure(self, types: Sequence[TensorType]) -> Any:
        """Nodes that end the run with an error, and declare results of ``types``."""

    def branch(self, region: int, operands: Sequence[Operand]) -> Any:
        """An attribute with region ``region``, which reads ``operands`` from the enclosing graph."""

    def body(self, captured: Sequence[Operand], conditional: bool) -> Any:
        """An attribute with the only region as the body of a Loop, with ``captured`` for its
        last inputs.

        ``conditional``: whether its first output is the loop condition; otherwise the condition is always
        true.
        """

    def inline(self, *operands: Operand) -> tuple[str, ...]:
        """Appends the nodes of the only region, applied to ``operands``. Returns the names of its outputs."""

    def call(self, *operands: Operand) -> Any:
        """Calls a model-local function made from the only region."""


Export: TypeAlias = Callable[..., Any]
"""``(exporter, op, *inputs) -> names of the outputs``."""


def as_onnx(
    op_type: str,
    table: Mapping[str, str] | None = None,
    *,
    operand: str = "",
    outputs: str = "",
    since: int = 1,
    **more: str,
) -> Export:
    """An export as the single node ``op_type`` with all inputs. ``table`` and ``more`` map ONNX attributes to
    fields.

    ``operand``: a field with sizes or axes that ONNX takes as an additional last input; if it is None, the
    input is already there. ``outputs``: a field that the number of outputs implies. Other fields must have
    their default values.
    """
    fields = {**(table or {}), **more}

    def export(e: Exporter, op: Any, *inputs: Operand) -> Any:
        attributes = {name: _field_value(op, field) for name, field in fields.items()}
        refuse_others(op, {*fields.values(), operand, outputs})
        given = getattr(op, operand) if operand else None
        if given is not None:
            inputs = (*inputs, e.sizes(given) if isinstance(given, tuple) else e.size(given))
        return e.emit(op_type, *inputs, outputs=op.output_count(), since=since, **attributes)

    return export


def _field_value(op: Any, field: str) -> Any:
    """The value of a field; None for an empty text that is its default."""
    value = getattr(op, field)
    return None if value == "" == op.attribute_defaults[field] else value


def refuse_others(op: Any, written: Collection[str]) -> None:
    """Raises CannotExport if a field that is not ``written`` has a value other than its default."""
    for name, value in op.attributes().items():
        if name not in written and value != op.attribute_defaults[name]:
            raise CannotExport(f"ONNX cannot express {op.name} with {name}={value}")
