"""NaN, infinities, zeros of both signs and subnormals through every elementwise op, native against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphwright as gw
import graphwright.ops
from graphwright.errors import ModelError
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.op import Op, Sample, Trait, registered_ops
from graphwright.ir.types import BF16, F16, F32, F64, DType, TensorType
from graphwright.kernels.select import Selection, host_steps
from graphwright.targets.cpu.c.dtypes import C_TYPES
from tests.ops.support import TOLERANCE, run_reference

Array = np.ndarray[Any, Any]

graphwright.ops.load()
ELEMENTWISE = {
    name: cls
    for name, cls in registered_ops().items()
    if Trait.ELEMENTWISE in cls.traits and cls.__module__.startswith("graphwright.ops.")
}
DTYPES = (F32, F64, F16, BF16)
SPECIAL = (np.nan, np.inf, 0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 20.0, 100.0, 6e-5)

CANCELLING = frozenset({"Gelu", "HardSigmoid", "HardSwish", "Mish", "Swish"})
"""Terms of size 1 cancel in them: what is left is compared with 1, not with itself."""

FREE_ZERO = frozenset({"Celu", "Clip", "Max", "Min", "Relu", "RoundToRange", "Sign"})
"""Of zeros of both signs either may be the larger (IEEE 754-2008, 5.3.1); NumPy's choice varies."""


def values(dtype: DType) -> Array:
    """Special values of both signs, the least subnormal and normal ones and the largest."""
    info = np.finfo(np.float64) if dtype == F64 else np.finfo(np.float32)
    limits = {
        F32: (1e-45, 1e-39, float(info.tiny), float(info.max)),
        F64: (5e-324, 1e-310, float(info.tiny), float(info.max)),
        F16: (6e-8, 3e-5, 6.104e-5, 65504.0),
        BF16: (1e-40, 1e-39, 1.2e-38, 3.38e38),
    }[dtype]
    found = [*SPECIAL, *limits]
    return np.array([*found, *(-v for v in found)]).astype(dtype.numpy)


def float_samples(cls: type[Op]) -> list[Sample]:
    """One sample for each op with other attributes that takes only floats."""
    found: dict[Op, Sample] = {}
    for sample in cls.samples:
        floats = all(a is not None and a.type.dtype.is_float for a in sample.inputs)
        if not sample.error and floats and sample.inputs:
            found.setdefault(sample.op, sample)
    return list(found.values())


def operands(count: int, dtype: DType) -> list[Array]:
    """Every combination of special values, up to two operands; a third repeats the first."""
    v = values(dtype)
    if count == 1:
        return [v]
    grid = [np.ascontiguousarray(a.ravel()) for a in np.meshgrid(v, v)]
    return [*grid, *grid][:count]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_values_follow_numpy(dtype: DType) -> None:
    """One model per dtype has all ops, so that their kernels are compiled together."""
    module = Module()
    cases: list[tuple[str, Op, Sequence[Array]]] = []
    for name, cls in ELEMENTWISE.items():
        for sample in float_samples(cls):
            if accepts(sample.op, len(sample.inputs), dtype):
                cases.append((name, sample.op, operands(len(sample.inputs), dtype)))
    types = [TensorType(dtype, a.shape) for _, _, arrays in cases for a in arrays]
    b, inputs = new_main_graph(module, [(f"x{k}", t) for k, t in enumerate(types)])
    feed = iter(inputs)
    b.graph.set_outputs([b(op, *(next(feed) for _ in arrays)) for _, op, arrays in cases])
    hosted: list[str] = []

    def observe(stage: str, made: object) -> None:
        if stage == "select" and isinstance(made, Selection):
            hosted.extend(f"{node.op.name}: {reason}" for node, reason in host_steps(made.steps))

    model = gw.compile(module, observe=observe)
    results = model(*(a for _, _, arrays in cases for a in arrays))
    assert not hosted
    wrong = []
    for (name, op, arrays), actual in zip(cases, results, strict=True):
        (expected,) = run_reference(op, arrays)
        bad = differing(name, np.asarray(actual), expected, dtype)
        if bad.any():
            k = int(np.argmax(bad))
            wrong.append((name, op.attributes(), [a[k] for a in arrays], actual[k], expected[k]))
    assert not wrong, "\n".join(map(str, wrong))


def accepts(op: Op, count: int, dtype: DType) -> bool:
    """Whether ``op`` takes ``count`` operands of ``dtype``; floats of 8 bits are left to the reference."""
    module = Module()
    b, inputs = new_main_graph(module, [(f"x{k}", TensorType(dtype, (2,))) for k in range(count)])
    try:
        return b(op, *inputs).type.dtype.name in C_TYPES
    except ModelError:
        return False


def differing(name: str, actual: Array, expected: Array, dtype: DType) -> Array:
    """The positions where NaN, infinity, the sign of zero or the value differ from NumPy."""
    if expected.dtype.kind in "iub":
        return np.asarray(actual != expected)
    with np.errstate(all="ignore"):
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        size = np.maximum(np.abs(e), name in CANCELLING)
        near = np.abs(a - e) <= TOLERANCE[str(dtype)] * size + np.finfo(np.float32).smallest_subnormal
    same = (a == e) & ((np.signbit(a) == np.signbit(e)) | (name in FREE_ZERO)) | (np.isnan(a) & np.isnan(e))
    return ~(same | (near & np.isfinite(a) & ((e != 0) | (name in CANCELLING))))
