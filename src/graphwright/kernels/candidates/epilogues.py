"""Epilogues built into library kernels: ``act(scale * contraction + bias + residual)`` when they store."""

from __future__ import annotations

import math

from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.types import F32
from graphwright.kernels.library.bits import single_bits
from graphwright.ops.core.binary import Add, Max, Min, Mul
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.unary import Relu
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class Epilogue:
    """``clip(scale * contraction + bias + residual, low, high)``; ``bias`` and ``residual`` are inputs of the
    region.

    ``bias`` has one element per channel, ``residual`` the shape of the contraction.
    """

    bias: Value | None = None
    residual: Value | None = None
    scale: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    @property
    def act(self) -> int:
        """The code of the activation in kernels: 0 none, 1 relu, 2 clip."""
        if self.high != math.inf:
            return 2
        return {-math.inf: 0, 0.0: 1}.get(self.low, 2)

    @property
    def args(self) -> tuple[int, int, int]:
        """The arguments ``act``, ``lo`` and ``hi`` of kernels."""
        return self.act, single_bits(self.low), single_bits(self.high)

    def clipped(self, low: float, high: float) -> Epilogue:
        """``min(max(self, low), high)``, in this order."""
        low, high = min(max(self.low, low), high), min(max(self.high, low), high)
        return replace(self, low=low, high=high)

    @property
    def is_sum(self) -> bool:
        """Whether a bias or residual can still be added, as nothing is clipped yet."""
        return self.low == -math.inf and self.high == math.inf


def epilogue_of(
    region: Graph, anchor: Node, channel_axis: int | None, constants: ConstantPool
) -> Epilogue | None:
    """The epilogue that the nodes of ``region`` apply to the result of ``anchor``.

    None if the region is not a single chain of scaling, bias, residual and clipping in this order, optionally
    followed by views, or if it has another result than the end of the chain. ``channel_axis`` is the axis of
    the contraction's result, counted from the front, that a bias has; None if there is none.
    """
    value, epilogue = anchor.output, Epilogue()
    chain = {value}
    while value.users:
        if len(set(value.users)) > 1 or value in region.outputs:
            return None
        node = value.users[0]
        if Trait.VIEW not in node.op.traits:
            if value.type.dims != anchor.output.type.dims:
                return None
            step = _step(epilogue, node, value, channel_axis, constants)
            if step is None:
                return None
            epilogue = step
        elif node.inputs[0] is not value or node.output.type.dtype != F32:
            return None
        value = node.output
        chain.add(value)
    literals = sum(node.is_constant for node in region)
    if list(region.outputs) != [value] or len(chain) + literals != len(list(region)):
        return None
    return epilogue


def _step(
    before: Epilogue, node: Node, value: Value, axis: int | None, constants: ConstantPool
) -> Epilogue | None:
    """``before`` followed by ``node``, which reads ``value``."""
    op, others = node.op, [v for v in node.inputs if v is not value]
    if node.output.type != value.type or len(others) != len(node.inputs) - 1:
        return None
    if isinstance(op, Relu):
        return before.clipped(0.0, math.inf)
    if isinstance(op, Clip):
        return _clipped(before, op, node, constants)
    if not isinstance(op, Add | Mul | Min | Max):
        return None
    other = others[0]
    assert other is not None
    if isinstance(op, Add):
        return _added(before, other, value, axis)
    number = _number(other, constants)
    if number is None or math.isnan(number):
        return None
    if isinstance(op, Mul):
        return replace(before, scale=number) if before == Epilogue() else None
    return before.clipped(number, math.inf) if isinstance(op, Max) else before.clipped(-math.inf, number)


def _clipped(before: Epilogue, op: Clip, node: Node, constants: ConstantPool) -> Epilogue | None:
    bounds: list[float] = []
    for position, attribute, absent in ((1, op.low, -math.inf), (2, op.high, math.inf)):
        operand = node.inputs[position] if len(node.inputs) > position else None
        number = attribute if operand is None else _number(operand, constants)
        if operand is not None and number is None:
            return None
        bounds.append(absent if number is None else float(number))
    return None if any(map(math.isnan, bounds)) else before.clipped(*bounds)


def _added(before: Epilogue, other: Value, value: Value, axis: int | None) -> Epilogue | None:
    if not before.is_sum or other.producer is not None or other.type.dtype != F32:
        return None
    if other.type.dims == value.type.dims and before.residual is None:
        return replace(before, residual=other)
    if axis is None:
        return None
    dims = (*[1] * (len(value.type.dims) - len(other.type.dims)), *other.type.dims)
    wanted = tuple(size if k == axis else 1 for k, size in enumerate(value.type.dims))
    return replace(before, bias=other) if dims == wanted and before.bias is None else None


def _number(value: Value, constants: ConstantPool) -> float | None:
    """The value of a constant with one element inside the region."""
    constant = constant_of(value)
    if constant is None or value.type.elements != 1:
        return None
    return float(constants[constant.value].reshape(()))
