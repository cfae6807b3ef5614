"""What loading a package imports: neither NumPy nor the compiler; both would take longer than the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import graphwright as gw
from graphwright.ops.core.unary import Relu

_LOADED = """
import sys
import graphwright as gw
model = gw.load(sys.argv[1])
print(*sys.modules)
print(model.threads, model.inputs[0].shape)
import numpy as np
print(*model(np.array([-1, 2], np.float32))[0])
"""
_COMPILER = (
    "api",
    "compiler",
    "frontends",
    "fusion",
    "kernels",
    "layout",
    "memory",
    "ops",
    "passes",
    "schedule",
)
_FORBIDDEN = {
    "numpy", "ml_dtypes", "msgspec", "onnx", "concurrent", "typer", "graphwright.low_ir.tasks",
    *(f"graphwright.{name}" for name in _COMPILER),
    *(f"graphwright.ir.{name}" for name in ("graph", "op", "symbols", "types")),
}  # fmt: skip


def test_loading_imports_neither_numpy_nor_the_compiler(tmp_path: Path) -> None:
    builder = gw.GraphBuilder()
    builder.output("y", builder(Relu(), builder.input("x", "f32", (2,))))
    builder.compile().save(tmp_path / "model.om")
    command = [sys.executable, "-c", _LOADED, str(tmp_path / "model.om")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    imported, told, result = ended.stdout.splitlines()
    assert not _FORBIDDEN & set(imported.split())
    assert told == "0 (2,)"
    assert result == "0.0 2.0"
