"""One node of ONNX Runtime's domain, in ONNX Runtime, on the reference device and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import ModelError

Array = np.ndarray[Any, Any]
Feed = Sequence[Array | None]
DOMAIN = "com.microsoft"
COMPILED = Options(threads=1)
REFERENCE = replace(COMPILED, device="reference")
rng = np.random.default_rng(7)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def one_node(
    op_type: str,
    feeds: Feed,
    attributes: dict[str, Any],
    outputs: Sequence[str],
    domain: str,
    symbolic: bool,
    constants: Sequence[int],
) -> onnx.ModelProto:
    """A model of the node; ``symbolic`` leaves the first two sizes of every input of three axes open."""
    names = ["" if feed is None else f"x{k}" for k, feed in enumerate(feeds)]
    node = helper.make_node(op_type, names, list(outputs), domain=domain, **attributes)
    inputs, initializers = [], []
    for k, feed in enumerate(feeds):
        if feed is None:
            continue
        if k in constants:
            initializers.append(onnx.numpy_helper.from_array(feed, names[k]))
            continue
        shape: list[Any] = list(feed.shape)
        if symbolic and feed.ndim == 3:
            shape[:2] = ["batch", "length"]
        kind = helper.np_dtype_to_tensor_dtype(feed.dtype)
        inputs.append(helper.make_tensor_value_info(names[k], kind, shape))
    results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    graph = helper.make_graph([node], "one", inputs, results, initializers)
    opsets = [helper.make_opsetid("", 16), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def by_runtime(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(result) for result in session.run(None, feeds)]


def paired(
    op_type: str,
    feeds: Feed,
    outputs: Sequence[str] = ("y",),
    *,
    domain: str = DOMAIN,
    symbolic: bool = False,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> list[tuple[list[Array], list[Array]]]:
    """The results of the reference device and of the compiled node, each paired with that of ONNX Runtime."""
    model = one_node(op_type, feeds, attributes, outputs, domain, symbolic, constants)
    given = {f"x{k}": a for k, a in enumerate(feeds) if a is not None and k not in constants}
    expected = by_runtime(model, given)
    return [
        (list(gw.compile(model, options=options).run(given).values()), expected)
        for options in (REFERENCE, COMPILED)
    ]


def compare(
    op_type: str,
    feeds: Feed,
    outputs: Sequence[str] = ("y",),
    *,
    tolerance: float = 2e-5,
    **settings: Any,
) -> None:
    """Assert that both devices give what ONNX Runtime does; ``settings`` are those of :func:`paired`."""
    for found, expected in paired(op_type, feeds, outputs, **settings):
        for a, e in zip(found, expected, strict=True):
            assert a.dtype == e.dtype
            assert a.shape == e.shape
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


def refused(op_type: str, feeds: Feed, outputs: Sequence[str] = ("y",), **attributes: Any) -> str:
    """The message with which the node is refused."""
    with pytest.raises(ModelError) as caught:
        gw.compile(
            one_node(op_type, feeds, attributes, outputs, DOMAIN, symbolic=False, constants=()),
            options=REFERENCE,
        )
    return str(caught.value)


def tables(rows: int, half: int) -> tuple[Array, Array]:
    """Cosines and sines of angles."""
    angles = rng.uniform(-3, 3, (rows, half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def flags(*shape: int) -> Array:
    """Zeros and ones, with a one in front."""
    found = rng.integers(0, 2, shape).astype(np.int32)
    found[..., 0] = 1
    return found


TOTAL = 6
"""The input of GroupQueryAttention that says how large its caches become: known before a run, or not."""


def grouped(
    rows: int, past: int | None, lengths: Sequence[int], total: int, features: int = 8, batch: int = 2
) -> list[Array | None]:
    """The first seven inputs for 4 heads of queries and 2 of keys."""
    caches = [None, None] if past is None else [normal(batch, 2, past, features) for _ in range(2)]
    projections = [normal(batch, rows, heads * features) for heads in (4, 2, 2)]
    return [*projections, *caches, np.array(lengths, np.int32), np.array(total, np.int32)]


GROUPS = {"num_heads": 4, "kv_num_heads": 2}
