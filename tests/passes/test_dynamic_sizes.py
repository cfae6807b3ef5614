"""The report about data-dependent sizes and ranks, and about their origins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from graphwright import ops
from graphwright.compiler.pipeline import graph_passes
from graphwright.compiler.report import dynamic_lines, with_dynamic
from graphwright.frontends.onnx import load
from graphwright.passes.dynamic_sizes import MOST_LINES, what_stays_dynamic
from graphwright.passes.manager import run_passes
from tests.tools.support import graphwright

ops.load()
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = ("x", F32, ["N", 4])


def _model(nodes: list[Any], inputs: list[Any], **constants: Any) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(*each) for each in inputs]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", F32, None)], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), op.lower(), **attributes)


def _branch(op: str, inputs: str) -> onnx.GraphProto:
    made = helper.make_node(op, inputs.split(), [f"o{op}"], **({"axis": 0} if op == "Concat" else {}))
    return helper.make_graph([made], op, [], [helper.make_tensor_value_info(f"o{op}", F32, None)])


PART = [_node("Shape", "x", "s"), _node("Gather", "s first", "n"), _node("Concat", "k n", "t", axis=0)]
CASES: dict[str, tuple[onnx.ModelProto, list[str]]] = {
    "numbers alone": (_model([_node("Relu", "x", "y")], [("x", F32, [2, 3])]), []),
    "sizes of inputs": (
        _model([_node("Add", "x z", "y")], [X, ("z", F32, ["N", "M"])]),
        ["N: axis 0 of input x, axis 0 of input z", "M: axis 1 of input z"],
    ),
    "elements of an input": (
        _model([_node("Reshape", "x t", "y")], [X, ("t", I64, [2])]),
        [
            f"reshaped{end}: axis {k} of reshape (Reshape): determined by element {k} of operand 1, "
            f"from element {k} of input t"
            for k, end in enumerate(("", "_1"))
        ],
    ),
    "one element of a shape": (
        _model([*PART, _node("Expand", "x t", "y")], [("x", F32, ["N", 1]), ("k", I64, [1])], first=[0]),
        [
            "expanded: axis 0 of expand (Expand): determined by element 0 of operand 1, "
            "from element 0 of input k"
        ],
    ),
    "a computed bound": (
        _model(
            [
                _node("ReduceMax", "l", "m", keepdims=0),
                _node("Range", "zero m one", "r"),
                _node("Cast", "r", "y", to=F32),
            ],
            [("l", I64, ["B"])],
            zero=np.int64(0),
            one=np.int64(1),
        ),
        ["range: axis 0 of range (Range): determined by operand 1, from reducemax (ReduceMax)"],
    ),
    "elements of data": (
        _model([_node("NonZero", "x", "z"), _node("Cast", "z", "y", to=F32)], [X]),
        ["nonzero: axis 1 of nonzero (NonZero): determined by the values of a tensor, from input x"],
    ),
    "a rank": (
        _model([_node("Reshape", "x t", "y")], [X, ("t", I64, ["K"])]),
        ["the rank of reshape (Reshape): determined by the values of operand 1, from input t"],
    ),
    "a branch": (
        _model(
            [_node("If", "c", "y", then_branch=_branch("Relu", "x"), else_branch=_branch("Concat", "x x"))],
            [X, ("c", BOOL, [])],
        ),
        ["branch: axis 0 of if (If): determined by the branch or the number of iterations, from input c"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_dynamic_size_names_what_decides_it(name: str) -> None:
    model, expected = CASES[name]
    module = load(model)
    run_passes(module, *graph_passes())
    before = [str(value.type) for node in module.walk() for value in node.outputs]
    found = what_stays_dynamic(module)
    assert [line for line in found if line in expected] == expected
    assert before == [str(value.type) for node in module.walk() for value in node.outputs]
    assert bool(found) == bool(expected)


def test_an_input_of_unknown_rank_is_named() -> None:
    module = load(_model([_node("Relu", "x", "y")], [("x", F32, None)]))
    run_passes(module, *graph_passes())
    assert what_stays_dynamic(module) == ["the rank of input x: the model leaves it open"]


def test_the_report_and_inspect_show_dynamic_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, (line,) = CASES["one element of a shape"]
    compiled = gw.compile(model)
    assert line in dynamic_lines(compiled.report())
    compiled.save(tmp_path / "m.om")
    assert dynamic_lines(gw.load(tmp_path / "m.om").report()) == dynamic_lines(compiled.report())
    shown = graphwright("inspect", "m.om")
    assert shown.exit_code == 0 and "known only at run time" in shown.stdout
    assert "N: axis 0 of input x" in shown.stdout
    assert gw.compile(CASES["numbers alone"][0]).report().endswith("dynamic: nothing\n")


def test_lines_are_read_back_and_bounded() -> None:
    assert dynamic_lines(with_dynamic("passes\n", ["a: b", "c"])) == ["a: b", "c"]
    assert dynamic_lines(with_dynamic("", [])) == []
    inputs = [(f"x{k}", F32, [f"N{k}"]) for k in range(MOST_LINES + 5)]
    total = [_node("Relu", "x0", "y")]
    assert what_stays_dynamic(load(_model(total, inputs)))[-1] == "and 5 more"
