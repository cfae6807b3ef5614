"""RNN, the plain recurrent layer: in f32 by a library kernel, for other floats by generated loops."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
    Kind,
    Let,
    Level,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    cast,
    maximum,
    minimum,
    select,
)
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import I64
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest
from graphwright.kernels.recurrent import elman
from graphwright.kernels.recurrent.candidates import activations_of, fields_of, launch_layer, refusal_of
from graphwright.ops.core.unary import Relu, Sigmoid, Tanh
from graphwright.ops.nn.rnn import RNN

_D, _B, _T, _J, _I = (symbol(name) for name in "dbtji")
_ACTIVATIONS: dict[str, Callable[[], Op]] = {"tanh": Tanh, "relu": Relu, "sigmoid": Sigmoid}


class _Layer:
    """The loops of a node: a unit is direction ``d`` of sequence ``b``; ``t`` are steps, ``j`` elements of
    the state.
    """

    def __init__(self, op: RNN, node: Node, builder: KernelBuilder) -> None:
        self.op, self.builder, self.dtype = op, builder, node.operand(0).type.dtype
        first, second, self.features = node.operand(0).type.dims
        self.batch, self.time = (first, second) if op.batch_first else (second, first)
        optional = (*node.inputs[3:], None, None, None)[:3]
        self.x, self.w, self.r = (builder.input(node.operand(p), node.operand(p).type.dims) for p in range(3))
        self.bias, self.lengths, self.initial = (
            None if v is None else builder.input(v, v.type.dims) for v in optional
        )
        self.every, self.final = (builder.output(y, y.type.dims) for y in node.outputs)
        self.state = Buffer("state", self.dtype, (op.hidden,), Level.CACHE)
        self.new = Buffer("new", self.dtype, (op.hidden,), Level.CACHE)
        last: Dim = builder.size(self.time) - 1
        backwards = last - _T
        self.step = backwards if op.direction == "reverse" else _T
        if op.directions == 2:
            self.step = _T + _D * (last - _T * 2)

    def body(self) -> Loop:
        op, builder = self.op, self.builder
        at = (_B, _D, _J) if op.batch_first else (_D, _B, _J)
        start: Scalar = Const(0, self.dtype) if self.initial is None else Load(self.initial, at)
        steps = (self._hidden(*self._gate(), kind=Kind.SERIAL), self._hidden(*self._update()))
        return nest(
            (("d", op.directions), ("b", builder.size(self.batch))),
            Alloc(self.state),
            Alloc(self.new),
            self._hidden(Store(self.state, (_J,), start)),
            Loop("t", Kind.SERIAL, builder.size(self.time), steps),
            self._hidden(Store(self.final, at, Load(self.state, (_J,)))),
            innermost=Kind.PARALLEL,
        )

    def _hidden(self, *body: Statement, kind: Kind = Kind.VECTOR) -> Loop:
        return Loop("j", kind, self.op.hidden, body)

    def _gate(self) -> list[Statement]:
        """The new element ``j``: sums over rows of both weights, bias, clip, activation."""
        op, step = self.op, self.step
        total = Buffer("total", self.dtype, (), Level.REGISTER)
        element = Load(self.x, (_B, step, _I) if op.batch_first else (step, _B, _I))
        terms = Load(self.w, (_D, _J, _I)) * element, Load(self.r, (_D, _J, _I)) * Load(self.state, (_I,))
        sums = [
            Loop("i", Kind.VECTOR, extent, (Accumulate(total, (), "add", term),))
            for extent, term in zip((self.builder.size(self.features), op.hidden), terms, strict=True)
        ]
        value: Scalar = Load(total, ())
        if self.bias is not None:
            value = value + (Load(self.bias, (_D, _J)) + Load(self.bias, (_D, _J + op.hidden)))
        if op.clip is not None and 0 < op.clip < math.inf:
            value = minimum(maximum(value, -op.clip), op.clip)
        return [Alloc(total, 0), *sums, Store(self.new, (_J,), _activation(op).expression(value))]

    def _update(self) -> list[Statement]:
        """Updates and outputs the state, until the end of the sequence."""
        index = (_B, self.step, _D, _J) if self.op.batch_first else (self.step, _D, _B, _J)
        shown: Scalar = Load(self.new, (_J,))
        kept = shown
        if self.lengths is not None:
            live = Position(self.step) < cast(Load(self.lengths, (_B,)), I64)
            shown, kept = (
                select(live, shown, old) for old in (Const(0, self.dtype), Load(self.state, (_J,)))
            )
        return [
            Let("shown", shown),
            Let("kept", kept),
            Store(self.every, index, Ref("shown", self.dtype)),
            Store(self.state, (_J,), Ref("kept", self.dtype)),
        ]


def _activation(op: RNN) -> Op:
    return _ACTIVATIONS[(op.activations or op.defaults)[0].lower()]()


@candidate(RNN)
def elman_network(node: Node[RNN], context: Context) -> Launch | str:
    """One launch for the whole sequence, in f32."""
    refusal = refusal_of(node, node.op)
    if refusal is not None:
        return refusal
    first, second = activations_of(node.op)
    kernel = elman.Rnn(**fields_of(node, node.op), activations=(first, second))
    return launch_layer(elman.SYMBOL, kernel, node, context)


@candidate(RNN)
def plain(node: Node[RNN], context: Context) -> Launch | str:
    """A generated kernel, for other floats with one activation."""
    op, dtype = node.op, node.operand(0).type.dtype
    names = {name.lower() for name in op.activations or op.defaults}
    if not context.target.has_code(dtype) or dtype.computed != dtype:
        return f"no recurrent kernel for {dtype}"
    if len(names) > 1 or not names <= _ACTIVATIONS.keys():
        return f"no recurrent kernel with activations {', '.join(sorted(names))}"
    builder = KernelBuilder(node, context)
    layer = _Layer(op, node, builder)
    return builder.launch(layer.body())
