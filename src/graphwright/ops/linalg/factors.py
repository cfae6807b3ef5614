"""Checks and references that all factorizations of matrices share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphwright.ir.op import Array, Fact, Inference
from graphwright.ops.core.checks import FLOATS, need_dtype
from graphwright.ops.core.references import widened


def need_matrices(at: Inference, x: Fact) -> None:
    """Raises InferError unless ``x`` is a float tensor [..., M, N]."""
    need_dtype(at, x, FLOATS)
    if x.rank < 2:
        raise at.fail(f"the input is {x.type}; it must have at least 2 axes")


def factors(function: Callable[[Array], Sequence[Array]], x: Array) -> tuple[Array, ...]:
    """The results of ``function`` for ``x``, which has matrices on its last two axes. The factors of a matrix
    for which it raises LinAlgError are NaN.
    """
    wide = widened(x)
    try:
        results = function(wide)
    except np.linalg.LinAlgError:  # it does not converge for a matrix, such as one with NaN
        shapes = function(np.zeros_like(wide))
        stacks = [np.full_like(each, np.nan) for each in shapes]
        for at in np.ndindex(x.shape[:-2]):
            _set_factors(function, wide[at], [each[at] for each in stacks])
        results = stacks
    return tuple(np.asarray(each).astype(x.dtype) for each in results)


def _set_factors(function: Callable[[Array], Sequence[Array]], x: Array, targets: Sequence[Array]) -> None:
    try:
        for target, each in zip(targets, function(x), strict=True):
            target[...] = each
    except np.linalg.LinAlgError:
        return
