"""Hints: one kernel computes the nodes of a group, nodes with the hint ``never`` have kernels of their own,
and one error names all hints that cannot be satisfied, with both nodes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.fusion.rules.switches import rule_set
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module
from graphwright.ir.hints import KEY
from graphwright.ir.refusal import Code
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.text.equal import structurally_equal
from graphwright.passes.traversal import nodes_of

from .support import decided, module_of

CHAIN = (
    "%x: f32[8, 16]",
    '%a = Exp(%x): f32[8, 16] from "a"',
    '%b = Neg(%a): f32[8, 16] from "b"',
    '%c = Abs(%b): f32[8, 16] from "c"',
    '%d = Relu(%c): f32[8, 16] from "d"',
    "return %d",
)
NONE = rule_set(Options(fusion_rules="none"))


def hinted(lines: tuple[str, ...], **hints: str) -> Module:
    module = module_of(*lines)
    module.hints = hints
    return module


def kernels(module: Module) -> list[list[str]]:
    return [list(node.sources) for _, node, _ in nodes_of(module, Fused)]


def test_a_group_is_one_kernel_and_nothing_else_is_in_it() -> None:
    module = hinted(CHAIN, b="g", c="g")
    found = decided(module)
    assert kernels(module) == [["a"], ["b", "c"], ["d"]]
    assert found["a", "b"].code is found["c", "d"].code is Code.HINT
    assert found["a", "b"].why == "b is in the hinted group 'g', and a is not"
    assert found["b", "c"].why == "hint g"


def test_never_keeps_a_node_alone() -> None:
    module = hinted(CHAIN, c="never")
    found = decided(module)
    assert kernels(module) == [["a", "b"], ["c"], ["d"]]
    assert found["b", "c"].why == found["c", "d"].why == "c has the hint never"


def test_hints_count_more_than_switches() -> None:
    module = hinted(CHAIN, a="g", b="g")
    decided(module, NONE)
    assert kernels(module) == [["a", "b"], ["c"], ["d"]]


def test_views_do_not_split_a_hinted_group() -> None:
    lines = (
        "%x: f32[8, 16]",
        '%a = Exp(%x): f32[8, 16] from "a"',
        '%v = Reshape[shape=(128,)](%a): f32[128] from "v"',
        '%b = Neg(%v): f32[128] from "b"',
        "return %b",
    )
    module = hinted(lines, a="g", b="g")
    decided(module, NONE)
    assert kernels(module) == [["a", "v", "b"]]


PRODUCT = (
    "%x: f32[8, 16], %w: f32[16, 16]",
    '%a = Exp(%x): f32[8, 16] from "a"',
    '%b = MatMul(%a, %w): f32[8, 16] from "b"',
    '%c = ReduceSum[axes=(1,)](%b): f32[8, 1] from "c"',
    '%d = MatMul(%b, %w): f32[8, 16] from "d"',
    '%e = Neg(%x): f32[8, 16] from "e"',
    "return %c, %d, %e",
)


@pytest.mark.parametrize(
    ("nodes", "code", "why"),
    [
        ("ab", Code.PROLOGUE, "MatMul reads its operands from memory"),
        ("bc", Code.EPILOGUE_REDUCTION, "a reduction needs whole rows; the contraction stores tiles"),
        ("bd", Code.PROLOGUE, "MatMul reads its operands from memory"),
        ("ae", Code.NOT_ADJACENT, "neither reads the other's result"),
    ],
)
def test_a_group_that_no_kernel_computes(nodes: str, code: Code, why: str) -> None:
    with pytest.raises(ModelError) as error:
        decided(hinted(PRODUCT, **dict.fromkeys(nodes, "g")))
    (found,) = error.value.diagnostics
    assert found.where == f"{nodes[0]} and {nodes[1]}"
    assert found.message == f"cannot share a kernel, as the hinted group 'g' requires: {why} [{code.value}]"
    assert found.code == "fusion-hint" and found.hint


def test_all_hints_that_cannot_be_obeyed_are_one_error() -> None:
    with pytest.raises(ModelError) as error:
        decided(hinted(PRODUCT, a="g", e="g", b="h", c="h"))
    assert [each.where for each in error.value.diagnostics] == ["a and e", "b and c"]


def test_contradictory_hints_are_an_error() -> None:
    module = hinted(CHAIN, a="g", b="never")
    module.main.outputs[0].producer.sources = ("d", "a", "b")  # type: ignore[union-attr]
    with pytest.raises(ModelError, match="became one op but have the hints 'g' and 'never'") as error:
        decided(module)
    assert any(each.where == "a and b" for each in error.value.diagnostics)


def test_a_group_cannot_span_two_graphs() -> None:
    b = gw.GraphBuilder()
    x, flag = b.input("x", np.float32, (4,)), b.input("flag", np.bool_, ())
    with b.fuse("g"):
        y = b.exp(x, name="outside")

    def then() -> object:
        with b.fuse("g"):
            return b.neg(y, name="inside")

    b.output("z", b.if_(flag, then, lambda: b.abs(y)))
    with pytest.raises(ModelError, match="different graphs"):
        gw.compile(b.build())


# ---- where hints come from, and that they stay


def onnx_model(hint: str = "g") -> onnx.ModelProto:
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], "exp"),
        helper.make_node("Neg", ["a"], ["b"], "neg"),
        helper.make_node("Abs", ["b"], ["y"], "abs"),
    ]
    for node in nodes[:2]:
        node.metadata_props.add(key=KEY, value=hint)
        node.metadata_props.add(key="other", value="kept for others")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize(("hint", "parted"), [("g", ["exp + neg", "abs"]), ("never", ["exp", "neg", "abs"])])
def test_hints_of_onnx_models(hint: str, parted: list[str], tmp_path: Path) -> None:
    onnx.save(onnx_model(hint), tmp_path / "m.onnx")
    model = gw.compile(tmp_path / "m.onnx")
    x = np.random.default_rng(0).normal(size=(5, 16)).astype(np.float32)
    np.testing.assert_allclose(model(x)[0], np.exp(x), rtol=1e-6)
    module = parse_module(model.entry.graph)
    assert [node.location for node in module.main] == parted
    assert module.hints == {"exp": hint, "neg": hint}
    assert model.metadata == {}


def test_an_empty_hint_of_an_onnx_model(tmp_path: Path) -> None:
    onnx.save(onnx_model(""), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=f"exp: the metadata {KEY} is empty"):
        gw.compile(tmp_path / "m.onnx")


def test_hints_of_models_built_by_hand() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, (5, 16))
    with b.fuse("gate"):
        y = b.mul(x, b.sigmoid(x))
    with b.fuse("never"):
        y = b.exp(y)
    b.output("y", b.neg(y))
    model = gw.compile(b.build())
    array = np.linspace(-1, 1, 80, dtype=np.float32).reshape(5, 16)
    np.testing.assert_allclose(model(array)[0], -np.exp(array / (1 + np.exp(-array))), rtol=1e-5)
    assert len([n for n in parse_module(model.entry.graph).main if isinstance(n.op, Fused)]) == 3


def test_text_and_copies_keep_hints() -> None:
    module = hinted(CHAIN, **{'a "quoted"\n': "g", "b": "never"})
    again = parse_module(print_module(module))
    assert again.hints == clone_module(module).hints == module.hints
    assert structurally_equal(module, again) is None
    again.hints["b"] = "g"
    assert "hint" in str(structurally_equal(module, again))


def test_hints_prevent_the_fusion_of_attention() -> None:
    b = gw.GraphBuilder()
    q, k, v = (b.input(name, np.float32, (1, 2, 8, 16)) for name in "qkv")
    scores = b.matmul(q, b.transpose(k, perm=(0, 1, 3, 2)))
    with b.fuse("never"):
        scores = b.softmax(scores)
    b.output("y", b.matmul(scores, v))
    model = gw.compile(b.build())
    assert "ScaledDotProductAttention" not in model.entry.graph
    assert Code.ATTENTION_HINT.value in model.report() or "has the hint never" in model.report()
