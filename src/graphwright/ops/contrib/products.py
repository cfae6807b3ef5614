"""Import of ONNX Runtime's FusedMatMul, FusedGemm, FusedConv and MatMulInteger16."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter, Op
from graphwright.ir.types import I32, U16, U32
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Mul, added
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import HardSwish, Relu, Sigmoid, Softplus, Softsign, Tanh
from graphwright.ops.nn.activations import Elu, HardSigmoid, LeakyRelu, Selu, ThresholdedRelu
from graphwright.ops.nn.conv import Conv

_ACTIVATIONS: dict[str, tuple[Sequence[str], Callable[..., Op]]] = {
    "Relu": ((), Relu), "Sigmoid": ((), Sigmoid), "Tanh": ((), Tanh), "Softplus": ((), Softplus),
    "HardSwish": ((), HardSwish), "Softsign": ((), Softsign), "LeakyRelu": (("alpha",), LeakyRelu),
    "Elu": (("alpha",), Elu), "ThresholdedRelu": (("alpha",), ThresholdedRelu),
    "HardSigmoid": (("alpha", "beta"), HardSigmoid), "Selu": (("alpha", "gamma"), Selu),
    "Clip": (("alpha", "beta"), Clip),
}  # fmt: skip
"""By name: the parameters, and the op that takes them."""


def _activated(i: Importer, x: Value, parameters: Sequence[float]) -> Value:
    """``x`` with the activation that the attribute ``activation`` names; ``x`` itself if it is absent."""
    name = str(i.attr("activation", ""))
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise i.fail(f"activation {name!r} is not one of {', '.join(_ACTIVATIONS)}")
    needed, make_op = _ACTIVATIONS[name]
    count = len(needed)
    if len(parameters) < count:
        raise i.fail(f"activation {name} needs {count} parameters, but {len(parameters)} are given")
    result: Value = i.emit(make_op(*map(float, parameters[:count])), x)
    return result


def _transposed(i: Importer, index: int, name: str) -> Value:
    """An operand of FusedMatMul: with ``transBatch``, its first axis becomes the second last one; with
    ``trans``, the last two axes are then exchanged.
    """
    x = i.input(index)
    axes = list(range(rank_of(x)))
    if len(axes) > 1 and i.attr(f"transBatch{name}", 0):
        axes.insert(-1, axes.pop(0))
    if len(axes) > 1 and i.attr(f"trans{name}", 0):
        axes[-2:] = reversed(axes[-2:])
    result: Value = x if axes == sorted(axes) else i.emit(Transpose(tuple(axes)), x)
    return result


def _import_matmul(i: Importer) -> Value:
    product: Value = i.emit(MatMul(), _transposed(i, 0, "A"), _transposed(i, 1, "B"))
    factor = float(i.attr("alpha", 1.0))
    return product if factor == 1 else i.emit(Mul(), product, scalar(i, factor, product))


def _import_integers(i: Importer) -> Value:
    """The product of 16-bit integers, in i32, or in u32 if both are unsigned."""
    dtype = U32 if {i.input(0).type.dtype, i.input(1).type.dtype} == {U16} else I32
    product: Value = i.emit(MatMul(), *(as_dtype(i.builder, i.input(k), dtype) for k in (0, 1)))
    return product


def _import_gemm(i: OnnxImporter) -> Value:
    names, _ = _ACTIVATIONS.get(str(i.attr("activation", "")), ((), None))
    given = (i.attr(f"activation_{name}") for name in names)
    return _activated(i, _GEMM(i), [value for value in given if value is not None])


def import_conv(i: OnnxImporter) -> Value:
    """Adds the optional input 3 before the activation."""
    return _activated(i, added(i, _CONV(i), i.optional(3)), i.attr("activation_params", ()))


_GEMM, _CONV = Gemm.onnx["Gemm", 11], Conv.onnx["Conv", 1]
register_contrib(MatMul, FusedMatMul=ranked(_import_matmul), TransposeMatMul=ranked(_import_matmul))
register_contrib(MatMul, MatMulInteger16=_import_integers)
register_contrib(Gemm, FusedGemm=_import_gemm)
register_contrib(Conv, FusedConv=import_conv)
