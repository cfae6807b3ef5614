"""Transposes between images in channel blocks and rows of channels, compiled, against the references."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphwright as gw
from benchmarks.copies import moves_of
from graphwright.ir.build import new_main_graph
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.conv import Conv


def model(channels: int, height: int, width: int, flat: bool) -> Module:
    """Rows of channels to images, a convolution, and back, with one pixel axis if ``flat``."""
    module, n = Module(), symbol("N")
    pixels = (height * width,) if flat else (height, width)
    b, (x,) = new_main_graph(module, [("x", tensor(F32, n, *pixels, channels))])
    rng = np.random.default_rng(channels)
    w = b.const(rng.normal(size=(channels, channels, 3, 3)).astype(np.float32) / channels)
    image = b(Transpose((0, 2, 1) if flat else (0, 3, 1, 2)), x)
    if flat:
        image = b(Reshape((n, channels, height, width), allow_zero=True), image)
    y = b(Conv(pads=(1, 1, 1, 1)), image, w)
    if flat:
        y = b(Reshape((n, channels, height * width), allow_zero=True), y)
    rows = b(Transpose((0, 2, 1) if flat else (0, 2, 3, 1)), y)
    b.graph.set_outputs([rows, b(Exp(), rows)])
    return module


@pytest.mark.parametrize("flat", (False, True))
@pytest.mark.parametrize(("channels", "height", "width"), ((64, 13, 11), (48, 1, 7), (40, 5, 3)))
def test_results_with_blocked_images_are_correct(
    channels: int, height: int, width: int, flat: bool, tmp_path: Path
) -> None:
    source = model(channels, height, width, flat)
    options = gw.CompileOptions(cache_dir=tmp_path / "c", key_dir=tmp_path / "k", threads=2)
    made = gw.compile(source, options=options)
    rng = np.random.default_rng(0)
    for n in (0, 1, 3):
        shape = (n, height * width, channels) if flat else (n, height, width, channels)
        x = rng.normal(size=shape).astype(np.float32)
        for got, want in zip(made(x), evaluate_module(source, [x]), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    if channels == 64:
        assert len(moves_of(made)) == 2
