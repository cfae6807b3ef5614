"""LSTM, GRU and RNN against ONNX Runtime and closed forms."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from .peer import compare, imported

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
T, B, I, H = 5, 3, 4, 6  # noqa: E741  # time, batch, features, hidden


def operands(op_type: str, directions: int, full: bool) -> list[Any]:
    rng = np.random.default_rng(3)
    gates = GATES[op_type]

    def draw(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32) * 0.5

    inputs: list[Any] = [draw(T, B, I), draw(directions, gates * H, I), draw(directions, gates * H, H)]
    if full:
        inputs += [draw(directions, 2 * gates * H), np.array([5, 2, 4], np.int32), draw(directions, B, H)]
        if op_type == "LSTM":
            inputs += [draw(directions, B, H), draw(directions, 3 * H)]
    return inputs


@pytest.mark.parametrize(
    "op_type, direction, full",
    list(product(GATES, ["forward", "reverse", "bidirectional"], [False, True])),
)
def test_states_are_those_of_onnx_runtime(op_type: str, direction: str, full: bool) -> None:
    inputs = operands(op_type, 2 if direction == "bidirectional" else 1, full)
    outputs = 3 if op_type == "LSTM" else 2
    compare(op_type, inputs, {"hidden_size": H, "direction": direction}, 14, outputs)


@pytest.mark.parametrize("op_type", GATES)
def test_clip_and_activations(op_type: str) -> None:
    inputs = operands(op_type, 1, full=True)
    names = ["HardSigmoid", "LeakyRelu", "Softsign"][3 - {"LSTM": 3, "GRU": 2, "RNN": 1}[op_type] :]
    attributes: dict[str, Any] = {"hidden_size": H, "activations": names, "clip": 0.3}
    if op_type == "LSTM":
        attributes |= {"activation_alpha": [0.25, 0.1], "activation_beta": [0.4]}
    compare(op_type, inputs, attributes, 14, 2)


def test_a_gru_that_is_linear_before_reset() -> None:
    compare("GRU", operands("GRU", 1, full=True), {"hidden_size": H, "linear_before_reset": 1}, 14, 2)


def test_an_lstm_with_coupled_gates() -> None:
    compare("LSTM", operands("LSTM", 1, full=False), {"hidden_size": H, "input_forget": 1}, 14, 3)


@pytest.mark.parametrize("op_type", GATES)
def test_batch_first_is_the_transpose(op_type: str) -> None:
    inputs = operands(op_type, 1, full=False)
    every, last, *_ = imported(op_type, inputs, {"hidden_size": H}, 14, 2)
    inputs[0] = inputs[0].swapaxes(0, 1)
    every_first, last_first, *_ = imported(op_type, inputs, {"hidden_size": H, "layout": 1}, 14, 2)
    np.testing.assert_array_equal(every_first, every.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(last_first, last.swapaxes(0, 1))


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_sequence_of_length_0_keeps_its_initial_state(op_type: str, direction: str) -> None:
    """ONNX Runtime returns zeros as its last state; the other sequences are equal."""
    inputs = operands(op_type, 2 if direction == "bidirectional" else 1, full=True)
    attributes = {"hidden_size": H, "direction": direction}
    alone = imported(op_type, inputs, attributes, 14, 2)
    inputs[4] = np.array([5, 0, 4], np.int32)
    every, last, *cells = imported(op_type, inputs, attributes, 14, 2)
    np.testing.assert_array_equal(every[:, :, 1], 0)
    np.testing.assert_array_equal(last[:, 1], inputs[5][:, 1])
    for cell in cells:
        np.testing.assert_array_equal(cell[:, 1], inputs[6][:, 1])
    np.testing.assert_array_equal(last[:, 0], alone[1][:, 0])


def test_an_rnn_of_one_unit_by_hand() -> None:
    x, w, r = (np.full(s, v, np.float64) for s, v in (((2, 1, 1), 1.0), ((1, 1, 1), 0.5), ((1, 1, 1), 2.0)))
    every, last = imported("RNN", [x, w, r], {}, 22, 2)
    first = np.tanh(0.5)
    np.testing.assert_allclose(every.ravel(), [first, np.tanh(0.5 + 2 * first)], rtol=1e-15)
    assert last.ravel() == every.ravel()[1]
