"""PyTorch's recurrent layers: ``lstm``, ``gru`` and ``rnn`` of several layers and both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import AtenImport, AtenImporter
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.gru import GRU
from graphwright.ops.nn.lstm import LSTM
from graphwright.ops.nn.recurrent import Recurrent
from graphwright.ops.nn.rnn import RNN
from graphwright.records import dataclass

TIME_FIRST = (1, 0, 2)
"""From batch first to time first, and back."""


@dataclass(frozen=True)
class _Cell:
    """``op`` computes it; ``order`` are PyTorch's gates in the order of the op's."""

    op: type[Recurrent]
    order: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    def layer(self, hidden: int, both: bool) -> Recurrent:
        """The op of one layer."""
        return self.op(hidden, "bidirectional" if both else "forward", **dict(self.attributes))


def _imported(cell: _Cell) -> AtenImport:
    def convert(i: AtenImporter) -> Any:
        x, starts, parameters = i.input(0), _states(i), i.listed(2)
        if i.attr("train") and i.attr("dropout"):
            raise i.fail("dropout between layers is not supported")
        i.ignore("train", "dropout")
        layers, both, biases = i.attr("num_layers"), i.attr("bidirectional"), i.attr("has_biases")
        directions, count = 1 + both, 4 if biases else 2
        hidden = starts[0].type.dims[-1]
        if len(parameters) != layers * directions * count or not isinstance(hidden, int):
            raise i.fail("projections of the hidden state are not supported")
        if i.attr("batch_first"):
            x = i.emit(Transpose(TIME_FIRST), x)
        last: list[Sequence[Value]] = []
        for layer in range(layers):
            first = layer * directions
            weights = [parameters[(first + k) * count :][:count] for k in range(directions)]
            states = [_rows(i, state, first, first + directions) for state in starts]
            x, *ends = _layer(i, cell, cell.layer(hidden, both), x, weights, states)
            last.append(ends)
        made = i.emit(Transpose(TIME_FIRST), x) if i.attr("batch_first") else x
        return (made, *(_joined(i, ends) for ends in zip(*last, strict=True)))

    return convert


def _states(i: AtenImporter) -> list[Value]:
    """The initial states: an LSTM has a list of two."""
    given = i.attr("hx")
    return [given] if isinstance(given, Value) else list(given)


def _layer(
    i: AtenImporter, cell: _Cell, op: Recurrent, x: Value, weights: Sequence[Any], states: Sequence[Value]
) -> list[Value]:
    """What one layer gives for each time, directions side by side, and its last states."""
    w, r, *biases = (
        [i.emit(Unsqueeze((0,)), _in_order(i, value, cell.order)) for value in of_all]
        for of_all in zip(*weights, strict=True)
    )
    bias = _joined(i, [_joined(i, pair, 1) for pair in zip(*biases, strict=True)]) if biases else None
    every, *last = i.emit(op, x, _joined(i, w), _joined(i, r), bias, None, *states)
    time, count, batch, hidden = every.type.dims
    beside = i.emit(Transpose((0, 2, 1, 3)), every)
    return [i.emit(Reshape((time, batch, count * hidden)), beside), *last]


def _in_order(i: AtenImporter, value: Value, order: Sequence[int]) -> Value:
    """Weights or biases with their gates in ``order``."""
    rows: Any = value.type.dims[0]
    size = rows // len(order)
    return _joined(i, [_rows(i, value, gate * size, (gate + 1) * size) for gate in order])


def _rows(i: AtenImporter, value: Value, start: int, end: int) -> Value:
    if (start, end) == (0, value.type.dims[0]):
        return value
    made: Value = i.emit(Slice((start,), (end,), (0,), (1,)), value)
    return made


def _joined(i: AtenImporter, values: Sequence[Value], axis: int = 0) -> Value:
    made: Value = values[0] if len(values) == 1 else i.emit(Concat(axis), *values)
    return made


LSTM.aten = {"lstm.input": _imported(_Cell(LSTM, (0, 3, 1, 2)))}
GRU.aten = {"gru.input": _imported(_Cell(GRU, (1, 0, 2), (("linear_before_reset", True),)))}
RNN.aten = {
    "rnn_tanh.input": _imported(_Cell(RNN, (0,))),
    "rnn_relu.input": _imported(_Cell(RNN, (0,), (("activations", ("Relu",)),))),
}
