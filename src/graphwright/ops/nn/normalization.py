"""Helpers of normalizations: parameters per channel, and the normalization to mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.checks import FLOATS, need_dtype
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.references import mean_over, widened
from graphwright.ops.core.unary import Reciprocal, Sqrt
from graphwright.ops.core.unsqueeze import Unsqueeze


def need_channels(at: Inference, x: Fact, *parameters: Fact) -> None:
    """Raises InferError unless ``x`` is a float tensor [N, C, ...] and each parameter is [C]."""
    need_dtype(at, x, FLOATS)
    if x.rank < 2:
        raise at.fail(f"the input is {x.type}; it needs a batch axis and a channel axis")
    for parameter in parameters:
        need_vector(at, parameter, x, "channels")


def need_vector(at: Inference, parameter: Fact, x: Fact, what: str) -> None:
    """Raises InferError unless ``parameter`` is a vector with one element for each channel of ``x``."""
    if parameter.rank != 1:
        raise at.fail(f"a parameter is {parameter.type}; it must be a vector")
    at.equal(parameter.shape[0], x.shape[1], f"{what} of a parameter and of the input")


def along_channels(b: Builder, parameter: Value, rank: int) -> Value:
    """``parameter[C]`` as ``[C, 1, ...]``, which broadcasts with ``x[N, C, ...]`` of ``rank``."""
    if rank == 2:
        return parameter
    result: Value = b(Unsqueeze(tuple(range(1, rank - 1))), parameter)
    return result


def channels(parameter: Array, rank: int) -> Array:
    """:func:`along_channels` in NumPy; 16-bit floats are converted to f32."""
    return widened(parameter).reshape((-1, *[1] * (rank - 2)))


def standardized(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value, Value]:
    """``(x - mean) * inverse``, the mean over ``axes``, and ``inverse = 1 / sqrt(variance + epsilon)``. The
    reduced axes stay with size 1.
    """
    reduce = ReduceMean(tuple(axes))
    mean = b(reduce, x)
    centered = b(Sub(), x, mean)
    variance = b(reduce, b(Mul(), centered, centered))
    inverse = b(Reciprocal(), b(Sqrt(), b(Add(), variance, b.const(epsilon, x.type.dtype))))
    return b(Mul(), centered, inverse), mean, inverse


def standardize(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array, Array]:
    """:func:`standardized` in NumPy."""
    reduced = tuple(axes)
    mean = mean_over(x, reduced)
    centered = x - mean
    variance = mean_over(centered * centered, reduced)
    inverse = np.asarray(1 / np.sqrt(variance + x.dtype.type(epsilon)), x.dtype)
    return centered * inverse, mean, inverse
