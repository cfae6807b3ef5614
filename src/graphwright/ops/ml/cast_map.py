"""CastMap."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, I64, STRING, DType, TensorType, map_of
from graphwright.ops.ml.post_transforms import DOMAIN

_TYPES = {"TO_FLOAT": F32, "TO_INT64": I64, "TO_STRING": STRING}


@op("CastMap")
class CastMap(Op):
    """The values of a map with integer keys, as one row of dtype ``to``.

    Without ``size`` they are in the order of the keys (ONNX: ``map_form`` DENSE). With ``size`` (SPARSE),
    each value is at the position of its key, and other elements are 0 or an empty string.
    """

    to: DType = F32
    size: int | None = None

    def verify(self) -> None:
        if self.to not in _TYPES.values() or (self.size is not None and self.size < 1):
            raise InferError(f"a map cannot be cast to a row of {self.size} elements of {self.to}")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        if x.dtype.key != I64 or x.dtype.element not in (F32, STRING):
            raise at.fail(f"the input is {x.type}; it must be a map from i64 to f32 or string")
        count: Dim = at.symbols.fresh("entries") if self.size is None else self.size
        return TensorType(self.to, (1, count))

    def reference(self, x: dict[int, Any]) -> Array:
        entries = {key: self._cast(value) for key, value in sorted(x.items())}
        if self.size is None:
            return np.array([list(entries.values())], self.to.numpy).reshape(1, len(entries))
        row = np.full((1, self.size), "" if self.to == STRING else 0, self.to.numpy)
        for key, value in entries.items():
            if not 0 <= key < self.size:
                raise IndexError(f"key {key} is out of range for a row of {self.size} elements")
            row[0, key] = value
        return row

    def _cast(self, value: Any) -> Any:
        if self.to == STRING:
            return value if isinstance(value, str) else f"{value:f}"
        return float(value) if self.to == F32 else _integer(value)


def _integer(value: float | str) -> int:
    """``value`` truncated to an integer. A string of digits is converted without rounding."""
    try:
        return int(value)
    except ValueError:
        return int(float(value))


def _import(i: Importer) -> Any:
    cast, form = str(i.attr("cast_to", "TO_FLOAT")), str(i.attr("map_form", "DENSE"))
    if cast not in _TYPES or form not in ("DENSE", "SPARSE"):
        raise i.fail(f"cast_to {cast!r} with map_form {form!r} is not supported")
    return i.emit(CastMap(_TYPES[cast], int(i.attr("max_map", 1)) if form == "SPARSE" else None), i.input(0))


CastMap.onnx = {("CastMap", 1, DOMAIN): _import}
_MAP = arg(map_of(I64, F32))
CastMap.samples = (
    *(Sample(CastMap(t), (_MAP,)) for t in (F32, I64, STRING)),
    *(Sample(CastMap(t, 4), (_MAP,)) for t in (F32, I64, STRING)),
    Sample(CastMap(STRING), (arg(map_of(I64, STRING)),)),
    Sample(CastMap(F32), (arg(map_of(STRING, F32)),), "it must be a map from i64"),
    Sample(CastMap(F32, 0), (_MAP,), "a row of 0 elements of f32"),
)
