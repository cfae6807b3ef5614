"""The zoo: every model's answers are finite and vary, and the frontend reads what onnxruntime runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from benchmarks.models import MODELS, DevModel, alphabet
from graphwright.frontends.onnx import load
from tests.frontends.support import run

pytestmark = pytest.mark.models
CASES = [
    pytest.param(model, variant, id=f"{model.name}-{variant}")
    for model in MODELS.values()
    for variant in model.variants
]


SLOW_IN_NUMPY = (
    "ddddocr_det",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
)
READ = [m for m in MODELS.values() if not m.heavy and m.name not in SLOW_IN_NUMPY]


def available(model: DevModel) -> DevModel:
    """``model`` unless it takes minutes to make: those are tested where they were fetched before."""
    if model.heavy and not model.cached_file().exists():
        pytest.skip(f"python -m benchmarks.models fetch {model.name}")
    return model


def peer(model: DevModel | bytes, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = model if isinstance(model, bytes) else model.path()
    return list(onnxruntime.InferenceSession(source, options).run(None, feeds))


@pytest.mark.parametrize(("model", "variant"), CASES)
def test_onnxruntimes_answers_are_finite_and_vary(model: DevModel, variant: str) -> None:
    one, other = (peer(available(model), model.feeds(variant, seed)) for seed in (0, 1))
    for answer, changed in zip(one, other, strict=True):
        assert np.isfinite(answer).all()
        assert not np.array_equal(answer, changed)
        assert answer.size == 1 or np.ptp(answer) > 0


@pytest.mark.parametrize("model", READ, ids=lambda m: m.name)
def test_the_imported_graph_means_what_onnxruntime_computes(model: DevModel) -> None:
    default, feeds = model.variants["default"], model.feeds()
    module = load(model.path(), shapes=default.shapes, constants=default.values)
    results = run(module, feeds)
    assert list(results) == [output.name for output in onnx.load(model.path()).graph.output]
    for found, expected in zip(results.values(), peer(model, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_feeds_are_the_same_for_the_same_seed() -> None:
    for model in MODELS.values():
        for variant in model.variants:
            one, other = model.feeds(variant, 3), model.feeds(variant, 3)
            assert all(np.array_equal(one[name], other[name]) for name in one)


def test_the_alphabet_has_one_character_per_class() -> None:
    model = MODELS["ppocr_rec"]
    (answer,) = peer(model, model.feeds())
    characters = alphabet(model)
    assert len(characters) == answer.shape[-1] == 6625
    assert characters[0] == "" and characters[-1] == " " and "0" in characters


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet", "light_resnet50"])
def test_light_models_depend_on_the_order_of_weights_and_channels(name: str) -> None:
    model = MODELS[name]
    feeds = model.feeds()
    (data,) = feeds
    (expected,) = peer(model, feeds)
    flipped = {data: feeds[data][:, ::-1].copy()}
    assert np.abs(peer(model, flipped)[0] - expected).max() > 1e-3 * expected.max()
    original = onnx.load(model.path())
    conv = next(n for n in original.graph.node if n.op_type == "Conv")
    index = next(i for i, t in enumerate(original.graph.initializer) if t.name == conv.input[1])
    weights = numpy_helper.to_array(original.graph.initializer[index])
    for changed in (weights[::-1], weights[:, ::-1], weights[..., ::-1], weights[..., ::-1, :]):
        original.graph.initializer[index].CopyFrom(numpy_helper.from_array(changed.copy(), conv.input[1]))
        found = peer(original.SerializeToString(), feeds)[0]
        assert np.abs(found - expected).max() > 1e-3 * expected.max()
