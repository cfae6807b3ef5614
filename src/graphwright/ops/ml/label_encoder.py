"""LabelEncoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, F64, I16, I32, I64, STRING, TensorType
from graphwright.ops.core.binary import LessOrEqual, Max, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.unary import IsNaN
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where

DTYPES = frozenset({STRING, F32, F64, I16, I32, I64})
_NAN = "nan"
"""The key that represents NaN in tables; it is equal to itself and to no number."""


@op("LabelEncoder")
class LabelEncoder(Op):
    """Maps each element with a table. Operands: x, keys[K], values[K], and the default value, a scalar.

    Of equal keys, the first one counts, as in ONNX Runtime. A key NaN matches NaN.
    """

    def infer(self, at: Inference, x: Fact, keys: Fact, values: Fact, default: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        need_dtype(at, keys, {x.dtype}, "the list of keys")
        need_dtype(at, values, DTYPES, "the list of values")
        need_dtype(at, default, {values.dtype}, "the default")
        if (keys.rank, values.rank, default.rank) != (1, 1, 0):
            raise at.fail(
                f"keys, values and default are {keys.type}, {values.type} and {default.type}: they must be"
                " two vectors and a scalar"
            )
        at.equal(keys.shape[0], values.shape[0], "keys and values")
        return TensorType(values.dtype, x.type.shape)

    def reference(self, x: Array, keys: Array, values: Array, default: Array) -> Array:
        table = _table(_keys(keys))
        positions = [table.get(key, keys.size) for key in _keys(x)]
        mapped = np.concatenate([values, default.reshape(1)])[np.array(positions, dtype=np.intp)]
        return np.asarray(mapped, dtype=values.dtype).reshape(x.shape)

    def decompose(self, b: Builder, x: Value, keys: Value, values: Value, default: Value) -> Value | None:
        """For constant numeric keys: the number of sorted keys that are at most x is the position of the only
        key that may be equal. None for strings and computed keys.
        """
        fact, rank = b.fact(keys), rank_of(x)
        if STRING in (x.type.dtype, values.type.dtype) or fact is None or fact.data is None:
            return None
        table = dict(_table(_keys(fact.data)))
        nan = table.pop(_NAN, None)
        y: Value = b(Expand(x.type.dims), default)
        if table:
            ordered = sorted(table)
            sorted_keys = b.const(np.array(ordered, dtype=fact.data.dtype))
            order = b.const(np.array([table[key] for key in ordered], dtype=np.int64))
            at_most = b(LessOrEqual(), sorted_keys, b(Unsqueeze((-1,)), x))
            count = b(ReduceSum((rank,), keepdims=False), b(Cast(I64), at_most))
            position = b(Max(), b(Sub(), count, b.const(1, I64)), b.const(0, I64))
            hit = b(Equal(), b(Gather(), sorted_keys, position), x)
            y = b(Where(), hit, b(Gather(), b(Gather(), values, order), position), y)
        return y if nan is None else b(Where(), b(IsNaN(), x), b(Gather(), values, b.const(nan, I64)), y)


def _keys(elements: Array) -> tuple[Any, ...]:
    """The elements as keys of a table."""
    listed = elements.ravel().tolist()
    if elements.dtype.kind != "f":
        return tuple(listed)
    return tuple(element if element == element else _NAN for element in listed)


@lru_cache(maxsize=16)  # a run on the host looks elements up in the table of the run before
def _table(keys: tuple[Any, ...]) -> Mapping[Any, int]:
    """The position of each key, of equal keys that of the first one."""
    table: dict[Any, int] = {}
    for position, key in enumerate(keys):
        table.setdefault(key, position)
    return table


def _import_1(i: Importer) -> Any:
    """Opset 1 of the domain maps a list of strings to their positions, or positions to strings, depending on
    the dtype of the input. Of equal strings, the last one counts.
    """
    words = [str(word) for word in i.required_attr("classes_strings")]
    positions, strings = np.arange(len(words), dtype=np.int64), np.array(words, dtype=object)
    if i.input(0).type.dtype != STRING:
        return _emit(i, positions, strings, str(i.attr("default_string", "_Unused")))
    return _emit(i, strings[::-1], positions[::-1], int(i.attr("default_int64", -1)))


def _import_2(i: Importer) -> Any:
    keys, values = _list(i, "keys"), _list(i, "values")
    default = i.attr("default_tensor")
    if default is None:
        kind = values.dtype.kind
        name, standard = {"O": ("string", "_Unused"), "f": ("float", -0.0)}.get(kind, ("int64", -1))
        default = i.attr(f"default_{name}", standard)
    elif default.size != 1 or default.dtype.kind != values.dtype.kind:
        raise i.fail(
            "default_tensor must have one element of the dtype of the values", "export the model again"
        )
    return _emit(i, keys, values, default)


def _list(i: Importer, what: str) -> Array:
    """The keys or values: the one attribute of ``keys_int64s``, ``keys_strings`` and so on that is given."""
    kinds = {"strings": object, "int64s": np.int64, "floats": np.float32}
    given: dict[str, Any] = {kind: i.attr(f"{what}_{kind}") for kind in (*kinds, "tensor")}
    found = [kind for kind, value in given.items() if value is not None]
    if len(found) != 1:
        names = ", ".join(f"{what}_{kind}" for kind in found) or "none"
        raise i.fail(f"exactly one list of {what} must be given, not {names}", "export the model again")
    (kind,) = found
    elements: Array = given[kind] if kind == "tensor" else np.array(given[kind], dtype=kinds[kind])
    return elements.ravel()


def _emit(i: Importer, keys: Array, values: Array, default: Any) -> Any:
    scalar = np.asarray(default).astype(values.dtype).reshape(())
    return i.emit(LabelEncoder(), i.input(0), i.const(keys), i.const(values), i.const(scalar))


LabelEncoder.onnx = {
    ("LabelEncoder", 1, "ai.onnx.ml"): _import_1,
    ("LabelEncoder", 2, "ai.onnx.ml"): _import_2,
    ("LabelEncoder", 4, "ai.onnx.ml"): _import_2,
}
_N = symbol("N")


def _lists(keys: Sequence[Any], values: Sequence[Any], default: Any, *dtypes: Any) -> tuple[Any, ...]:
    count = len(keys)
    first, second = dtypes
    return (
        arg(first, count, values=keys),
        arg(second, len(values), values=values),
        arg(second, values=(default,)),
    )


_NUMBERS = (2, -1, 0, 2)
_FLOATS = (0.5, float("nan"), -1.0, float("inf"))
_TEXTS = ("s1", "s0", "s3", "s1")
LabelEncoder.samples = (
    *(
        Sample(LabelEncoder(), (arg(t, 3, 4, fill="index"), *_lists(_NUMBERS, (1, 2, 3, 4), -9, t, t)))
        for t in (I16, I32, I64, F32, F64)
    ),
    Sample(
        LabelEncoder(), (arg(F32, 5, values=(*_FLOATS, 7.0)), *_lists(_FLOATS, (1, 2, 3, 4), -9, F32, I64))
    ),
    Sample(LabelEncoder(), (arg(STRING, _N, 2), *_lists(_TEXTS, (1, 2, 3, 4), -9, STRING, F32))),
    Sample(LabelEncoder(), (arg(STRING), *_lists(_TEXTS, _TEXTS[::-1], "?", STRING, STRING))),
    Sample(LabelEncoder(), (arg(I64, _N, 2, fill="index"), *_lists(_NUMBERS, _TEXTS, "?", I64, STRING))),
    Sample(LabelEncoder(), (arg(I64, _N, 2, fill="index"), *_lists(_NUMBERS, _FLOATS, -0.0, I64, F64))),
    Sample(LabelEncoder(), (arg(I64, fill="index"), *_lists((1,), (5,), 6, I64, I32))),
    Sample(LabelEncoder(), (arg(I64, 0, 3), *_lists((), (), 6, I64, I32))),
    Sample(LabelEncoder(), (arg(F32, 2, values=(1, np.nan)), *_lists((np.nan,), (5,), 6, F32, I32))),
    Sample(LabelEncoder(), (arg(F32, 2), *_lists((1,), (5,), 6, I64, I32)), "the list of keys is i64"),
    Sample(LabelEncoder(), (arg(BOOL, 2), *_lists((1,), (5,), 6, BOOL, I32)), "the input is bool"),
    Sample(
        LabelEncoder(), (arg(I64, 2), *_lists((1, 2), (5,), 6, I64, I32)), "keys and values: 2 and 1 differ"
    ),
)
