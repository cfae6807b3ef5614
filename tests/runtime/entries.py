"""A package with two entries, and its feeds."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.graph import Module

Array = np.ndarray[Any, Any]


LENGTH, FEATURES, HIDDEN = 16, 8, 64


WEIGHT = np.random.default_rng(0).standard_normal((FEATURES, HIDDEN)).astype(np.float32)


CACHE = (LENGTH, HIDDEN)


def prefill() -> Module:
    """Projects all rows of ``x`` and writes them to the first rows of the cache."""
    b = gw.GraphBuilder()
    x, cache = b.input("x", "f32", ("N", FEATURES)), b.state("cache", "f32", CACHE)
    rows = b.matmul(x, WEIGHT)
    count = b.shape(x, start=0, end=1)
    zero = np.zeros(1, np.int64)
    rest = b.slice(cache, count, np.array([LENGTH]), zero, np.ones(1, np.int64))
    written = b.reshape(b.concat(rows, rest, axis=0), np.array(CACHE))
    b.update(cache, written)
    b.output("rows", rows)
    return b.build()


def decode(name: str = "cache", dtype: str = "f32") -> Module:
    """Writes the projection of one row at ``at``, and sums the cache over rows."""
    b = gw.GraphBuilder()
    x, at = b.input("x", "f32", (1, FEATURES)), b.input("at", "i64", (1, 1))
    cache = b.state(name, dtype, CACHE)
    row = b.matmul(x, WEIGHT)
    written = b.scatter_nd(cache, at, b.cast(row, to=dtype) if dtype != "f32" else row)
    b.update(cache, written)
    b.output("total", b.reduce_sum(written, axes=(0,), keepdims=False))
    return b.build()


def compiled(device: str = "cpu", **more: Any) -> gw.Model:
    options = Options(device=device, threads=1, verify=True, **more)
    return gw.compile({"prefill": prefill(), "decode": decode()}, options=options)


def feeds(rows: int = 5) -> tuple[Array, Array]:
    random = np.random.default_rng(rows)
    return tuple(random.standard_normal((n, FEATURES)).astype(np.float32) for n in (rows, 1))  # type: ignore[return-value]  # two of them
