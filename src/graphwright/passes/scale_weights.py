"""Scales the weights of a 1x1 convolution instead of its input image, after squeeze-and-excitation.

``conv(x * s, w) = conv(x, w * s)`` if ``s`` is one factor per input channel. A large image has many more
elements than the weights, and would be read and written once more.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.nominal import nominal
from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.hints import conflict
from graphwright.ir.match import Const, Match, Opt, P, Rule, Var
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Mul
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.scaled_conv import ScaledConv
from graphwright.passes.rule_pass import RulePass

PIXELS_PER_FEATURE: Final = 4
"""The fewest pixels of the image per output channel for which scaling the weights is faster."""

A, B, W, BIAS = Var("a"), Var("b"), Const("w"), Opt("bias")
SCALED = P(Mul, A, B, once=True)
CONV = P(Conv, SCALED, W, BIAS)


def _scaled_weights(b: Builder, m: Match) -> Value | Refusal:
    found = _image_and_scale(m) if m.root.output.type.shape is not None else None
    if found is None:
        return Refusal(Code.SCALE_PIXELS, f"{m[A].type} times {m[B].type} is not a scale per channel")
    image, scale = found
    if image.producer is not None and len(image.users) == 1:
        return Refusal(
            Code.SCALE_EPILOGUE,
            f"{image.producer.location} computes the image only for this node and can scale it",
        )
    pixels = nominal(product(image.type.dims[2:]), m.module.symbols)
    features = m[W].type.sizes[0]
    if pixels < PIXELS_PER_FEATURE * features:
        return Refusal(
            Code.SCALE_COST,
            f"an image of {pixels} pixels is small compared to weights for {features} channels",
        )
    if (apart := conflict(m.sources, m.module.hints)) is not None:
        return Refusal(Code.SCALE_HINT, apart)
    bias = [] if (given := m.optional(BIAS)) is None else [given]
    result: Value = b(ScaledConv(m.op(CONV).strides), image, m[W], scale, *bias)
    return result


def _window_fault(m: Match) -> Refusal | None:
    op, w = m.op(CONV), m[W].type
    if op.is_plain and set(w.sizes[2:]) == {1} and w.dtype == F32:
        return None
    return Refusal(Code.SCALE_WINDOW, "the convolution is not a plain 1x1 convolution in f32")


def _image_and_scale(m: Match) -> tuple[Value, Value] | None:
    """The operands of the Mul: the image, and one factor per channel. None if they are not that."""
    scaled = m.node(SCALED).output.type
    images, channels, *pixels = scaled.dims
    factors = [(count, channels, *(1 for _ in pixels)) for count in (1, images)]
    for image, scale in ((m[A], m[B]), (m[B], m[A])):
        if image.type == scaled and scale.type.shape in factors and scale.type.shape != scaled.shape:
            return image, scale
    return None


SCALE_WEIGHTS = RulePass(
    "scale_weights",
    (Rule("convolution of a scaled image", CONV, _window_fault, _scaled_weights, Code.REPLACED),),
)
"""The pass."""
