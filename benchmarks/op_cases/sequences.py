"""Recurrent layers and signals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from benchmarks.op_cases.case import NONE, Case, c, one, w, x

GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _cell(
    op: str, hidden: int, *, steps: int = 32, batch: int = 1, inputs: int = 0, both: bool = False, **more: Any
) -> Case:
    gates, directions = GATES[op], 2 if both else 1
    operands = [
        x(steps, batch, inputs or hidden),
        w(directions, gates * hidden, inputs or hidden, low=-0.1, high=0.1),
        w(directions, gates * hidden, hidden, low=-0.1, high=0.1),
        w(directions, 2 * gates * hidden),
    ]
    name = f"{op} {hidden}, {steps} steps, batch {batch}{', both ways' * both}"
    direction = "bidirectional" if both else "forward"
    outputs = "y h s" if op == "LSTM" else "y h"
    return one(name, op, *operands, outputs=outputs, hidden_size=hidden, direction=direction, **more)


def _dft(name: str, *shape: int, axis: int = 1, **attributes: Any) -> Case:
    return one(f"dft {name}", "DFT", x(*shape), NONE, c(axis), **attributes)


CASES = (
    _cell("LSTM", 64),
    _cell("LSTM", 256),
    _cell("LSTM", 512),
    _cell("LSTM", 128, inputs=40, steps=100),
    _cell("LSTM", 256, batch=8),
    _cell("LSTM", 256, batch=32, steps=16),
    _cell("LSTM", 256, both=True),
    _cell("LSTM", 96, both=True, steps=80, inputs=192),
    _cell("LSTM", 128, steps=1),
    _cell("GRU", 64),
    _cell("GRU", 256, linear_before_reset=1),
    _cell("GRU", 256, batch=8),
    _cell("GRU", 128, both=True, steps=80),
    _cell("RNN", 128),
    _cell("RNN", 256),
    _cell("RNN", 256, batch=8),
    _cell("RNN", 256, both=True),
    _dft("16384", 1, 16384, 1),
    _dft("4096", 1, 4096, 1),
    _dft("1000", 8, 1000, 1),
    _dft("1021 prime", 8, 1021, 1),
    _dft("512 onesided", 100, 512, 1, onesided=1),
    _dft("400 onesided", 100, 400, 1, onesided=1),
    _dft("complex 2048", 4, 2048, 2),
    _dft("inverse 1024", 16, 1024, 2, inverse=1),
    _dft("over rows", 1, 256, 64, 1),
    one("stft 400 by 160", "STFT", x(1, 16000, 1), c(160), w(400, low=0, high=1), c(400), onesided=1),
    one("stft 512 by 128, rank 2", "STFT", x(1, 16000), c(128), w(512, low=0, high=1), c(512), onesided=1),
    one("stft 2048 by 512", "STFT", x(1, 44100, 1), c(512), w(2048, low=0, high=1), c(2048), onesided=1),
    one("mel", "MatMul", x(100, 201), w(201, 80)),
    one("hann window", "HannWindow", c(np.int64(1024)), output_datatype=1),
)
