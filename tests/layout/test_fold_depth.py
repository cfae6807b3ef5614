"""3-D convolutions that are computed as 2-D ones, against onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.graph import Module
from graphwright.layout.costs import LayoutCosts
from tests.isas import RUNNABLE

RANDOM = np.random.default_rng(17)
AXES = ("n", "d", "h", "w")
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _copies_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images this small would stay as they are: let the pass think otherwise."""
    monkeypatch.setattr(LayoutCosts, "transfer_ns", lambda costs, value: 0)


def constants(**arrays: Array) -> list[onnx.TensorProto]:
    return [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]


def residual_block(
    channels: int, features: int, windows: dict[str, Sequence[int]], dims: Sequence[int | str]
) -> onnx.ModelProto:
    """A convolution of any window, PRelu, a second convolution, the residual, a concatenation and pooling."""
    make, kernel = onnx.helper.make_node, windows["kernel_shape"]
    nodes = [
        make("Conv", ["x", "v", "b"], ["c"], **windows),
        make("PRelu", ["c", "s"], ["r"]),
        make("Conv", ["r", "w"], ["d"], pads=[1] * 6),
        make("Add", ["d", "r"], ["a"]),
        make("Concat", ["a", "r"], ["y"], axis=-4),
        make("ReduceMean", ["a"], ["z"], axes=[2, 3, 4], keepdims=0),
    ]
    n, *size = dims
    graph = onnx.helper.make_graph(
        nodes,
        "residual",
        [onnx.helper.make_tensor_value_info("x", 1, [n, channels, *size])],
        [onnx.helper.make_tensor_value_info(name, 1, None) for name in ("c", "y", "z")],
        constants(
            v=RANDOM.normal(size=(features, channels, *kernel)),
            b=RANDOM.normal(size=features),
            s=RANDOM.normal(size=(features, 1, 1, 1)),
            w=RANDOM.normal(size=(features, features, 3, 3, 3)),
        ),
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def check(model: onnx.ModelProto, feeds: Sequence[Array], options: Options) -> None:
    compiled, reference = gw.compile(model, options=options), ReferenceEvaluator(model)
    for x in feeds:
        for result, wanted in zip(compiled(x), reference.run(None, {"x": x}), strict=True):
            assert result.shape == wanted.shape
            scale = np.abs(wanted).max(initial=1e-6)
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=2e-5 * scale)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Sequence[int]]:
    kernel = [draw(st.integers(1, 3)) for _ in range(3)]
    strides = [draw(st.sampled_from([1, 1, 2, 3])) for _ in range(3)]
    dilations = [draw(st.sampled_from([1, 1, 2])) for _ in range(3)]
    pads = [draw(st.integers(0, 2)) for _ in range(6)]
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}


@settings(max_examples=15, deadline=None)
@given(
    windows(),
    st.sampled_from([(1, 16), (16, 16), (17, 31), (32, 16), (3, 2)]),
    st.sets(st.sampled_from(AXES)),
    st.sampled_from(RUNNABLE),
)
def test_results_are_those_of_the_reference(
    window: dict[str, Sequence[int]], channels: tuple[int, int], dynamic: set[str], isa: str
) -> None:
    sizes = [(1, 5, 7, 9), (2, 6, 5, 8), (3, 5, 5, 5)]
    static = dict(zip(AXES, sizes[0], strict=True))
    model = residual_block(*channels, window, [a if a in dynamic else static[a] for a in AXES])
    chosen = [[s if a in dynamic else static[a] for a, s in zip(AXES, size, strict=True)] for size in sizes]
    feeds = [RANDOM.normal(size=(n, channels[0], *size)).astype(np.float32) for n, *size in chosen]
    check(model, feeds, Options(isa=isa))


@pytest.mark.parametrize("size", [(0, 4, 5, 5), (1, 1, 1, 1), (2, 1, 4, 4), (1, 4, 0, 5)])
def test_sizes_of_0_and_1(size: tuple[int, ...]) -> None:
    window = {"kernel_shape": [3, 3, 3], "strides": [2, 1, 1], "dilations": [1] * 3, "pads": [1] * 6}
    n, *rest = size
    model = gw.compile(residual_block(16, 16, window, AXES))
    c, y, z = model(np.ones((n, 16, *rest), np.float32))
    depth = (rest[0] - 1) // 2 + 1
    assert (
        c.shape == (n, 16, depth, *rest[1:]) and y.shape == (n, 32, depth, *rest[1:]) and z.shape == (n, 16)
    )


def nodes_of(model: onnx.ModelProto) -> list[str]:
    """The ops of the nodes after the pass."""
    names: list[str] = []

    def observe(name: str, product: Any) -> None:
        if name == "fold_depth" and isinstance(product, Module):
            names[:] = [node.op.name for node in product.main]

    gw.compile(model, observe=observe)
    return names


CUBE = {"kernel_shape": [3, 3, 3], "strides": [1] * 3, "dilations": [1] * 3, "pads": [1] * 6}


def test_only_inputs_and_results_are_transposed() -> None:
    """One input, the results c and y, and the image whose mean is z."""
    names = nodes_of(residual_block(32, 32, CUBE, (1, 4, 8, 8)))
    assert names.count("Pad") == 2 and names.count("Transpose") == 4


def test_convolutions_stay_where_copies_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LayoutCosts, "transfer_ns", lambda costs, value: 10**12)
    assert "Pad" not in nodes_of(residual_block(32, 32, CUBE, (1, 4, 8, 8)))


def test_large_images_stay_because_of_their_memory() -> None:
    assert "Pad" not in nodes_of(residual_block(32, 32, CUBE, (1, 64, 256, 256)))


def test_convolutions_with_a_fusion_hint_stay() -> None:
    """Their group would contain the copies, which no kernel computes together with the convolution."""
    model = residual_block(32, 32, CUBE, (1, 4, 8, 8))
    for node in model.graph.node[:2]:
        node.name = node.output[0]
        hint = node.metadata_props.add()
        hint.key, hint.value = "graphwright.fuse", "block"
    assert nodes_of(model).count("Pad") == 1
