"""GRU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.ir.op import Array, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, I32
from graphwright.ops.nn.recurrent import RECURRENT_ATTRIBUTES, CellStep, Function, Recurrent, import_recurrent


@op("GRU")
class GRU(Recurrent):
    """Gated recurrent unit (Cho et al. 2014). The weights of the gates are in the order update, reset,
    hidden.

    With ``linear_before_reset``, the reset gate scales the product of the recurrent weights and the state, as
    in PyTorch; otherwise it scales the state. Operands and results: see :class:`Recurrent`.
    """

    linear_before_reset: bool = False
    gates = 3
    defaults = ("Sigmoid", "Tanh")

    def stepper(
        self, functions: Sequence[Function], r: Array, bias: Array, peepholes: Array | None
    ) -> CellStep:
        f, g = functions
        rows = 2 * self.hidden
        from_x, from_h = bias[: len(r)], bias[len(r) :]

        def step(x: Array, states: list[Array]) -> list[Array]:
            (hidden,) = states
            x = x + from_x
            update, reset = np.split(f(x[:, :rows] + hidden @ r[:rows].T + from_h[:rows]), 2, 1)
            if self.linear_before_reset:
                inner = reset * (hidden @ r[rows:].T + from_h[rows:])
            else:
                inner = (reset * hidden) @ r[rows:].T + from_h[rows:]
            return [(1 - update) * g(x[:, rows:] + inner) + update * hidden]

        return step


GRU.onnx = {
    ("GRU", 7): lambda i: import_recurrent(
        i, GRU, 6, linear_before_reset=bool(i.attr("linear_before_reset", 0))
    )
}
GRU.to_onnx = as_onnx("GRU", RECURRENT_ATTRIBUTES, linear_before_reset="linear_before_reset")
_N = symbol("N")
_X, _W, _R = arg(F32, 5, 2, 3), arg(F32, 1, 12, 3), arg(F32, 1, 12, 4)
GRU.samples = (
    Sample(GRU(4), (_X, _W, _R)),
    Sample(
        GRU(4, "reverse", linear_before_reset=True),
        (_X, _W, _R, arg(F32, 1, 24), arg(I32, 2, values=(3, 5)), arg(F32, 1, 2, 4)),
    ),
    Sample(GRU(4, "bidirectional"), (arg(F32, symbol("T"), _N, 3), arg(F32, 2, 12, 3), arg(F32, 2, 12, 4))),
    Sample(GRU(4, batch_first=True), (arg(F64, _N, 5, 3), arg(F64, 1, 12, 3), arg(F64, 1, 12, 4))),
    Sample(GRU(4), (_X, arg(F32, 1, 16, 3), _R), "axis 1 of the weights: 16 and 12 differ"),
    Sample(GRU(4, activations=("Tanh",)), (_X, _W, _R), "1 activations; there must be 2"),
)
