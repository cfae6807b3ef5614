"""Import of PyTorch's reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImport, AtenImporter
from graphwright.ir.symbols import Dim, maximum, product
from graphwright.ir.types import BOOL, U8, DType
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.range import scalar_of
from graphwright.ops.core.reductions import ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum, Reduction


def _reduce(i: AtenImporter, cls: type[Reduction], x: Value, has_dim: bool) -> Any:
    """``x`` reduced over the axes ``dim`` of an overload that ``has_dim``; over all axes if there
    are none.
    """
    axes = i.attr("dim") if has_dim else None
    axes = (axes,) if isinstance(axes, int) else axes
    keepdims = has_dim and bool(i.attr("keepdim"))
    return i.emit(cls(tuple(axes) if axes and rank_of(x) else None, keepdims), x)


def _aten_reduction(cls: type[Reduction], has_dim: bool) -> AtenImport:
    """A reduction, computed in the dtype of the result."""

    def convert(i: AtenImporter) -> Any:
        i.ignore("dtype")
        return _reduce(i, cls, i.result(i.input(0)), has_dim)

    return convert


def _aten_logical(cls: type[Reduction], has_dim: bool) -> AtenImport:
    """``any`` (ReduceMax) or ``all`` (ReduceMin): the elements become bools, then u8 numbers 0 and 1."""

    def convert(i: AtenImporter) -> Any:
        bits = as_dtype(i.builder, as_dtype(i.builder, i.input(0), BOOL), U8)
        return as_dtype(i.builder, _reduce(i, cls, bits, has_dim), BOOL)

    return convert


def _variance_and_mean(i: AtenImporter) -> Any:
    """The variance, with the divisor ``count - correction``, and the mean."""
    x, correction, keepdim = i.result(i.input(0)), i.attr("correction", 1), bool(i.attr("keepdim"))
    axes = tuple(i.attr("dim") or range(rank_of(x))) if rank_of(x) else ()
    count = product([x.type.dims[axis] for axis in axes])
    mean = i.emit(ReduceMean(axes or None), x)
    deviation = i.emit(Sub(), x, mean)
    total = i.emit(ReduceSum(axes or None, keepdim), i.emit(Mul(), deviation, deviation))
    variance = i.emit(Div(), total, _degrees_of_freedom(i, count, correction, x.type.dtype))
    return variance, mean if keepdim else i.emit(ReduceMean(axes or None, keepdims=False), x)


def _degrees_of_freedom(i: AtenImporter, count: Dim, correction: Any, dtype: DType) -> Value:
    """``count - correction``, but at least 0."""
    if isinstance(count, int):
        return i.const(np.asarray(max(count - correction, 0), dtype.numpy))
    if not float(correction).is_integer():
        raise i.fail(f"a correction of {correction} over dynamic dimensions is not supported")
    return as_dtype(i.builder, scalar_of(i.builder, maximum(count - int(correction), 0)), dtype)


for _cls, _whole, _dim in (
    (ReduceSum, "sum", "sum.dim_IntList"),
    (ReduceMean, "mean", "mean.dim"),
    (ReduceProd, "prod", "prod.dim_int"),
    (ReduceMax, "max", "amax"),
    (ReduceMin, "min", "amin"),
):
    _cls.aten = {_whole: _aten_reduction(_cls, has_dim=False), _dim: _aten_reduction(_cls, has_dim=True)}
for _cls, _name in ((ReduceMax, "any"), (ReduceMin, "all")):
    _cls.aten = {
        **_cls.aten,
        _name: _aten_logical(_cls, has_dim=False),
        **dict.fromkeys((f"{_name}.dim", f"{_name}.dims"), _aten_logical(_cls, has_dim=True)),
    }
ReduceMean.aten = {
    **ReduceMean.aten,
    "var.correction": lambda i: _variance_and_mean(i)[0],
    "var_mean.correction": _variance_and_mean,
}
