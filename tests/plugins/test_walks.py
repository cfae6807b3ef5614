"""The walks of CONTRIBUTING, done from outside of the tree: one file brings an op, a pass or a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from tests.tools.support import graphwright

from .support import EXAMPLES, node, node_model, numbers

Array = np.ndarray[Any, Any]
FLIP = EXAMPLES / "flip_rows.py"


def flip(source: str, result: str) -> Any:
    return helper.make_node("FlipRows", [source], [result], domain="example")


def constant(name: str, array: Array) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def images(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def flipped(x: Array) -> Array:
    return x[:, :, ::-1]


# -- an op ------------------------------------------------------------------------------------------------


@pytest.fixture
def _flip_rows() -> None:
    gw.plugins.load(FLIP)


@pytest.mark.usefixtures("_flip_rows")
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (0, 3, 2, 2), (1, 17, 7, 3), (2, 3, 0, 5)])
def test_an_op_is_imported_inferred_and_run_by_its_kernel(shape: tuple[int, ...]) -> None:
    model = gw.compile(node_model(node("FlipRows"), shape=("N", shape[1], "H", shape[3])))
    x = images(0, *shape)
    np.testing.assert_array_equal(model(x)[0], flipped(x))
    assert model.executor.stats()["host_calls"] == 0
    assert model.outputs[0].shape == ("N", shape[1], "H", shape[3])


@pytest.mark.usefixtures("_flip_rows")
def test_an_op_that_its_kernel_does_not_serve_is_decomposed() -> None:
    model = gw.compile(node_model(node("FlipRows"), shape=("N", 3, "H", 2), dtype=TensorProto.INT32))
    x = np.arange(2 * 3 * 5 * 2, dtype=np.int32).reshape(2, 3, 5, 2)
    np.testing.assert_array_equal(model(x)[0], flipped(x))
    assert "FlipRows(" not in model.entry.graph and model.executor.stats()["host_calls"] == 0


@pytest.mark.usefixtures("_flip_rows")
def test_an_op_rejects_types_by_name() -> None:
    with pytest.raises(gw.ModelError, match=r"FlipRows: f32\[N, 3\] is not a batch of images"):
        gw.compile(node_model(node("FlipRows"), shape=("N", 3)))


def between_convolutions(channels: int, middle: Any) -> tuple[onnx.ModelProto, Array]:
    """Large enough for channel blocks to pay; and an operand."""
    first, second = images(1, channels, 16, 3, 3), images(2, 16, channels, 3, 3)
    nodes = [
        constant("a", first / 12),
        constant("b", second / 12),
        helper.make_node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1]),
        *middle,
        helper.make_node("Conv", ["q", "b"], ["y"]),
    ]
    return node_model(*nodes, shape=(1, 16, 65, 64)), images(3, 1, 16, 65, 64)


@pytest.mark.usefixtures("_flip_rows")
@pytest.mark.parametrize("isa", ["v3", "auto"])
@pytest.mark.parametrize("channels", [16, 37])
def test_an_op_works_on_channel_blocks_between_convolutions(channels: int, isa: str) -> None:
    """There is one layout conversion before the convolutions and one after them, and none for the op."""
    model, x = between_convolutions(channels, [flip("p", "q")])
    compiled = gw.compile(model, options=gw.CompileOptions(isa=isa))
    assert compiled.entry.graph.count("= TransData") == 2
    bounds = [constant(f"s{k}", np.array([bound])) for k, bound in enumerate((-1, -(2**62), 2, -1))]
    slicing = helper.make_node("Slice", ["p", "s0", "s1", "s2", "s3"], ["q"])
    plain, _ = between_convolutions(channels, [*bounds, slicing])
    session = onnxruntime.InferenceSession(plain.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(compiled(x)[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_an_op_that_promises_blocks_needs_a_kernel_for_them() -> None:
    text = FLIP.read_text()
    Path("promise.py").write_text(text[: text.index("@gp.candidate")].replace("def decompose", "def _unused"))
    Path("flip_rows.c").write_text((EXAMPLES / "flip_rows.c").read_text())
    gw.plugins.load("promise.py")
    with pytest.raises(gw.GraphwrightError, match="FlipRows accepts channel-blocked layouts, but no kernel"):
        gw.compile(between_convolutions(16, [flip("p", "q")])[0])


@pytest.mark.usefixtures("_flip_rows")
def test_the_padding_rule_of_an_op_decides_whether_gears_pad() -> None:
    """Buckets only pad images after their columns; padded rows would move elements."""
    wide = node_model(node("FlipRows"), shape=("N", 2, 4, "W"))
    model = gw.compile(wide, gears=gw.Gears({"x": [[1, 2, 4, 3], [3, 2, 4, 8]]}, between="pad"))
    x = images(3, 2, 2, 4, 5)
    np.testing.assert_array_equal(model(x)[0], flipped(x))
    high = node_model(node("FlipRows"), shape=("N", 2, "H", 4))
    with pytest.raises(gw.ModelError, match="FlipRows: it flips a padded axis"):
        gw.compile(high, gears=gw.Gears({"x": [[1, 2, 3, 4], [3, 2, 8, 4]]}, between="pad"))


def test_the_samples_of_an_op_are_run_by_the_command() -> None:
    result = graphwright("plugins", FLIP)
    assert result.exit_code == 0, result.output
    assert "FlipRows" in result.output


# -- a pass -----------------------------------------------------------------------------------------------

PASS = '''
from graphwright.plugins import *
from graphwright.ops.core.unary import Relu


class DropRelu(Pass):
    """Relu of Relu is Relu."""

    name = "drop_relu"

    def run(self, module: Module, record: Record) -> bool:
        for graph in module.graphs.values():
            for node in graph:
                before = node.operand(0).producer if isinstance(node.op, Relu) else None
                if before is not None and isinstance(before.op, Relu):
                    graph.replace_all_uses(node.output, node.operand(0))
                    record.did("second Relu dropped")
        return bool(record.counts)


register(DropRelu(), at="imported")
'''


def test_a_pass_is_one_file_and_runs_at_its_point() -> None:
    Path("drop_relu.py").write_text(PASS)
    gw.plugins.load("drop_relu.py")
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    model = gw.compile(node_model(*nodes))
    x = numbers(4, 5)
    np.testing.assert_array_equal(model(x)[0], np.maximum(x, 0))
    assert "drop_relu: second Relu dropped 1" in model.report()


# -- a fusion rule ----------------------------------------------------------------------------------------

RULE = """
from flip_rows import FlipRows

import graphwright.plugins as gp

X = gp.Var("x")


def rewrite(b, m):
    return m[X]


inner = gp.P(FlipRows, X, once=True)
gp.register(gp.Rule("flip_twice", gp.P(FlipRows, inner), gp.always, rewrite), at="simplified")
"""


def test_a_rule_is_one_file_and_fuses_what_it_matches() -> None:
    Path("flip_twice.py").write_text(RULE)
    for name in ("flip_rows.py", "flip_rows.c"):
        Path(name).write_text((EXAMPLES / name).read_text())
    gw.plugins.load("flip_twice.py")
    nodes = [flip("x", "a"), flip("a", "b"), helper.make_node("Neg", ["b"], ["y"])]
    model = gw.compile(node_model(*nodes, shape=("N", 3, "H", 2)))
    assert "FlipRows(" not in model.entry.graph
    x = images(4, 2, 3, 5, 2)
    np.testing.assert_array_equal(model(x)[0], -x)
