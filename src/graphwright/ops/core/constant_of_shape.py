"""ConstantOfShape."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    AtenImport,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    Op,
    Sample,
    Trait,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, I64, DType, TensorType, dtype_of
from graphwright.ops.core.bind_size import bind_symbols
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import need_sizes
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.known_elements import known_size
from graphwright.ops.core.size_inference import known_dims, known_parts


@op("ConstantOfShape")
class ConstantOfShape(BoundedForm, PaddingRule, Op):
    """A tensor of ``shape`` (operand 0 if None) whose elements are all ``value``."""

    value: float | int | bool = 0.0
    dtype: DType = F32
    shape: tuple[Dim, ...] | None = None
    traits = Trait.SHAPE_ONLY
    first_shape_operand = 0

    def fold_operands(self, shape: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_dims(shape)
        if self.shape is not None or known is None:
            return None
        return ConstantOfShape(self.value, self.dtype, known), ()

    def infer(self, at: Inference, shape: Fact | None = None) -> TensorType | Fact:
        if self.shape is None:
            need_sizes(at, shape, "the shape")
            return TensorType(self.dtype, filled(at, known_parts(shape)))
        type = TensorType(self.dtype, self.shape)
        size = known_size(self.shape)
        if size is None or not (self.dtype.is_integer or self.dtype.kind == "bool"):
            return type
        return Fact(type, (int(self.value),) * size)

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> Value | None:
        """Binds the sizes to the elements of the operand."""
        if not inputs or gives[0].shape is None:
            return None
        dims = gives[0].dims
        bind_symbols(b, dims, range(len(dims)), inputs[0], defined)
        filled: Value = b(ConstantOfShape(self.value, self.dtype, dims))
        return filled

    def padding_leak(self, node: Node, padded: Padded) -> str:
        return ""  # all elements are the same

    def reference(self) -> Array:
        assert self.shape is not None
        return np.full(self.shape, self.value, dtype=self.dtype.numpy)


def filled(at: Inference, parts: Sequence[Dim | None]) -> tuple[Dim, ...]:
    """The sizes of the result, with a new symbol for each unknown one."""
    return tuple(at.symbols.fresh("filled") if part is None else part for part in parts)


def _import(i: Importer) -> Any:
    value = i.attr("value")
    if value is None:
        return i.emit(ConstantOfShape(), i.input(0))
    if value.size != 1:
        raise i.fail(f"attribute 'value' has {value.size} elements", hint="it must have exactly one")
    return i.emit(ConstantOfShape(value.reshape(-1)[0].item(), dtype_of(value)), i.input(0))


def _export(e: Exporter, op: ConstantOfShape, *shape: Value) -> Any:
    given: Any = shape if op.shape is None else (e.sizes(op.shape),)
    return e.emit("ConstantOfShape", *given, value=np.array([op.value], op.dtype.numpy))


ConstantOfShape.to_onnx = _export
ConstantOfShape.onnx = {("ConstantOfShape", 9): _import}
ConstantOfShape.samples = (
    Sample(ConstantOfShape(), (arg(I64, 2, values=(2, 3)),)),
    Sample(ConstantOfShape(7, I64), (arg(I64, 1, values=(4,)),)),
    Sample(ConstantOfShape(0.5, F32, (2, 0)), ()),
    Sample(ConstantOfShape(1.5, F32, ()), ()),
    Sample(ConstantOfShape(), (arg(I64, 1, values=(-2,)),), "negative size"),
    Sample(ConstantOfShape(), (arg(I64, 2, values=(2**62, 0)),), "exceeds the addressable memory"),
    Sample(ConstantOfShape(), (arg(F32, 2),), "the shape is f32; it must be i32 or i64"),
)


def _aten_full(value: float | None = None, name: str = "fill_value") -> AtenImport:
    """A tensor filled with ``value``, or with the argument ``name``, in the shape and dtype that PyTorch
    inferred.
    """

    def convert(i: AtenImporter) -> Any:
        i.ignore("size", "self", "dtype", "requires_grad")
        type = i.results[0]
        filler = value if value is not None else i.number(name)
        if isinstance(filler, Value):  # not a constant
            return i.emit(Expand(type.dims), i.emit(Cast(type.dtype), filler))
        if isinstance(filler, int) and type.dtype.is_integer:
            filler = np.asarray(filler).astype(type.dtype.numpy).item()  # wraps around
        return i.emit(ConstantOfShape(filler, type.dtype, type.dims))

    return convert


ConstantOfShape.aten = {
    **dict.fromkeys(("full", "full_like", "new_full"), _aten_full()),
    **dict.fromkeys(
        ("zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty"), _aten_full(0)
    ),
    "scalar_tensor": _aten_full(name="s"),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), _aten_full(1)),
}
