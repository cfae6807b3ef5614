"""LSTM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.ir.op import Array, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32
from graphwright.ops.nn.recurrent import RECURRENT_ATTRIBUTES, CellStep, Function, Recurrent, import_recurrent


@op("LSTM")
class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with peepholes (Gers and Schmidhuber 2000).

    The weights of the gates are in the order input, output, forget, cell, those of the peepholes in the order
    input, output, forget. With ``coupled``, the forget gate is 1 minus the input gate. Operands and results:
    see :class:`Recurrent`.
    """

    coupled: bool = False
    gates = 4
    defaults = ("Sigmoid", "Tanh", "Tanh")
    outputs = 3
    optional_inputs = frozenset({3, 4, 5, 6, 7})

    def stepper(
        self, functions: Sequence[Function], r: Array, bias: Array, peepholes: Array | None
    ) -> CellStep:
        f, g, h = functions
        total_bias = bias[: len(r)] + bias[len(r) :]
        p = np.zeros((3, self.hidden), r.dtype) if peepholes is None else peepholes.reshape(3, -1)

        def step(x: Array, states: list[Array]) -> list[Array]:
            hidden, cell = states
            i, o, forget, c = np.split(x + hidden @ r.T + total_bias, 4, 1)
            input_gate = f(i + p[0] * cell)
            forget_gate = 1 - input_gate if self.coupled else f(forget + p[2] * cell)
            cell = forget_gate * cell + input_gate * g(c)
            return [f(o + p[1] * cell) * h(cell), cell]

        return step


LSTM.onnx = {("LSTM", 7): lambda i: import_recurrent(i, LSTM, 8, coupled=bool(i.attr("input_forget", 0)))}
LSTM.to_onnx = as_onnx("LSTM", RECURRENT_ATTRIBUTES, input_forget="coupled")
_T, _N = symbol("T"), symbol("N")
_X, _W, _R = arg(F32, 5, 2, 3), arg(F32, 1, 16, 3), arg(F32, 1, 16, 4)
_H = arg(F32, 1, 2, 4)
_LENGTHS = arg(I32, 2, values=(3, 5))
LSTM.samples = (
    Sample(LSTM(4), (_X, _W, _R)),
    Sample(LSTM(4, "reverse"), (_X, _W, _R, arg(F32, 1, 32), _LENGTHS, _H, _H, arg(F32, 1, 12))),
    Sample(LSTM(4, "bidirectional"), (arg(F32, _T, _N, 3), arg(F32, 2, 16, 3), arg(F32, 2, 16, 4))),
    Sample(LSTM(4, batch_first=True), (arg(F32, _N, 5, 3), _W, _R, None, None, arg(F32, _N, 1, 4))),
    Sample(LSTM(4, clip=0.5, coupled=True), (_X, _W, _R)),
    Sample(LSTM(4), (arg(F64, 5, 2, 3), arg(F64, 1, 16, 3), arg(F64, 1, 16, 4))),
    Sample(LSTM(4), (arg(F16, 5, 2, 3), arg(F16, 1, 16, 3), arg(F16, 1, 16, 4))),
    Sample(LSTM(4), (_X, arg(F32, 1, 12, 3), _R), "axis 1 of the weights: 12 and 16 differ"),
    Sample(LSTM(4), (_X, _W, _R, arg(F32, 32)), "the biases are f32[32]; they must have 2 axes"),
    Sample(LSTM(4, "sideways"), (_X, _W, _R), "direction 'sideways'"),
    Sample(LSTM(4, activations=("Tanh",)), (_X, _W, _R), "1 activations; there must be 3"),
    Sample(LSTM(4, activations=("Tanh", "Tanh", "Swish")), (_X, _W, _R), "activation 'Swish'"),
    Sample(LSTM(4), (arg(F32, 5, 2), _W, _R), "it must be [time, batch, features]"),
)
