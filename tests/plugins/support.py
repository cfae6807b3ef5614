"""Restores the registries after a test, and makes models of single nodes in a test domain."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from graphwright import ops, plugins
from graphwright.fusion.rules import registry as fusion_rules
from graphwright.ir.op import registry as op_registry
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.kernels.candidates import registry
from graphwright.passes import plugin_passes

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "plugins"
Array = np.ndarray[Any, Any]


@contextmanager
def isolated() -> Iterator[None]:
    """Undoes at the end what plugins registered in the ``with`` block."""
    ops.load()
    registry.load()
    modules = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        own = {name: cls for name, cls in op_registry._REGISTRY.items() if not is_plugin_op(cls)}
        patch.setattr(op_registry, "_REGISTRY", own)  # nor are the ops of other tests seen
        patch.setattr(registry, "_CANDIDATES", {op: list(c) for op, c in registry._CANDIDATES.items()})
        patch.setattr(plugin_passes, "_PASSES", dict(plugin_passes._PASSES))
        patch.setattr(fusion_rules, "_REGISTERED", {})
        patch.setattr(fusion_rules, "_GUARDED", {})
        plugins.autoload.cache_clear()
        try:
            yield
        finally:
            plugins.autoload.cache_clear()
            for name in set(sys.modules) - modules:
                if not name.startswith("graphwright."):
                    del sys.modules[name]


def node_model(
    *nodes: onnx.NodeProto, shape: Sequence[int | str] = ("N", "M"), dtype: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    """``x`` of ``shape`` to ``y``."""
    x = helper.make_tensor_value_info("x", dtype, list(shape))
    graph = helper.make_graph(list(nodes), "graph", [x], [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def node(op: str, **attributes: Any) -> onnx.NodeProto:
    """``y = op(x)`` of the domain of the examples."""
    return helper.make_node(op, ["x"], ["y"], domain="example", **attributes)


MODELS = {
    "snake": [node("Snake", alpha=2.0)],
    "median": [node("Median")],
    "l2_normalize": [node("L2Normalize")],
    "norms": [
        helper.make_node("ReduceL2", ["x"], ["norm"], axes=[-1]),
        helper.make_node("Div", ["x", "norm"], ["y"]),
    ],
}
"""The model for each example; that of the rule has built-in ops alone."""
PLUGINS = {name: EXAMPLES / f"{name}.py" for name in ("snake", "median", "l2_normalize")} | {
    "norms": EXAMPLES / "normalize_rule.py"
}


def expected(name: str, x: Array) -> Array:
    """The expected results of the model ``name``, in f64."""
    wide = x.astype(np.float64)
    if name == "snake":
        return wide + np.sin(2 * wide) ** 2 / 2
    if name == "median":
        return np.median(wide, axis=-1)
    norm = np.sqrt((wide * wide).sum(-1, keepdims=True))
    return wide / (np.maximum(norm, 1e-12) if name == "l2_normalize" else norm)


def numbers(*shape: int) -> Array:
    """Standard normal numbers."""
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)
