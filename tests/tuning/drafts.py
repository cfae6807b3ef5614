"""Models of tests of tuning, compiled up to the choice of kernels."""

from __future__ import annotations

from typing import Any

import onnx

from benchmarks.fusion.chains import Layer, chain
from graphwright.compiler.tuning import Snapshot
from graphwright.compiler.unit import Unit
from graphwright.config import Options
from graphwright.frontends.onnx import load, open_model
from graphwright.runtime.devices.this_cpu import for_this_cpu

LAYERS = (
    Layer(32),
    Layer(0, 3),
    Layer(32, act="Silu"),
    Layer(32, 3, act="HardSwish"),
    Layer(0, 5, 2),
    Layer(20),
)


def image_chain() -> onnx.ModelProto:
    return chain(LAYERS, 16, (1, 24, 20))


def draft(model: onnx.ModelProto, **options: Any) -> Snapshot:
    given = for_this_cpu(Options(**options))
    return Snapshot(Unit(load(open_model(model, None))), given)
