"""Import of PyTorch's recurrent operators ``lstm``, ``gru`` and ``rnn``, with several layers and
directions.
"""

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

SWAP_BATCH_AND_TIME = (1, 0, 2)


@dataclass(frozen=True)
class _Cell:
    """A kind of recurrent layer: its op, and the positions of the op's gates in PyTorch's weights."""

    op: type[Recurrent]
    gates: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    activations: tuple[str, ...] = ()
    """Those of one direction; empty for the op's defaults."""

    def layer(self, hidden_size: int, bidirectional: bool) -> Recurrent:
        """The op of one layer."""
        direction = "bidirectional" if bidirectional else "forward"
        activations = self.activations * (1 + bidirectional)
        return self.op(hidden_size, direction, activations=activations, **dict(self.attributes))


def _aten_recurrent(cell: _Cell) -> AtenImport:
    def convert(i: AtenImporter) -> Any:
        x, initial_states, parameters = i.input(0), _initial_states(i), i.listed(2)
        if i.attr("train") and i.attr("dropout"):
            raise i.fail("dropout between layers is not supported")
        i.ignore("train", "dropout")
        layers, bidirectional = i.attr("num_layers"), i.attr("bidirectional")
        directions, count = 1 + bidirectional, 4 if i.attr("has_biases") else 2
        hidden_size = initial_states[0].type.dims[-1]
        if len(parameters) != layers * directions * count or not isinstance(hidden_size, int):
            raise i.fail("projections of the hidden state are not supported")
        if i.attr("batch_first"):
            x = i.emit(Transpose(SWAP_BATCH_AND_TIME), x)
        final_states: list[Sequence[Value]] = []
        for layer in range(layers):
            first = layer * directions
            weights = [parameters[(first + k) * count :][:count] for k in range(directions)]
            states = [_rows(i, state, first, first + directions) for state in initial_states]
            x, *last = _layer(i, cell, cell.layer(hidden_size, bidirectional), x, weights, states)
            final_states.append(last)
        y = i.emit(Transpose(SWAP_BATCH_AND_TIME), x) if i.attr("batch_first") else x
        return (y, *(_joined(i, states) for states in zip(*final_states, strict=True)))

    return convert


def _initial_states(i: AtenImporter) -> list[Value]:
    """The initial states: h, for an LSTM h and c."""
    given = i.attr("hx")
    return [given] if isinstance(given, Value) else list(given)


def _layer(
    i: AtenImporter, cell: _Cell, op: Recurrent, x: Value, weights: Sequence[Any], states: Sequence[Value]
) -> list[Value]:
    """One layer: its outputs [time, batch, directions * hidden], and its final states. ``weights`` are the
    parameters of each direction.
    """
    w, r, *biases = (
        [i.emit(Unsqueeze((0,)), _reorder_gates(i, value, cell.gates)) for value in of_all]
        for of_all in zip(*weights, strict=True)
    )
    bias = _joined(i, [_joined(i, pair, 1) for pair in zip(*biases, strict=True)]) if biases else None
    outputs, *last = i.emit(op, x, _joined(i, w), _joined(i, r), bias, None, *states)
    time, count, batch, hidden_size = outputs.type.dims
    batch_first = i.emit(Transpose((0, 2, 1, 3)), outputs)
    return [i.emit(Reshape((time, batch, count * hidden_size)), batch_first), *last]


def _reorder_gates(i: AtenImporter, value: Value, gates: Sequence[int]) -> Value:
    """Weights or biases with the blocks of their gates in the order ``gates``."""
    rows: Any = value.type.dims[0]
    size = rows // len(gates)
    return _joined(i, [_rows(i, value, gate * size, (gate + 1) * size) for gate in gates])


def _rows(i: AtenImporter, value: Value, start: int, end: int) -> Value:
    if (start, end) == (0, value.type.dims[0]):
        return value
    rows: Value = i.emit(Slice((start,), (end,), (0,), (1,)), value)
    return rows


def _joined(i: AtenImporter, values: Sequence[Value], axis: int = 0) -> Value:
    joined: Value = values[0] if len(values) == 1 else i.emit(Concat(axis), *values)
    return joined


LSTM.aten = {"lstm.input": _aten_recurrent(_Cell(LSTM, (0, 3, 1, 2)))}
GRU.aten = {"gru.input": _aten_recurrent(_Cell(GRU, (1, 0, 2), (("linear_before_reset", True),)))}
RNN.aten = {
    "rnn_tanh.input": _aten_recurrent(_Cell(RNN, (0,))),
    "rnn_relu.input": _aten_recurrent(_Cell(RNN, (0,), activations=("Relu",))),
}
