"""Compares quantized models with ONNX Runtime: milliseconds of CPU time on one thread, and differences of
results.

Run: ``python -m benchmarks.quantized [NAME]...``. The models are quantized by ONNX Runtime's own tools, which
calibrate them on a few inputs: development models (:mod:`benchmarks.models`), chains of the bottleneck blocks
of ResNet-50, and chains of the feed-forward layers of BERT. Weights and inputs are random.
The engines take turns; the ratio is the median of pairs.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType

import graphwright as gw
from benchmarks.models import MODELS
from benchmarks.timing import processor_seconds
from graphwright.config import Options

Feeds = dict[str, Any]

SECONDS: Final = 4.0
"""Processor time of one case."""
STAGES: Final = ((64, 256, 1), (128, 512, 2), (256, 1024, 2), (512, 2048, 2))
"""Of bottlenecks: inner and outer channels, and the stride of the first."""
BLOCKS: Final = 2
"""Bottlenecks per stage."""


class Draft:
    """A float model while it is written."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def weight(self, *shape: int, reach: int = 1) -> str:
        """Normal numbers; a sum of ``reach`` of them has unit variance."""
        array = (self.rng.standard_normal(shape) / reach**0.5).astype(np.float32)
        self.constants.append(numpy_helper.from_array(array, f"w{len(self.constants)}"))
        return str(self.constants[-1].name)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"{op_type}_{name}", **attributes))
        return name

    def conv(self, x: str, cin: int, cout: int, size: int, stride: int = 1) -> str:
        w, bias = self.weight(cout, cin, size, size, reach=cin * size * size), self.weight(cout)
        return self.add("Conv", x, w, bias, strides=[stride] * 2, pads=[size // 2] * 4)

    def model(self, result: str) -> onnx.ModelProto:
        values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        results = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "chain", values, results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images() -> onnx.ModelProto:
    """A ResNet with bottleneck blocks."""
    d, cin = Draft((1, 3, 224, 224)), 64
    x = d.add("Relu", d.conv("x", 3, cin, 7, 2))
    x = d.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for inner, outer, first in STAGES:
        for block in range(BLOCKS):
            stride = 1 if block else first
            y = d.add("Relu", d.conv(x, cin, inner, 1))
            y = d.add("Relu", d.conv(y, inner, inner, 3, stride))
            y = d.conv(y, inner, outer, 1)
            x = d.add("Relu", d.add("Add", y, x if block else d.conv(x, cin, outer, 1, stride)))
            cin = outer
    pooled = d.add("Flatten", d.add("GlobalAveragePool", x))
    return d.model(d.add("Gemm", pooled, d.weight(cin, 1000, reach=cin), d.weight(1000)))


def layers() -> onnx.ModelProto:
    """Feed-forward layers of BERT, with their residuals, on 128 tokens."""
    d, x = Draft((1, 128, 768)), "x"
    root, half, one = (
        numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("r", 2**0.5), ("h", 0.5), ("o", 1))
    )
    d.constants += [root, half, one]
    for _ in range(4):
        y = d.add("Add", d.add("MatMul", x, d.weight(768, 3072, reach=768)), d.weight(3072))
        gate = d.add("Mul", d.add("Add", d.add("Erf", d.add("Div", y, "r")), "o"), "h")
        y = d.add("MatMul", d.add("Mul", y, gate), d.weight(3072, 768, reach=3072))
        x = d.add("Add", d.add("Add", y, d.weight(768)), x)
    return d.model(x)


class Samples(CalibrationDataReader):  # type: ignore[misc]  # ONNX Runtime has no types
    """A few inputs of a model."""

    def __init__(self, feeds: Callable[[int], Feeds]) -> None:
        self.feeds: Iterator[Feeds] = map(feeds, range(1, 5))

    def get_next(self) -> Any:
        return next(self.feeds, None)


def static(model: onnx.ModelProto, feeds: Callable[[int], Feeds], **how: Any) -> onnx.ModelProto:
    """Quantizes statically, with ranges from :class:`Samples` and weights per channel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quantization.quantize_static(model, path, Samples(feeds), per_channel=True, **how)
        return onnx.load(path)


def dynamic(model: onnx.ModelProto, _feeds: Callable[[int], Feeds]) -> onnx.ModelProto:
    """Quantizes dynamically, with the ranges of each run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        quantization.quantize_dynamic(model, path, weight_type=QuantType.QInt8)
        return onnx.load(path)


@dataclass(frozen=True)
class Case:
    """A float model, its inputs by seed, and how it is quantized."""

    model: Callable[[], onnx.ModelProto]
    feeds: Callable[[int], Feeds]
    quantize: Callable[..., onnx.ModelProto]
    how: tuple[tuple[str, Any], ...] = ()

    def quantized(self) -> onnx.ModelProto:
        return self.quantize(self.model(), self.feeds, **dict(self.how))


def image(seed: int) -> Feeds:
    """An input of :func:`images`."""
    return {"x": np.random.default_rng(seed).standard_normal((1, 3, 224, 224)).astype(np.float32)}


def tokens(seed: int) -> Feeds:
    """An input of :func:`layers`."""
    return {"x": np.random.default_rng(seed).standard_normal((1, 128, 768)).astype(np.float32)}


def unchanged(model: onnx.ModelProto, _feeds: Callable[[int], Feeds]) -> onnx.ModelProto:
    """The f32 model itself."""
    return model


def _how(format: QuantFormat, activations: QuantType) -> tuple[tuple[str, Any], ...]:
    return ("quant_format", format), ("activation_type", activations), ("weight_type", QuantType.QInt8)


_QDQ: Final = _how(QuantFormat.QDQ, QuantType.QUInt8)


def _development(name: str) -> Case:
    model = MODELS[name]
    return Case(lambda: onnx.load(model.path()), lambda seed: model.feeds(seed=seed), static, _QDQ)


CASES: Final = {
    "images-f32": Case(images, image, unchanged),
    "images-qdq": Case(images, image, static, _QDQ),
    "images-qdq-s8": Case(images, image, static, _how(QuantFormat.QDQ, QuantType.QInt8)),
    "images-qlinear": Case(images, image, static, _how(QuantFormat.QOperator, QuantType.QUInt8)),
    "layers-f32": Case(layers, tokens, unchanged),
    "layers-qdq": Case(layers, tokens, static, _QDQ),
    "layers-dynamic": Case(layers, tokens, dynamic),
    **{
        name: _development(name)
        for name in ("mobilenet_v2", "resnet50", "ppocr_det", "ppocr_rec", "vit_b16", "bert_base")
    },
}
"""By name. Development models are quantized as QDQ models with u8 and s8."""


def measure(case: Case) -> None:
    """Measures a case and prints its row."""
    model, feeds = case.quantized(), case.feeds(0)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3
    peer = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    own = gw.compile(model, options=Options(threads=1))
    expected, *_ = peer.run(None, feeds)
    actual, *_ = own.run(feeds).values()
    off = float(np.abs(actual - expected).max() / np.abs(expected).max())
    pairs: list[tuple[float, float]] = []
    end = time.process_time() + SECONDS
    while time.process_time() < end:
        pairs.append(
            (processor_seconds(lambda: own.run(feeds)), processor_seconds(lambda: peer.run(None, feeds)))
        )
    ours, theirs = (min(each) * 1e3 for each in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"{ours:8.2f} ms, ONNX Runtime {theirs:8.2f} ms, {ratio:5.2f} times as fast; differs by {off:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    logging.disable(logging.WARNING)  # of the quantizer
    for name in parser.parse_args().names or CASES:
        print(f"{name:16}", end="", flush=True)
        measure(CASES[name])


if __name__ == "__main__":
    main()
