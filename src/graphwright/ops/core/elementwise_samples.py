"""The operands that elementwise ops have as samples."""

from __future__ import annotations

from graphwright.ir.op import Op, Sample, arg
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F16, F32, F64, I32, I64, STRING, U8, DType
from graphwright.ops.core.checks import FLOATS, LOGICAL


def unary_samples(op: Op, dtypes: frozenset[DType], fill: str = "normal") -> tuple[Sample, ...]:
    """Samples of ``op``: each kind of dtype, a scalar, an empty tensor, and a dtype that is an error."""
    first, *others = sorted(dtypes & {F32, I64, BOOL, U8, F16}, key=str, reverse=True)
    return (
        *(Sample(op, (arg(dtype, 2, 7, fill=fill),)) for dtype in (first, *others)),
        Sample(op, (arg(first),)),
        Sample(op, (arg(first, 0, 3),)),
        Sample(op, (arg(I32 if dtypes <= FLOATS | LOGICAL else BOOL, 2),), "the operand is"),
    )


def binary_samples(op: Op, dtypes: frozenset[DType], divisor: bool = False) -> tuple[Sample, ...]:
    """Samples of ``op``: each kind of dtype, broadcasting of either operand, symbolic sizes, scalars, empty
    tensors, and operands that are errors.
    """
    first, *others = sorted(dtypes & {F32, F16, I64, I32, U8, BOOL}, key=str, reverse=True)
    fill = "positive" if divisor else "normal"
    n, m = symbol("N"), symbol("M")
    other = F32 if first != F32 else F64
    return (
        *(Sample(op, (arg(t, 4, 5), arg(t, 4, 5, fill=fill))) for t in (first, *others)),
        Sample(op, (arg(first, 3, 1, 5), arg(first, 4, 1, fill=fill))),
        Sample(op, (arg(first), arg(first, 2, 3, fill=fill))),
        Sample(op, (arg(first, n, m), arg(first, n, 1, fill=fill))),
        Sample(op, (arg(first, 0, 3), arg(first, 3, fill=fill))),
        Sample(op, (arg(first, 2, 3), arg(first, 4, fill=fill)), "3 and 4 differ"),
        Sample(op, (arg(first, 2), arg(other, 2, fill=fill)), "one dtype"),
        Sample(op, (arg(STRING, 2), arg(STRING, 2)), "the operand is string"),
        *(
            Sample(op, (arg(I64, 4, values=(7, -7, 0, 2)), arg(I64, values=(3,))))
            for _ in range(I64 in dtypes)
        ),
    )
