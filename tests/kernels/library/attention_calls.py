"""Attention kernels on operands of any memory order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphwright.kernels.attention import attention
from graphwright.kernels.attention.attention import Attention, Guard
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings
from tests.kernels.library.harness import call, load, strided

Array = npt.NDArray[Any]


ORDERS = {"heads outside": (0, 1, 2, 3), "heads inside": (0, 2, 1, 3), "keys inmost": (0, 1, 3, 2)}


def expected(q: Array, k: Array, v: Array, mask: Array | None, made: Attention) -> Array:
    """The definition, with the scores of all pairs, in f64."""
    wide = [np.asarray(x, np.float64) for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(x, group, axis=1) for x in wide[1:])
    with np.errstate(all="ignore"):
        scores = np.einsum("bhqd,bhkd->bhqk", wide[0], keys) * made.scale
        if made.softcap:
            scores = made.softcap * np.tanh(scores / made.softcap)
        if mask is not None:
            scores = np.where(mask == 0, scores, mask) if made.fill else scores + mask
        if made.causal:
            rows, columns = np.indices(scores.shape[2:])
            scores[..., columns > rows + made.offset] = -np.inf
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        shares = powers / powers.sum(-1, keepdims=True)
        if made.guard is Guard.NAN:
            shares[np.isnan(shares)] = 0
        if made.guard is Guard.EMPTY:
            shares[np.all(scores == -np.inf, axis=-1)] = 0
        return np.einsum("bhqk,bhkd->bhqd", shares, values)


def attend(
    isa: Isa,
    sizes: tuple[int, int, int, int, int, int, int],
    *,
    order: str = "heads outside",
    mask: Array | None = None,
    side: str = "end",
    seed: int = 0,
    operands: tuple[Array, Array, Array] | None = None,
    symbol: str = attention.SYMBOL,
    own: tuple[int, ...] = (),
    **options: Any,
) -> tuple[Array, Array]:
    """What the kernel gives, alike for every chunking, and what is expected.

    ``sizes``: batch, heads, heads of keys, queries, keys, features, features of a value.
    """
    batch, heads, kv_heads, queries, keys, depth, width = sizes
    rng = np.random.default_rng(seed)
    shapes = ((batch, heads, queries, depth), (batch, kv_heads, keys, depth), (batch, kv_heads, keys, width))
    q, k, v = operands or (rng.standard_normal(s).astype(np.float32) for s in shapes)
    laid = [strided(x, ORDERS[order], 3, side) for x in (q, k, v)]
    full = None if mask is None else strided(mask, (0, 1, 2, 3), 0, side)
    mask_strides = (0, 0, 0, 0)
    if full is not None:
        a, b, c, d = (0 if n == 1 else s for n, s in zip(full[0].shape, full[1], strict=True))
        mask_strides = (a, b, c, d)
    results = []
    made = None
    for chunks in (None, *chunkings(_grid(isa, sizes))):
        y, y_strides = strided(np.zeros((batch, heads, queries, width)), ORDERS[order], 3, side)
        made = Attention(
            *sizes,
            *(strides for _, strides in laid),
            y_strides,
            mask_strides,
            options.pop("scale", 0.3),
            **options,
        )
        options["scale"] = made.scale
        buffers = [*(x for x, _ in laid), None if full is None else full[0], y]
        kernel = load(attention, isa)[symbol]
        scratch = made.scratch_bytes(isa)
        assert call(kernel, buffers, (*made.args, *own), made.grid(isa), scratch, chunks=chunks) == 0
        results.append(y.copy())
    assert made is not None
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].view(np.int32), other.view(np.int32))
    return results[0], expected(q, k, v, mask, made)


def _grid(isa: Isa, sizes: tuple[int, ...]) -> int:
    none = (0, 0, 0, 0)
    return int(Attention(*sizes, none, none, none, none).grid(isa))
