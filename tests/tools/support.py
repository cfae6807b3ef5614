"""A small model, plain or with hostile names, and the command run on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from typer.testing import CliRunner

from graphwright.tools.cli import app
from tests.onnx_models import model_proto

HOSTILE = "\x1b[31m[red]evil[/red]*/\r\n../../etc\\x\"'\u202e%s{0}\x07$(id)"
WEIGHTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def write_model(path: Path, mark: str = "", op: str = "Relu") -> Path:
    """``y = op(x @ w)`` with ``x: f32[N, 4]``; ``mark`` is part of every name."""
    nodes = [
        helper.make_node("MatMul", [f"x{mark}", f"w{mark}"], [f"h{mark}"], name=f"product{mark}"),
        helper.make_node(op, [f"h{mark}"], [f"y{mark}"], name=f"last{mark}"),
    ]
    model = model_proto(nodes, {f"x{mark}": ["N", 4]}, {f"y{mark}": ["N", 3]}, {f"w{mark}": WEIGHTS})
    model.graph.name = f"graph{mark}"
    helper.set_model_props(model, {f"key{mark}": f"value{mark}"})
    onnx.save(model, path)
    return path


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The expected result of the model for ``x``."""
    return np.maximum(x @ WEIGHTS, 0)


def graphwright(*arguments: object) -> Any:
    """The result of ``graphwright ARGUMENTS``."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
