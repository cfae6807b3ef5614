"""Import of ONNX Runtime's MatMulBnb4: a matrix multiplication with the 4-bit weights of bitsandbytes
(Dettmers et al. 2023).
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.matmul import MatMul

_FP4 = (0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
NUMBERS = (
    np.array((*_FP4, *(-value for value in _FP4)), np.float32),
    np.array(
        (
            -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
            -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
            0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
            0.7229568362236023, 1.0,
        ),
        np.float32,
    ),
)  # fmt: skip
"""The number of each code, by ``quant_type``: FP4 and NF4."""


def _import(i: Importer) -> Value:
    """Inputs: a; the codes of w[N, K], row after row, two in a byte, the first in the high bits; and the
    factor of each block of codes. The weights become floats.
    """
    kind, block = int(i.required_attr("quant_type")), int(i.required_attr("block_size"))
    codes, factors = i.constant(1), i.constant(2)
    if codes is None or factors is None:
        raise i.fail("the weights are not constant (inputs 1 and 2)", hint="store them as initializers")
    if kind not in range(len(NUMBERS)):
        raise i.fail(f"quant_type is {kind}; it must be 0 (FP4) or 1 (NF4)")
    shape = int(i.required_attr("N")), int(i.required_attr("K"))
    count = shape[0] * shape[1]
    if 2 * codes.size < count or block * factors.size < count:
        raise i.fail(
            f"{count} weights need {-(-count // 2)} bytes of codes and {-(-count // block)} factors, but "
            f"{codes.size} and {factors.size} are given",
            hint="export the model again",
        )
    w = _dequantized(codes.reshape(-1), factors.reshape(-1), NUMBERS[kind], block)[:count].reshape(shape)
    b = w.T if i.attr("transB", 1) else w
    y: Value = i.emit(MatMul(), i.input(0), i.const(np.ascontiguousarray(b.astype(factors.dtype))))
    return y


def _dequantized(codes: Array, factors: Array, numbers: Array, block: int) -> Array:
    """At least as many weights as have a factor and a code, in f32."""
    fractions = numbers[np.stack((codes >> 4, codes & 15), 1).reshape(-1)]
    scales = np.repeat(factors.astype(np.float32), block)
    count = min(len(fractions), len(scales))
    return np.asarray(fractions[:count] * scales[:count])


register_contrib(MatMul, MatMulBnb4=_import)
