"""RNN."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.op import Array, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, I32
from graphwright.ops.nn.recurrent import RECURRENT_ATTRIBUTES, CellStep, Function, Recurrent, import_recurrent


@op("RNN")
class RNN(Recurrent):
    """The simple recurrent layer (Elman 1990): ``h = tanh(w x + r h + bias)``. Operands and results: see
    :class:`Recurrent`.
    """

    gates = 1
    defaults = ("Tanh",)

    def stepper(
        self, functions: Sequence[Function], r: Array, bias: Array, peepholes: Array | None
    ) -> CellStep:
        (f,) = functions
        total_bias = bias[: len(r)] + bias[len(r) :]
        return lambda x, states: [f(x + states[0] @ r.T + total_bias)]


RNN.onnx = {("RNN", 7): lambda i: import_recurrent(i, RNN, 6)}
RNN.to_onnx = as_onnx("RNN", RECURRENT_ATTRIBUTES)
_X, _W, _R = arg(F32, 5, 2, 3), arg(F32, 1, 4, 3), arg(F32, 1, 4, 4)
RNN.samples = (
    Sample(RNN(4), (_X, _W, _R)),
    Sample(
        RNN(4, "reverse", ("Relu",), clip=1.0),
        (_X, _W, _R, arg(F32, 1, 8), arg(I32, 2, values=(3, 5)), arg(F32, 1, 2, 4)),
    ),
    Sample(RNN(4, "bidirectional"), (arg(F64, symbol("T"), 2, 3), arg(F64, 2, 4, 3), arg(F64, 2, 4, 4))),
    Sample(RNN(4), (_X, _W, arg(F32, 1, 4, 5)), "axis 2 of the recurrent weights: 5 and 4 differ"),
)
