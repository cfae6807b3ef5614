"""The benchmark of layers: arithmetic, generated models, and the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from benchmarks.figures import Work
from benchmarks.layers import Layer, decoder_layers, geometric_means, measure_layer, model_layers

CONV = Layer("Conv", (1, 4, 9, 9), (6, 2, 3, 3), (1, 6, 4, 4), (("strides", (2, 2)), ("group", 2)))


def test_the_work_of_a_layer_follows_its_formula() -> None:
    assert CONV.work == Work(2 * 6 * 4 * 4 * 2 * 3 * 3, 4 * (4 * 81 + 6 * 2 * 9 + 6 * 16))
    product = Layer("MatMul", (2, 3, 5), (2, 5, 7), (2, 3, 7), weights=False)
    assert product.work == Work(2 * 2 * 3 * 5 * 7, 4 * (30 + 70 + 42))


@pytest.mark.parametrize("layer", [CONV, Layer("MatMul", (3, 5), (5, 7), (3, 7), weights=False)])
def test_a_layer_is_a_model_of_one_op(layer: Layer, tmp_path: Path) -> None:
    layer.write(tmp_path / "layer.onnx")
    (result,) = onnxruntime.InferenceSession(tmp_path / "layer.onnx").run(None, layer.feeds())
    assert result.shape == layer.y
    assert 0.1 < np.std(result) < 10
    assert np.array_equal(layer.feeds()["x"], layer.feeds()["x"])


def test_equal_layers_of_a_model_are_listed_once() -> None:
    layers = model_layers("ppocr_cls")
    assert len({layer.name for layer in layers}) == len(layers)
    assert sum(layer.count for layer in layers) > len(layers)
    assert layers[0].x == (1, 3, 48, 192)


def test_the_decoders_products() -> None:
    layers = decoder_layers()
    assert len(layers) == 16
    flops = sum(layer.work.flops * layer.count for layer in layers if layer.x[0] == 1)
    assert flops == 2 * 3584 * (2 * 3584 + 2 * 512 + 3 * 18944)


def test_geometric_means_are_of_the_layers_that_a_peer_ran() -> None:
    def entry(share: float, **ratios: float) -> dict[str, object]:
        found = {name: {"median": value} for name, value in ratios.items()}
        return {"ratios": found, "roofline": {"shares": {"graphwright": {"median": share}}}}

    means = geometric_means([entry(0.5, a=4.0, b=3.0), entry(0.5, a=1.0)])
    assert means == pytest.approx({"a": 2.0, "b": 3.0, "limit": 0.5})


def test_a_layer_is_measured() -> None:
    entry = measure_layer(CONV, ["onnxruntime"], threads=1, rounds=2)
    assert entry["median_ns"].keys() == {"graphwright", "onnxruntime"}
    assert entry["ratios"]["onnxruntime"]["low"] <= entry["ratios"]["onnxruntime"]["median"]
    assert entry["roofline"]["flops"] == CONV.work.flops
