"""Ops that Python runs within a program, with attributes that contain sizes known only in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import graphwright as gw

HEADER = '<ir_version: 9, opset_import: ["": 20]>'
RFFT = """g (float[B, N] x) => (float[B, M, two] y) <int64[1] last = {-1}, int64 axis = {1}> {
    parts = Unsqueeze (x, last)
    shape = Shape <start: int = 1, end: int = 2> (x)
    length = Squeeze (shape)
    y = DFT <onesided: int = 1> (parts, length, axis)
}"""
RESIZED = """g (float[B, C, H, W] x, float[P, Q] like) => (float[B, C, P, Q] y) {
    kept = Shape <end: int = 2> (x)
    wanted = Shape (like)
    sizes = Concat <axis: int = 0> (kept, wanted)
    y = Resize <mode: string = "linear", antialias: int = 1> (x, , , sizes)
}"""


@pytest.mark.parametrize("saved", [False, True])
def test_a_transform_of_the_signals_own_length(saved: bool, tmp_path: Path) -> None:
    model = gw.compile(parser.parse_model(f"{HEADER} {RFFT}"))
    if saved:
        model.save(tmp_path / "m.om")
        model = gw.load(tmp_path / "m.om")
    rng = np.random.default_rng(3)
    for rows, length in ((2, 8), (1, 11), (3, 1), (0, 4)):
        x = rng.standard_normal((rows, length)).astype(np.float32)
        wanted = np.fft.rfft(x)
        parts = np.stack([wanted.real, wanted.imag], -1)
        np.testing.assert_allclose(model(x)[0], parts, rtol=1e-5, atol=1e-5)


def test_an_image_as_large_as_another() -> None:
    """Antialiasing halves an image: the result of a constant is the constant, and that of a slope is the
    slope.
    """
    model = gw.compile(parser.parse_model(f"{HEADER} {RESIZED}"))
    for height, width, high, wide in ((8, 6, 4, 3), (5, 5, 5, 5), (4, 4, 2, 1)):
        x = np.full((2, 1, height, width), 3, np.float32)
        (made,) = model(x, np.zeros((high, wide), np.float32))
        assert made.shape == (2, 1, high, wide)
        np.testing.assert_allclose(made, 3, rtol=1e-6)
