"""Folds per-channel scales and shifts (BatchNormalization, Mul, Add, ...) into the preceding convolution or
Gemm.

``s * conv(x, w, b) + t`` is ``conv(x, s * w, s * b + t)`` (Jacob et al., 2018, section 3.2), computed in
float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rule, Var
from graphwright.ir.op import Array, Op
from graphwright.ir.types import BF16
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.div import Div
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.nn.batch_normalization import BatchNormalization
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.passes.rule_pass import RulePass

X, W, BIAS, C = Var("x"), Const("weight"), Opt("bias"), Const("c")
SCALE, SHIFT, MEAN, VARIANCE = Const("scale"), Const("shift"), Const("mean"), Const("variance")
CONTRACTION = P[Conv | ConvTranspose | Gemm]((Conv, ConvTranspose, Gemm), X, W, BIAS, once=True)
DROWNED = 2.0**64
"""A bias of at least this many times the smallest subnormal hides what underflow takes from a weight: in f32,
as long as the magnitudes of the summed operands add up to less than 2**40. No f16 is that large.
"""
Affine = tuple[Array, Array]
"""Scale and shift per channel, in float64."""


def _channels(m: Match) -> int:
    """Number of output channels of the product."""
    dim = m.node(CONTRACTION).output.type.dims[1]
    assert isinstance(dim, int)
    return dim


def _foldable(m: Match) -> str | None:
    bias = m.optional(BIAS)
    if bias is not None and bias.type.rank != 1:
        return "the bias is not a vector"
    if bias is not None and m.constant(BIAS) is None:
        return "the bias is not constant"
    if not m[W].type.dtype.is_float:
        return "the product has integer weights"
    output = m.node(CONTRACTION).output.type
    if output.shape is None or not isinstance(output.shape[1], int):
        return "the number of channels is not known"
    if m.root.output.type != output:
        return f"the result is broadcast to {m.root.output.type}"
    return None


def _per_channel(m: Match) -> str | None:
    reason = _foldable(m)
    if reason is not None:
        return reason
    rank, shape = m.node(CONTRACTION).output.type.rank or 0, m.array(C).shape
    full = (1,) * (rank - len(shape)) + shape
    if not bool(np.isfinite(m.array(C).astype(np.float64)).all()):
        return "the constant is not finite"
    if any(size != 1 for axis, size in enumerate(full) if axis != 1):
        return f"the constant of shape {list(shape)} varies along axes other than the channels"
    return None


def _vector(m: Match) -> Array:
    """The constant as one element per channel."""
    return np.broadcast_to(m.array(C).astype(np.float64).reshape(-1), (_channels(m),))


def _lost(m: Match, affine: Affine) -> str | None:
    """Why the folded weights and bias would overflow or lose precision in their dtype."""
    op, (scale, shift), w = m.op(CONTRACTION), affine, m.array(W)
    is_bf16 = m[W].type.dtype == BF16  # the range of f32, with steps of 2**-7
    info = np.finfo(np.float32 if is_bf16 else w.dtype)
    tiny = float(info.smallest_normal)
    drowned = tiny * (2.0**-7 if is_bf16 else float(info.eps)) * DROWNED
    with np.errstate(all="ignore"):
        before = np.abs(op.weights_by_channel(w)).max(1, initial=0).astype(np.float64)
        after = before * np.abs(scale)
        shifted = _bias(m, op.with_whole_bias()[1]) * scale + shift
        for what, numbers in (("weights", after), ("biases", shifted)):
            if bool((np.isfinite(numbers) & ~np.isfinite(numbers.astype(w.dtype))).any()):
                return f"the folded {what} would overflow"
    if bool(((after > 0) & (after < tiny) & (before >= tiny) & (np.abs(shifted) <= drowned)).any()):
        return "the folded weights would lose digits to underflow"
    return None


def _bias(m: Match, factor: float) -> Array:
    """The bias per output channel times ``factor``, in float64."""
    given = m.constant(BIAS)
    if given is None:
        return np.zeros(_channels(m))
    return np.broadcast_to(given.astype(np.float64) * factor, _channels(m))


def _folded(b: Builder, m: Match, affine: Affine) -> Value | str:
    """The product with ``affine`` folded into its weights and bias."""
    if (lost := _lost(m, affine)) is not None:
        return lost
    scale, shift = affine
    weight = m[W]
    op, factor = m.op(CONTRACTION).with_whole_bias()
    bias = _bias(m, factor)
    dtype = m.array(W).dtype
    with np.errstate(all="ignore"):
        shifted = (bias * scale + shift).astype(dtype)
        if not bool((scale == 1).all()):
            wide = m.array(W).astype(np.float64)
            weight = b.const((wide * op.along_channels(scale, wide.shape)).astype(dtype))
    result: Value = b(op, m[X], weight, b.const(shifted))
    return result


def _rule(
    name: str, pattern: P[Op], affine: Callable[[Array], Affine], check: Callable[[Match], str | None]
) -> Rule:
    return Rule(name, pattern, check, lambda b, m: _folded(b, m, affine(_vector(m))))


def _divisor_is_safe(m: Match) -> str | None:
    return _per_channel(m) or (None if bool((m.array(C) != 0).all()) else "the divisor contains zeros")


NORMALIZED = P(BatchNormalization, CONTRACTION, SCALE, SHIFT, MEAN, VARIANCE)


def _normalized(b: Builder, m: Match) -> Value | str:
    affine: Affine = m.op(NORMALIZED).affine(*map(m.array, (SCALE, SHIFT, MEAN, VARIANCE)))
    if not all(bool(np.isfinite(part).all()) for part in affine):
        return "a parameter is not finite, or a variance is negative"
    return _folded(b, m, affine)


RULES: tuple[Rule, ...] = (
    Rule("BatchNormalization of a contraction", NORMALIZED, _foldable, _normalized),
    _rule("Mul of a contraction", P(Mul, CONTRACTION, C), lambda c: (c, 0 * c), _per_channel),
    _rule("Div of a contraction", P(Div, CONTRACTION, C), lambda c: (1 / c, 0 * c), _divisor_is_safe),
    _rule("Add to a contraction", P(Add, CONTRACTION, C), lambda c: (1 + 0 * c, c), _per_channel),
    _rule("Sub from a contraction", P(Sub, CONTRACTION, C), lambda c: (1 + 0 * c, -c), _per_channel),
)

FOLD_CONV_BN = RulePass("fold_conv_bn", RULES)
"""The pass."""
