"""BitShift."""

from __future__ import annotations

import numpy as np

from graphwright.ir.loops.nodes import Const, Scalar, apply, select
from graphwright.ir.op import Array, InferError, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import I32, U8
from graphwright.ops.core.aten_imports import TENSOR_OR_NUMBER, elementwise
from graphwright.ops.core.checks import INTEGERS
from graphwright.ops.core.elementwise_samples import binary_samples
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like


@op("BitShift")
class BitShift(Pointwise):
    """``a`` shifted by ``b`` bits to the ``LEFT`` or ``RIGHT``.

    If ``b`` is negative, or at least the number of bits of the dtype, the result is 0; a right shift of a
    negative number then is -1.
    """

    direction: str = "LEFT"
    dtypes = INTEGERS

    def verify(self) -> None:
        if self.direction not in ("LEFT", "RIGHT"):
            raise InferError(f"direction is {self.direction!r}, not LEFT or RIGHT")

    def reference(self, a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        if self.direction == "LEFT":
            return like(np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0), a)
        return like(np.right_shift(a, like(np.where(inside, b, bits - 1), b)) * (inside | (a < 0)), a)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        bits = a.dtype.bits
        inside = apply("lt", b, bits) if a.dtype.kind == "uint" else apply("and", b >= 0, b < bits)
        within = select(inside, b, 0)
        if self.direction == "LEFT":
            return select(inside, apply("shl", a, within), Const(0, a.dtype))
        outside = (
            select(a < 0, Const(-1, a.dtype), Const(0, a.dtype))
            if a.dtype.kind == "int"
            else Const(0, a.dtype)
        )
        return select(inside, apply("shr", a, within), outside)


BitShift.onnx = {
    ("BitShift", 11): lambda i: i.emit(BitShift(str(i.required_attr("direction"))), i.input(0), i.input(1))
}
BitShift.to_onnx = as_onnx("BitShift", direction="direction")
BitShift.aten = {
    name: elementwise(BitShift(direction), 2)
    for direction, side, operator in (("LEFT", "left", "lshift"), ("RIGHT", "right", "rshift"))
    for name in (
        *(f"bitwise_{side}_shift.{overload}" for overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        *(f"__{operator}__.{overload}" for overload in TENSOR_OR_NUMBER),
    )
}
BitShift.samples = (
    *binary_samples(BitShift(), INTEGERS, divisor=True),
    Sample(
        BitShift("RIGHT"),
        (arg(I32, 6, values=(-8, 8, -1, 5, -5, 5)), arg(I32, 6, values=(1, 1, 40, 40, -1, -1))),
    ),
    Sample(BitShift("RIGHT"), (arg(U8, 3, values=(255, 128, 7)), arg(U8, 3, values=(3, 8, 1)))),
    Sample(BitShift("UP"), (arg(U8, 3), arg(U8, 3)), "not LEFT or RIGHT"),
)
