"""Reductions over each kind of axis, softmax, norms, orders and running sums."""

from __future__ import annotations

from typing import Any

from benchmarks.op_cases.case import Case, Operand, c, one, w, x


def _reduce(name: str, op: str, operand: Operand, *axes: int, keepdims: int = 0) -> Case:
    return one(f"{name}", op, operand, c(axes), keepdims=keepdims)


def _top(name: str, operand: Operand, k: int, **attributes: Any) -> Case:
    return one(f"top-k {name}", "TopK", operand, c([k]), outputs="y i", **attributes)


CASES = (
    _reduce("sum last", "ReduceSum", x(512, 768), -1),
    _reduce("sum first", "ReduceSum", x(512, 768), 0),
    _reduce("sum first of 4096x64", "ReduceSum", x(4096, 64), 0),
    _reduce("sum first of 100000x8", "ReduceSum", x(100_000, 8), 0),
    _reduce("sum middle", "ReduceSum", x(16, 128, 256), 1),
    _reduce("sum middle of 1", "ReduceSum", x(1, 512, 768), 1),
    _reduce("sum first and last", "ReduceSum", x(64, 64, 128), 0, 2),
    _reduce("sum all", "ReduceSum", x(512, 768), 0, 1),
    _reduce("sum all but channels", "ReduceSum", x(8, 64, 28, 28), 0, 2, 3),
    _reduce("sum short last", "ReduceSum", x(100_000, 4), -1),
    _reduce("sum 3 last", "ReduceSum", x(100_000, 3), -1),
    _reduce("mean last", "ReduceMean", x(1, 128, 768), -1, keepdims=1),
    _reduce("mean image", "ReduceMean", x(1, 256, 28, 28), 2, 3, keepdims=1),
    _reduce("mean tokens", "ReduceMean", x(8, 128, 384), 1),
    _reduce("mean channels", "ReduceMean", x(1, 256, 28, 28), 1, keepdims=1),
    _reduce("max last", "ReduceMax", x(512, 768), -1),
    _reduce("max channels", "ReduceMax", x(1, 64, 80, 80), 1),
    _reduce("max first", "ReduceMax", x(512, 768), 0),
    _reduce("max 8400x80", "ReduceMax", x(8400, 80), -1),
    _reduce("min all", "ReduceMin", x(512, 768), 0, 1),
    _reduce("prod last", "ReduceProd", x(512, 768, low=0.9, high=1.1), -1),
    _reduce("L1 last", "ReduceL1", x(512, 768), -1),
    _reduce("L2 last", "ReduceL2", x(512, 768), -1),
    _reduce("sum of squares", "ReduceSumSquare", x(512, 768), -1),
    _reduce("log sum exp", "ReduceLogSumExp", x(512, 768), -1),
    _reduce("sum i64", "ReduceSum", x(512, 768, dtype="i8", low=0, high=9), -1),
    _reduce("sum i32 first", "ReduceSum", x(512, 768, dtype="i4", low=0, high=9), 0),
    _reduce("sum f64", "ReduceSum", x(512, 768, dtype="f8"), -1),
    _reduce("mean f16", "ReduceMean", x(512, 768, dtype="f2"), -1),
    one("softmax last", "Softmax", x(512, 768), axis=-1),
    one("softmax attention", "Softmax", x(1, 12, 128, 128), axis=-1),
    one("softmax 1000 classes", "Softmax", x(1, 1000), axis=-1),
    one("softmax vocabulary", "Softmax", x(8, 32000), axis=-1),
    one("softmax channels", "Softmax", x(1, 21, 128, 128), axis=1),
    one("softmax 16 of DFL", "Softmax", x(1, 16, 4, 8400), axis=1),
    one("softmax short", "Softmax", x(20000, 4), axis=-1),
    one("log softmax", "LogSoftmax", x(512, 768), axis=-1),
    one("log softmax CTC", "LogSoftmax", x(1, 80, 6625), axis=-1),
    one("hardmax", "Hardmax", x(512, 768), axis=-1),
    one("layer norm", "LayerNormalization", x(1, 128, 768), w(768), w(768), axis=-1),
    one("layer norm 96", "LayerNormalization", x(1, 3136, 96), w(96), w(96), axis=-1),
    one("layer norm 1 row", "LayerNormalization", x(1, 4096), w(4096), w(4096), axis=-1),
    one("rms norm", "RMSNormalization", x(1, 128, 2048), w(2048), axis=-1, opset=23),
    one("L2 norm", "LpNormalization", x(512, 768), axis=-1, p=2),
    one("mean variance norm", "MeanVarianceNormalization", x(1, 64, 56, 56), axes=[0, 2, 3]),
    one("argmax last", "ArgMax", x(512, 768), axis=-1, keepdims=0),
    one("argmax first", "ArgMax", x(512, 768), axis=0, keepdims=0),
    one("argmax channels", "ArgMax", x(1, 21, 256, 256), axis=1, keepdims=0),
    one("argmax vocabulary", "ArgMax", x(1, 32000), axis=-1, keepdims=0),
    one("argmin last", "ArgMin", x(512, 768), axis=-1, keepdims=0),
    one("cumsum last", "CumSum", x(512, 768), c(1)),
    one("cumsum first", "CumSum", x(512, 768), c(0)),
    one("cumsum i64", "CumSum", x(16, 2048, dtype="i8", low=0, high=2), c(1)),
    one("cumsum reverse", "CumSum", x(512, 768), c(1), reverse=1),
    _top("5 of 1000", x(1, 1000), 5, axis=-1),
    _top("300 of 8400", x(1, 8400), 300, axis=-1),
    _top("1 of 32000", x(8, 32000), 1, axis=-1),
    _top("50 of 32000", x(4, 32000), 50, axis=-1),
    _top("1000 of 200000", x(1, 200_000), 1000, axis=-1),
    _top("300 over rows", x(1, 8400, 80), 300, axis=1),
    _top("sorting 1000", x(64, 1000), 1000, axis=-1),
    _top("unsorted", x(16, 8400), 100, axis=-1, sorted=0),
    _top("least", x(16, 8400), 100, axis=-1, largest=0),
    _top("8 of 64 experts", x(512, 64), 8, axis=-1),
    _top("i64", x(16, 4096, dtype="i8", low=0, high=1 << 40), 10, axis=-1),
    one("dropout", "Dropout", x(512, 768)),
)  # fmt: skip
