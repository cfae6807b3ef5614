"""RNN: the plain recurrent layer, in any float."""

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
from graphwright.ir.types import BF16, F16, I64
from graphwright.kernels.c.support import C_TYPES
from graphwright.kernels.candidates.loops import Draft, nest
from graphwright.kernels.candidates.registry import Context, candidate
from graphwright.kernels.launch import Run
from graphwright.ops.rnn import RNN
from graphwright.ops.unary import Relu, Sigmoid, Tanh

_ACTIVATIONS: dict[str, Callable[[], Op]] = {"tanh": Tanh, "relu": Relu, "sigmoid": Sigmoid}


@candidate(RNN)
def plain(node: Node, context: Context) -> Run | str:
    """A unit is one direction of one sequence: at each step sums by rows of weights, then the state."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    assert isinstance(op, RNN)
    dtype = x.type.dtype
    names = {name.lower() for name in op.activations or op.defaults}
    if dtype.name not in C_TYPES or dtype in (F16, BF16):
        return f"no recurrent kernel for {dtype}"
    if len(names) > 1 or not names <= _ACTIVATIONS.keys():
        return f"no recurrent kernel with activations {', '.join(sorted(names))}"
    activation = _ACTIVATIONS[names.pop()]()
    draft = Draft(node, context)
    first, second, features = x.type.dims
    batch, time = (first, second) if op.batch_first else (second, first)
    hidden, count = op.hidden, op.directions
    d, b, t, j, i = (symbol(name) for name in "dbtji")
    last: Dim = draft.size(time) - 1
    step = last - t if op.direction == "reverse" else t + d * (last - t * 2) if count == 2 else t
    source, w = draft.input(x, x.type.dims), draft.input(node.operand(1), node.operand(1).type.dims)
    r = draft.input(node.operand(2), node.operand(2).type.dims)
    optional = (*node.inputs[3:], None, None, None)[:3]
    bias, lengths, initial = (None if v is None else draft.input(v, v.type.dims) for v in optional)
    every = draft.output(y, y.type.dims)
    final = draft.output(node.outputs[1], node.outputs[1].type.dims)
    total = Buffer("total", dtype, (), Level.REGISTER)
    state = Buffer("state", dtype, (hidden,), Level.CACHE)
    new = Buffer("new", dtype, (hidden,), Level.CACHE)

    at_state = (b, d, j) if op.batch_first else (d, b, j)
    start: Scalar = Const(0, dtype) if initial is None else Load(initial, at_state)
    element = Load(source, (b, step, i) if op.batch_first else (step, b, i))
    sum_: Scalar = Load(total, ())
    if bias is not None:
        sum_ = sum_ + (Load(bias, (d, j)) + Load(bias, (d, j + hidden)))
    if op.clip is not None and 0 < op.clip < math.inf:
        sum_ = minimum(maximum(sum_, -op.clip), op.clip)
    gate: tuple[Statement, ...] = (
        Alloc(total, 0),
        Loop("i", Kind.VECTOR, draft.size(features), (_plus(total, Load(w, (d, j, i)) * element),)),
        Loop("i", Kind.VECTOR, hidden, (_plus(total, Load(r, (d, j, i)) * Load(state, (i,))),)),
        Store(new, (j,), activation.expression(sum_)),
    )
    live = None if lengths is None else Position(step) < cast(Load(lengths, (b,)), I64)
    value, kept = Load(new, (j,)), Load(state, (j,))
    update: tuple[Statement, ...] = (
        Let("made", value if live is None else select(live, value, Const(0, dtype))),
        Let("next", value if live is None else select(live, value, kept)),
        Store(every, (b, step, d, j) if op.batch_first else (step, d, b, j), Ref("made", dtype)),
        Store(state, (j,), Ref("next", dtype)),
    )
    steps = Loop(
        "t",
        Kind.SERIAL,
        draft.size(time),
        (Loop("j", Kind.SERIAL, hidden, gate), Loop("j", Kind.VECTOR, hidden, update)),
    )
    body = nest(
        (("d", count), ("b", draft.size(batch))),
        Alloc(state),
        Alloc(new),
        Loop("j", Kind.VECTOR, hidden, (Store(state, (j,), start),)),
        steps,
        Loop("j", Kind.VECTOR, hidden, (Store(final, at_state, Load(state, (j,))),)),
        innermost=Kind.PARALLEL,
    )
    return Run((draft.launch(body, work=time * batch * (hidden * count) * (features + hidden) // 8),))


def _plus(total: Buffer, term: Scalar) -> Accumulate:
    return Accumulate(total, (), "add", term)
