"""Merges convolutions of one image whose results are added: ``conv(x, v) + conv(x, w) = conv(x, v + w)``, or
subtracted.

Blocks of RepVGG and MobileOne are trained with several branches: convolutions, some with smaller windows, and
a normalization of the image itself, which is a convolution with one tap (Ding et al., "RepVGG: Making
VGG-style ConvNets Great Again", 2021, section 3.3). Weights are added in float64 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rule, Var, always
from graphwright.ir.op import Array
from graphwright.ops.core.binary import Add, Sub
from graphwright.ops.core.size_inference import number
from graphwright.ops.nn.batch_normalization import BatchNormalization
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.spatial import Windows
from graphwright.passes.rule_pass import RulePass
from graphwright.records import dataclass, replace

X, V, W, V_BIAS, W_BIAS = Var("x"), Const("v"), Const("w"), Opt("v_bias"), Opt("w_bias")
SCALE, SHIFT, MEAN, VARIANCE = Const("scale"), Const("shift"), Const("mean"), Const("variance")
FIRST, SECOND = P(Conv, X, V, V_BIAS, once=True), P(Conv, X, W, W_BIAS, once=True)
NORMALIZED = P(BatchNormalization, X, SCALE, SHIFT, MEAN, VARIANCE, once=True)
SUM, SUM_WITH_IMAGE = P((Add, Sub), FIRST, SECOND), P((Add, Sub), FIRST, NORMALIZED)


@dataclass(frozen=True)
class _Branch:
    """A convolution with constant weights and bias, multiplied by ``sign``; "wide" ones are in float64."""

    op: Conv
    weights: Array
    bias: Array
    sign: int = 1

    @property
    def kernel(self) -> tuple[int, ...]:
        return tuple(self.weights.shape[2:])

    @property
    def windows(self) -> Windows:
        return self.op.windows(self.kernel)

    @property
    def wide_weights(self) -> Array:
        return self.sign * self.weights.astype(np.float64)

    @property
    def wide_bias(self) -> Array:
        return self.sign * self.bias.astype(np.float64)


@dataclass(frozen=True)
class _Sum:
    """The sum of two convolutions. The first tap of ``small`` reads what ``large`` reads at ``first_tap``."""

    large: _Branch
    small: _Branch
    first_tap: tuple[int, ...]

    def weights(self) -> Array:
        """The weights of the convolution that computes the sum, in float64."""
        taps = (slice(k, k + n) for k, n in zip(self.first_tap, self.small.kernel, strict=True))
        weights = self.large.wide_weights
        weights[slice(None), slice(None), *taps] += self.small.wide_weights
        return weights

    def bias(self) -> Array:
        """The bias of that convolution, in float64."""
        return self.large.wide_bias + self.small.wide_bias

    def is_finite_in(self, dtype: np.dtype[Any]) -> bool:
        """Whether the weights and biases are finite in ``dtype`` even where the largest of both are added."""
        weights = _magnitude(self.large.weights) + _magnitude(self.small.weights)
        bias = _magnitude(self.large.bias) + _magnitude(self.small.bias)
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.array([weights, bias]).astype(dtype)).all())


def _magnitude(array: Array) -> float:
    return max(float(array.max(initial=0)), -float(array.min(initial=0)))


def _sum_of(large: _Branch, small: _Branch) -> _Sum | None:
    """The sum if the windows of ``small`` are parts of those of ``large``."""
    found = []
    pads, inner = ([number(pad) for pad in each.windows.pads] for each in (large, small))
    for k, (taps, fewer) in enumerate(zip(large.kernel, small.kernel, strict=True)):
        before, dilation = pads[k] - inner[k], large.windows.dilations[k]
        if fewer != 1 and small.windows.dilations[k] != dilation:
            return None
        if before % dilation or not 0 <= before // dilation <= taps - fewer:
            return None
        found.append(before // dilation)
    return _Sum(large, small, tuple(found))


def _branch(m: Match, pattern: P[Conv], weights: Const, bias: Opt) -> _Branch | str:
    """A branch, or why its weights cannot be changed."""
    op, given = m.op(pattern), m.optional(bias)
    if op.auto_pad or not all(isinstance(pad, int) for pad in op.pads):
        return "the pads are not known"
    if given is not None and (m.constant(bias) is None or given.type.rank != 1):
        return "the bias is not a constant vector"
    if m.root.output.type != m.node(pattern).output.type:
        return f"the sum has type {m.root.output.type}, other than a branch"
    if not m[weights].type.dtype.is_float or op.precision is not None:
        return "operands are rounded or integers"
    w, shift = m.array(weights), m.constant(bias)
    return _Branch(op, w, np.zeros(len(w)) if shift is None else shift)


def _identity(m: Match, other: _Branch) -> _Branch | str:
    """The normalization of an image as a convolution with one tap, and the groups of ``other``."""
    channels, (cout, cin) = m[X].type.dims[1], other.weights.shape[:2]
    if channels != cout or cin * other.op.group != cout:
        return "the convolution changes the number of channels"
    factor, shift = m.op(NORMALIZED).affine(*map(m.array, (SCALE, SHIFT, MEAN, VARIANCE)))
    weights = np.zeros((cout, cin, *(1,) * len(other.kernel)))
    weights[(np.arange(cout), np.arange(cout) % cin)] = factor.reshape(-1, *(1,) * len(other.kernel))
    return _Branch(Conv(group=other.op.group), weights, shift)


def _sum(m: Match) -> _Sum | str:
    """The sum of both branches, or why no convolution computes it."""
    first = _branch(m, FIRST, V, V_BIAS)
    if isinstance(first, str):
        return first
    has_weights = m.optional(W) is not None
    second = _branch(m, SECOND, W, W_BIAS) if has_weights else _identity(m, first)
    if isinstance(second, str):
        return second
    if first.op.group != second.op.group or first.windows.strides != second.windows.strides:
        return "the groups or the strides differ"
    if isinstance(m.root.op, Sub):
        second = replace(second, sign=-1)
    found = _sum_of(first, second) or _sum_of(second, first)
    return found or "the windows of neither are parts of those of the other"


def _convolution(b: Builder, m: Match) -> Value | str:
    found, dtype = _sum(m), m[V].type.dtype
    if isinstance(found, str):
        return found
    if not found.is_finite_in(m.array(V).dtype):
        return "a weight may not be finite"
    weights, bias = b.const(found.weights(), dtype), b.const(found.bias(), dtype)
    result: Value = b(found.large.op, m[X], weights, bias)
    return result


RULES: tuple[Rule, ...] = (
    Rule("convolutions of one image", SUM, always, _convolution),
    Rule("convolution and its image", SUM_WITH_IMAGE, always, _convolution),
)

MERGE_CONV_BRANCHES = RulePass("merge_conv_branches", RULES)
"""The pass."""
