"""Moves a Resize after the 1x1 convolution that reads it, so that the convolution computes
fewer pixels.

Both are linear, one along pixels and the other along channels, so they commute. A convolution of a
concatenation is split by its operands, ``W [a b] = A a + B b``, and nothing is concatenated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from graphwright.cost.nominal import nominal
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.hints import conflict
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.match import Const, Match, Opt, P, Rest, Rule, Var, always, used_once
from graphwright.ir.op import Array
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.symbols import product
from graphwright.ir.types import F32, F64
from graphwright.ops.core.binary import Add
from graphwright.ops.core.concat import Concat
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.resize import Resize
from graphwright.passes.rule_pass import RulePass
from graphwright.records import replace

PER_ELEMENT: Final = {"nearest": 4, "linear": 24, "cubic": 64}
"""Cost of resizing one element, in multiplications of a convolution."""
ADDITION: Final = 20
"""Cost of reading, adding and writing one element of the result, in multiplications."""

X, W, BIAS, PARTS = Var("x"), Const("w"), Opt("bias"), Rest("parts")
RESIZED = P(Resize, X)
JOINED = P(Concat, PARTS)
OF_RESIZED = P(Conv, RESIZED, W, BIAS)
OF_JOINED = P(Conv, JOINED, W, BIAS)


# ---- legality and cost


def _window_fault(node: Node) -> Refusal | None:
    """Why ``node`` is not a 1x1 convolution with constant weights; None if it is."""
    if node.output.type.shape is None:
        return Refusal(Code.RESIZE_KIND, "the rank is not known")
    if isinstance(node.op, Conv) and _is_pointwise(node.op, node.operand(1)):
        return None
    return Refusal(
        Code.RESIZE_WINDOW, "the convolution is not 1x1 with stride 1, no groups and constant weights"
    )


def _is_pointwise(op: Conv, w: Value) -> bool:
    if op.group > 1 or op.auto_pad or not set(op.strides) <= {1} or not set(op.pads) <= {0}:
        return False
    return constant_of(w) is not None and set(w.type.sizes[2:]) == {1}


def _read_fault(image: Value) -> Refusal | None:
    """Why ``image`` is computed anyway: it has readers other than 1x1 convolutions."""
    others = [user for user in image.users if _window_fault(user) is not None or user.operand(0) is not image]
    if not others and not image.is_output:
        return None
    why = (
        f"{others[0].location} reads the resized image"
        if others
        else "the resized image is an output of the graph"
    )
    return Refusal(Code.RESIZE_READ, why)


def _resize_of(value: Value) -> Node | None:
    """The Resize that computes ``value``, if its parameters are constant."""
    node = value.producer
    if node is None or not isinstance(node.op, Resize) or any(v is not None for v in node.inputs[1:]):
        return None
    return node


def _resize_fault(resize: Node, features: int, additions: int, module: Module) -> Refusal | None:
    """Why ``resize`` cannot be moved after a convolution to ``features`` channels, or why that does not pay.
    ``additions``: how many additions the result of the convolution takes part in.
    """
    op, x, y = resize.op, resize.operand(0).type, resize.output.type
    assert isinstance(op, Resize)
    if x.dtype not in (F32, F64):
        return Refusal(Code.RESIZE_DTYPE, f"results of type {x.dtype} would be rounded once more")
    keeps_channels = x.dims[:2] == y.dims[:2] and set((op.scales or ())[:2]) <= {1}
    if op.crops or op.axes is not None or not keeps_channels:
        return Refusal(Code.RESIZE_KIND, f"it resizes batch or channels ({x} to {y}), or crops")
    before, after = (nominal(product(type.dims[2:]), module.symbols) for type in (x, y))
    channels = nominal(x.dims[CHANNELS], module.symbols)
    saved = channels * features * (after - before)
    more = PER_ELEMENT[op.mode] * (features - channels) + ADDITION * additions * features
    if saved > more * after:
        return None
    why = f"from {before} to {after} pixels, of {channels} to {features} channels"
    return Refusal(Code.RESIZE_COST, why)


def _features(m: Match) -> int:
    """Number of output channels."""
    return m[W].type.sizes[0]


def _hint_fault(m: Match, resizes: Sequence[Node]) -> Refusal | None:
    apart = conflict(_sources(m, resizes), m.module.hints)
    return None if apart is None else Refusal(Code.RESIZE_HINT, apart)


def _sources(m: Match, resizes: Sequence[Node]) -> tuple[str, ...]:
    """Source nodes of the match and of ``resizes``, which the pattern does not contain."""
    return tuple(dict.fromkeys((*(source for node in resizes for source in node.sources), *m.sources)))


def _resized_refusal(m: Match) -> Refusal | None:
    resize = m.node(RESIZED)
    return (
        _window_fault(m.root)
        or _read_fault(resize.output)
        or _resize_fault(resize, _features(m), 0, m.module)
        or _hint_fault(m, [resize])
    )


def _sinking(m: Match, resizes: Sequence[Node]) -> set[Node] | Refusal | str:
    """The ``resizes``, operands of the concatenation, that move after it; or the reason why none does."""
    if not resizes:
        return "no operand of the concatenation is a resized image"
    if (fault := _window_fault(m.root)) is not None:
        return fault
    joined = m.node(JOINED)
    if m.op(JOINED).axis % len(joined.output.type.dims) != CHANNELS:
        return Refusal(Code.RESIZE_KIND, "the concatenation is not along the channel axis")
    if not all(isinstance(v.type.dims[CHANNELS], int) for v in joined.inputs if v is not None):
        return Refusal(Code.RESIZE_KIND, "the number of channels of an operand is not known")
    faults = {node: _part_fault(node, m) for node in resizes}
    fault = faults[resizes[0]] if all(faults.values()) else None
    fault = fault or _read_fault(joined.output) or _hint_fault(m, resizes)
    return fault or {node for node in resizes if faults[node] is None}


def _resizes(m: Match) -> list[Node]:
    """The Resize nodes among the operands of the concatenation."""
    return [node for v in m.rest(PARTS) if v is not None and (node := _resize_of(v)) is not None]


def _part_fault(resize: Node, m: Match) -> Refusal | None:
    """Why ``resize``, an operand of the concatenation, stays before the convolution."""
    if not used_once(resize.output):
        return Refusal(Code.RESIZE_READ, f"{resize.location} has readers other than the concatenation")
    return _resize_fault(resize, _features(m), 1, m.module)


# ---- rewrites


def _sunk(b: Builder, resize: Node, conv: Conv, *weights: Value) -> Value:
    """The convolution of the input of ``resize``, then resized."""
    op, convolved = resize.op, b(conv, resize.operand(0), *weights)
    assert isinstance(op, Resize)
    if op.sizes is not None:
        op = replace(
            op, sizes=(*op.sizes[:CHANNELS], convolved.type.dims[CHANNELS], *op.sizes[CHANNELS + 1 :])
        )
    result: Value = b(op, convolved)
    return result


def _bias(m: Match) -> tuple[Value, ...]:
    bias = m.optional(BIAS)
    return () if bias is None else (bias,)


def _resized(b: Builder, m: Match) -> Value:
    return _sunk(b, m.node(RESIZED), m.op(OF_RESIZED), m[W], *_bias(m))


def _split(b: Builder, m: Match) -> Value | Refusal | str:
    """The sum of the convolutions of all parts. Parts that stay are concatenated as before, and take the
    bias.
    """
    conv, bias, resizes = m.op(OF_JOINED), _bias(m), _resizes(m)
    sinking = _sinking(m, resizes)
    if not isinstance(sinking, set):
        return sinking
    b = Builder(b.module, b.graph, b.before, _sources(m, resizes))
    parts = _parts(m)
    terms: list[Value] = []
    if staying := [part for part in parts if part[0].producer not in sinking]:
        values, weights = zip(*staying, strict=True)
        image = values[0] if len(values) == 1 else b(m.op(JOINED), *values)
        terms.append(b(conv, image, b.const(np.concatenate(weights, axis=1)), *bias))
    for value, w in parts:
        resize = value.producer
        if resize in sinking:
            terms.append(_sunk(b, resize, conv, b.const(np.ascontiguousarray(w)), *(() if terms else bias)))
    total, *others = terms
    for term in others:
        total = b(Add(), total, term)
    return total


_Part = tuple[Value, Array]
"""An operand of the concatenation, and the weights of its channels."""


def _parts(m: Match) -> list[_Part]:
    parts = [v for v in m.rest(PARTS) if v is not None]
    ends = np.cumsum([v.type.dims[CHANNELS] for v in parts])  # numbers, though the other sizes may be open
    return list(zip(parts, np.split(m.array(W), ends[:-1], axis=1), strict=True))


SINK_RESIZES = RulePass(
    "sink_resizes",
    (
        Rule("convolution of a resized image", OF_RESIZED, _resized_refusal, _resized, Code.REPLACED),
        Rule("convolution of concatenated images", OF_JOINED, always, _split, Code.REPLACED),
    ),
)
"""The pass."""
