"""Makers of random numbers. Nothing reads them: peers agree on types, shapes and ranges alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from .draft import Draft, Value, uniform
from .makers import FLOATS, makes

TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16}


def drawn(g: Draft, op: str, inputs: list[Value | None], **attributes: Any) -> None:
    """A node whose outputs no other node reads, with or without a seed."""
    if g.chance(0.6):
        attributes["seed"] = float(g.random.randrange(1, 99))
    for value in g.node(op, inputs, **attributes):
        g.values.remove(value)


@makes("RandomNormal", "RandomUniform")
def shaped(g: Draft, op: str) -> None:
    extent = {"mean": 3.0, "scale": 0.5} if op == "RandomNormal" else {"low": -2.0, "high": 5.0}
    dtype = {"dtype": TYPES[g.pick(*FLOATS)]} if g.chance(0.5) else {}
    drawn(g, op, [], shape=[g.pick(0, 1, 2, 3) for _ in range(g.pick(1, 2, 3))], **extent, **dtype)


@makes("RandomNormalLike", "RandomUniformLike")
def like(g: Draft, op: str) -> None:
    x = g.operand(FLOATS if g.chance(0.7) else ("int32", "int64"))
    dtype = {"dtype": TYPES[g.pick(*FLOATS)]} if g.chance(0.5) or not x.dtype.startswith("f") else {}
    drawn(g, op, [x], **dtype)


@makes("Bernoulli")
def bernoulli(g: Draft, op: str) -> None:
    x = g.fresh(g.pick(*FLOATS), g.dims(g.pick(0, 1, 2)), uniform(0, 1))
    dtype = (
        {"dtype": g.pick(TensorProto.BOOL, TensorProto.INT32, TensorProto.DOUBLE)} if g.chance(0.5) else {}
    )
    drawn(g, op, [x], **dtype)


@makes("Multinomial")
def multinomial(g: Draft, op: str) -> None:
    x = g.fresh("float32", [g.dim(1, 2, 3), g.dim(1, 2, 5)], uniform(-2, 2))
    dtype = {"dtype": g.pick(TensorProto.INT32, TensorProto.INT64)} if g.chance(0.6) else {}
    drawn(g, op, [x], sample_size=g.pick(1, 2, 7), **dtype)


RANGES = {
    "RandomUniform": (-2.0, 5.0),
    "RandomUniformLike": (0.0, 1.0),
    "Bernoulli": (0.0, 1.0),
    "Multinomial": (0.0, 4.0),
    "RandomNormal": (-3.0, 9.0),
    "RandomNormalLike": (-9.0, 9.0),
}
"""What elements lie in: normal ones within 9 to 12 deviations."""


def difference(op: str, got: Any, want: Any) -> str:
    """The fault of random numbers of ``op``: their type, shape or range."""
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    low, high = RANGES[op]
    wide = got.astype(np.float64)
    return "" if ((wide >= low) & (wide <= high)).all() else f"values: some are outside of [{low}, {high}]"
