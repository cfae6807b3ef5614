"""Models that ONNX Runtime saved with channels in blocks: they compute what the original models do."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import graphwright as gw
from graphwright import log
from graphwright.config import Options
from graphwright.frontends.onnx import channel_blocks

Array = np.ndarray[Any, Any]
DOMAIN = "com.microsoft.nchwc"
REFERENCE = Options(device="reference")
rng = np.random.default_rng(5)


class Layers:
    """A model that is written node by node."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._numbers = itertools.count()

    def constant(self, array: Array) -> str:
        name = f"{self._prefix}w{next(self._numbers)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape: int) -> str:
        return self.constant((rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32))

    def __call__(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self._prefix}v{next(self._numbers)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def model(self, shape: Sequence[Any], outputs: Sequence[str]) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
        results = [helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, None) for y in outputs]
        graph = helper.make_graph(self.nodes, "layers", [x], results, self.weights)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def network(shape: Sequence[Any]) -> onnx.ModelProto:
    """Each op of the domain at least once, in numbers of channels that blocks fill and do not fill."""
    f = Layers()
    image = f("Relu", f("Conv", "x", f.normal(32, 3, 3, 3), f.normal(32), pads=[1] * 4, strides=[2, 2]))
    deep = f("Conv", image, f.normal(32, 1, 3, 3), f.normal(32), pads=[1] * 4, group=32)
    deep = f("HardSwish", deep)
    grouped = f("Conv", deep, f.normal(32, 16, 1, 1), group=2)
    total = f("Add", f("Conv", grouped, f.normal(32, 32, 3, 3), pads=[1] * 4), image)
    pool = f("MaxPool", f("Sigmoid", total), kernel_shape=[2, 2], strides=[2, 2])
    mean = f("AveragePool", pool, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    sizes = f.constant(np.array([1, 1, 2, 2], np.float32))
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    large = f("Resize", mean, "", sizes, **attributes)
    both = f("Concat", large, total, axis=1)
    narrow = f("Conv", both, f.normal(20, 64, 3, 3), f.normal(20))
    last = f("Transpose", f("Tanh", narrow), perm=[0, 2, 3, 1])
    peaks = f("GlobalMaxPool", both)
    means = f("GlobalAveragePool", f("Conv", peaks, f.normal(24, 64, 1, 1), f.normal(24)))
    return f.model(shape, [last, means, both])


def saved(model: onnx.ModelProto, path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.optimized_model_filepath = str(path)
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


@pytest.mark.parametrize("shape", [(1, 3, 32, 40), ("N", 3, "H", "W")])
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_network_as_onnx_runtime_saves_it(shape: Sequence[Any], device: str, tmp_path: Path) -> None:
    path = tmp_path / "saved.onnx"
    session = saved(network(shape), path)
    found = {node.op_type for node in onnx.load(path).graph.node if node.domain == DOMAIN}
    assert found >= {"Conv", "MaxPool", "AveragePool", "Upsample", "ReorderOutput"}
    x = rng.standard_normal((1, 3, 32, 40)).astype(np.float32)
    results = gw.compile(path, options=Options(device=device, threads=1)).run({"x": x})
    for actual, expected in zip(results.values(), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_rewritten_models_have_no_blocks(tmp_path: Path) -> None:
    """graph-autofusion keeps nodes of other domains, but these are for one kind of processor."""
    source, target = tmp_path / "saved.onnx", tmp_path / "fused.onnx"
    session = saved(network((1, 3, 32, 40)), source)
    command = Path(sys.executable).with_name("graph-autofusion")
    subprocess.run(
        [command, "--inline", "--input", source, "--output", target], check=True, capture_output=True
    )
    assert DOMAIN not in {node.domain for node in onnx.load(target).graph.node}
    x = rng.standard_normal((1, 3, 32, 40)).astype(np.float32)
    for actual, expected in zip(
        onnxruntime.InferenceSession(target).run(None, {"x": x}), session.run(None, {"x": x}), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def in_blocks(weights: Array, block: int, inputs: bool) -> Array:
    """Weights [O, I, H, W] in the order in which ONNX Runtime stores them, element by element."""
    o, i, h, w = weights.shape
    order = [
        (first + k, (second if inputs else 0) + j, row, column)
        for first in range(0, o, block)
        for second in (range(0, i, block) if inputs else (0,))
        for outer in (range(1) if inputs else range(i))
        for row in range(h)
        for column in range(w)
        for j in (range(block) if inputs else (outer,))
        for k in range(block)
    ]
    return np.array([weights[index] for index in order], weights.dtype).reshape(weights.shape)


def chain(block: int, channels: Sequence[int], result: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """1x2 convolutions from an image with ``channels[0]`` to ``result`` channels: written with blocks, and
    plainly.
    """
    blocked, plain, at, value = Layers(), Layers(), "x", "x"
    for first, second in itertools.pairwise(channels):
        w = rng.standard_normal((second, first, 1, 2)).astype(np.float32)
        reads_blocks = first >= block
        if reads_blocks and at == "x":
            at = blocked("ReorderInput", at, domain=DOMAIN)
        stored = in_blocks(w, block, reads_blocks)
        at = blocked("Conv", at, blocked.constant(stored), domain=DOMAIN)
        value = plain("Conv", value, plain.constant(w))
    at = blocked("ReorderOutput", at, domain=DOMAIN, channels=result)
    value = plain("Slice", value, *(plain.constant(np.array([n])) for n in (0, result, 1)))
    shape = [1, channels[0], 4, 9]
    return blocked.model(shape, [at]), plain.model(shape, [value])


@pytest.mark.parametrize(
    ("block", "channels", "result"),
    [
        (8, (3, 24, 16), 16),  # 24 channels are not a multiple of 16
        (8, (3, 16, 16, 8), 5),
        (8, (8, 16), 16),  # an image of 8 channels is reordered
        (16, (8, 16), 16),  # it is read as it is
        (16, (3, 32), 20),  # blocks of 8 would end at 24
        (16, (12, 32, 16), 16),
    ],
)
def test_sizes_prove_the_block(
    block: int, channels: Sequence[int], result: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_blocks, "_of_this_machine", lambda: pytest.fail("it is not proved"))
    compare(*chain(block, channels, result))


def compare(blocked: onnx.ModelProto, plain: onnx.ModelProto) -> None:
    x = rng.standard_normal([d.dim_value for d in blocked.graph.input[0].type.tensor_type.shape.dim])
    (actual,) = gw.compile(blocked, options=REFERENCE).run({"x": x.astype(np.float32)}).values()
    session = onnxruntime.InferenceSession(plain.SerializeToString())
    np.testing.assert_allclose(
        actual, session.run(None, {"x": x.astype(np.float32)})[0], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("block", [8, 16])
def test_ambiguous_models_use_the_block_of_this_machine(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    monkeypatch.setattr(channel_blocks, "_of_this_machine", lambda: block)
    monkeypatch.setattr(log, "warn_once", lambda about, message, *values: messages.append(message % values))
    compare(*chain(block, (3, 32, 32), 32))
    (message,) = messages
    assert f"it is read with blocks of {block}, as on this machine" in message


@pytest.mark.parametrize(
    ("machine", "flags", "block"),
    [("x86_64", "avx2 fma", 8), ("x86_64", "avx2 avx512f avx512bw", 16), ("aarch64", "asimd", 16)],
)
def test_the_assumed_block_depends_on_the_instruction_set(
    machine: str, flags: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = tmp_path / "cpuinfo"
    cpu.write_text(f"flags\t\t: fpu {flags} rdpid\n")
    monkeypatch.setattr(channel_blocks, "_CPU", cpu)
    monkeypatch.setattr(channel_blocks.platform, "machine", lambda: machine)
    assert channel_blocks._of_this_machine() == block


def test_sums_of_values_with_unproved_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime adds them with their axes of blocks, which also proves the size."""
    monkeypatch.setattr(channel_blocks, "_of_this_machine", lambda: pytest.fail("it is not proved"))
    w, f, plain = rng.standard_normal((32, 3, 1, 1)).astype(np.float32), Layers(), Layers()
    wide = f("Conv", "x", f.constant(in_blocks(w, 16, inputs=False)), domain=DOMAIN)
    narrow = f("GlobalAveragePool", wide, domain=DOMAIN)
    split, merged = f.constant(np.array([0, 2, 0, 0, 16])), f.constant(np.array([0, 32, 0, 0]))
    total = f("Reshape", f("Add", f("Reshape", wide, split), f("Reshape", narrow, split)), merged)
    result = f("ReorderOutput", total, domain=DOMAIN, channels=32)
    conv = plain("Conv", "x", plain.constant(w))
    expected = plain("Add", conv, plain("GlobalAveragePool", conv))
    compare(f.model([1, 3, 4, 5], [result]), plain.model([1, 3, 4, 5], [expected]))


def test_a_branch_has_blocks_of_its_own() -> None:
    w = rng.standard_normal((24, 3, 1, 1)).astype(np.float32)

    def branch(prefix: str, weights: Array, domain: str) -> onnx.GraphProto:
        f = Layers(prefix)
        y = f("Conv", "x", f.constant(weights), domain=domain)
        y = f("ReorderOutput", y, domain=domain, channels=24) if domain else f("Identity", y)
        results = [helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, None)]
        return helper.make_graph(f.nodes, "branch", [], results, f.weights)

    def model(weights: Array, domain: str) -> onnx.ModelProto:
        f = Layers()
        total = f("ReduceSum", "x", keepdims=0)
        condition = f("Greater", total, f.constant(np.zeros((), np.float32)))
        branches = {name: branch(name, weights, domain) for name in ("then_branch", "else_branch")}
        return f.model([1, 3, 4, 5], [f("If", condition, **branches)])

    compare(model(in_blocks(w, 8, inputs=False), DOMAIN), model(w, ""))


def test_weights_must_be_constant() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], domain=DOMAIN)
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [8, 8, 1, 1]) for name in "xw"]
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with pytest.raises(gw.ModelError, match="the weights are not constant"):
        gw.compile(model, options=REFERENCE)
