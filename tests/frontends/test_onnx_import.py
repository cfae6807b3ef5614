"""The ONNX frontend: sizes, names, opsets, functions, regions, and one error for all faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphwright as gw
from graphwright.errors import ModelError
from graphwright.frontends.onnx import graph, load, node_reader
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.default_values import OVERRIDABLE
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.nesting import MAX_DEPTH
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.verify import verify
from graphwright.ops.core.random import RandomUniform
from tests.frontends.support import DOMAIN, model_of, run, tensor_info, toy

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def codes(error: pytest.ExceptionInfo[ModelError]) -> list[str]:
    return [d.code for d in error.value.diagnostics]


def test_package_does_not_import_onnx() -> None:
    code = "import graphwright, graphwright.frontends, sys; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# Sizes


class Program:
    """Like an ONNXProgram of PyTorch: a callable with a model of onnx_ir."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self) -> None: ...


@pytest.mark.parametrize("is_external", [True, False])
def test_models_of_onnx_ir(is_external: bool, tmp_path: Path) -> None:
    """Their external data is found in the folder from which they were loaded."""
    onnx_ir = pytest.importorskip("onnx_ir")
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    proto = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], initializers=[numpy_helper.from_array(w, "w")]
    )
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=is_external, location="weights", size_threshold=0)
    for source in (onnx_ir.load(path), Program(onnx_ir.load(path))):
        np.testing.assert_array_equal(gw.compile(source)(X)[0], X @ w)


def test_equal_names_share_a_symbol_and_others_do_not() -> None:
    infos = [tensor_info("x", ["batch", None, "?", 4]), tensor_info("z", ["batch", "?", "", "a.b"])]
    module = load(model_of([toy("Scale", ["x"], ["y"])], infos))
    x, z = (value.type.dims for value in module.main.inputs)
    assert str(x[0]) == "batch" and x[0] is z[0]
    assert (str(x[1]), str(x[2]), x[3]) == ("x_1", "x_2", 4)
    assert [str(d) for d in z[1:]] == ["z_1", "z_2", "a_b"]


@pytest.mark.parametrize("name", ["None", "unk", "Unknown", "dynamic", "*", "-1", "any"])
def test_sizes_with_meaningless_names_are_not_equal(name: str) -> None:
    module = load(model_of([toy("Scale", ["x"], ["y"])], [tensor_info("x", [name, name])]))
    assert [str(dim) for dim in module.main.inputs[0].type.dims] == ["x_0", "x_1"]


def test_names_that_become_the_same_identifier_stay_distinct() -> None:
    infos = [tensor_info("x", ["p2o.DynamicDimension.1", "p2o_DynamicDimension_1", "*/;\x1b[31m"])]
    dims = load(model_of([toy("Scale", ["x"], ["y"])], infos)).main.inputs[0].type.dims
    assert len(set(dims)) == 3 and str(dims[0]) == "p2o_DynamicDimension_1"
    assert all(str(d).replace("_", "").isalnum() for d in dims)


@pytest.mark.parametrize("size", [0, -1])
def test_declared_sizes_below_one_are_dynamic(size: int) -> None:
    model = model_of([toy("Scale", ["x"], ["y"])])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = size
    assert str(load(model).main.inputs[0].type) == "f32[2, x_1]"


def test_an_input_of_unknown_rank() -> None:
    module = load(model_of([helper.make_node("Relu", ["x"], ["y"])], [tensor_info("x", None)]))
    assert str(module.main.outputs[0].type) == "f32[*]"


def test_a_number_given_for_a_name_holds_wherever_the_name_occurs() -> None:
    infos = [tensor_info("x", ["n", "m"]), tensor_info("z", ["n", None])]
    module = load(
        model_of([toy("Scale", ["x"], ["y"])], infos, ["y", "z"]), shapes={"x": (5, None), "z": (None, "k")}
    )
    assert [str(v.type) for v in module.main.inputs] == ["f32[5, m]", "f32[5, k]"]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"q": (1, 2)}, "the inputs are: x [2, 3]"),
        ({"x": (2, 3, 4)}, "'x' has rank 2, but 3 sizes are given"),
        ({"x": (2, 5)}, "a fixed size of 3, which cannot become 5"),
        ({"x": (2, 2**40)}, "is not a size"),
        ({"x": (2, 3.0)}, "3.0 is not a size"),
    ],
)
def test_wrong_shapes_are_rejected(shapes: dict[str, tuple[int, ...]], said: str) -> None:
    with pytest.raises(ModelError, match="shapes") as error:
        load(model_of([toy("Scale", ["x"], ["y"])]), shapes=shapes)
    assert said in str(error.value)


# Inputs that become constants, names, metadata


def test_constants_replace_inputs() -> None:
    infos = [tensor_info("x"), tensor_info("sr", [], TensorProto.INT64)]
    cast = helper.make_node("Cast", ["sr"], ["f"], to=TensorProto.FLOAT)
    model = model_of([cast, helper.make_node("Mul", ["x", "f"], ["y"])], infos)
    module = load(model, constants={"sr": 16000})
    assert [value.name for value in module.main.inputs] == ["x"]
    np.testing.assert_array_equal(run(module, {"x": X})["y"], X * 16000)
    with pytest.raises(ModelError, match=r"the constant has type f32\[1\], but the input has type i64\[\]"):
        load(model, constants={"sr": np.ones(1, np.float32)})
    with pytest.raises(ModelError, match="not an input: 'rate'"):
        load(model, constants={"rate": 1})
    with pytest.raises(ModelError) as caught:
        load(model, constants={"rate": 1, "sr": [1, 2], "x": 3}, shapes={"y": [1]})
    faults = [(d.code, d.message) for d in caught.value.diagnostics]
    assert [code for code, _ in faults].count("constants") == 3, "all faults of a kind at once"
    assert ("shapes", "not an input: 'y'") in faults


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_listed_as_inputs_are_constants(ir_version: int) -> None:
    weight = numpy_helper.from_array(np.full((2, 3), 3, np.float32), "w")
    infos = [tensor_info("x"), tensor_info("w")]
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], infos, initializers=[weight])
    model.ir_version = ir_version
    module = load(model)
    assert [v.name for v in module.main.inputs] == ["x"]
    assert module.metadata.get(OVERRIDABLE) == (None if ir_version < 4 else json.dumps(["w"]))
    np.testing.assert_array_equal(run(module, {"x": X})["y"], X + 3)
    changed = load(model, constants={"w": np.full((2, 3), 5, np.float32)})
    np.testing.assert_array_equal(run(changed, {"x": X})["y"], X + 5)


def test_errors_about_inputs_with_a_default_value_say_that_they_are_constants() -> None:
    weight = numpy_helper.from_array(np.full((2, 3), 3, np.float32), "w")
    infos = [tensor_info("x"), tensor_info("w")]
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_of(nodes, infos, initializers=[weight]).SerializeToString()
    hint = r"it has a default value, which is compiled as a constant; compile with constants=\{'w': \.\.\.\}"
    with pytest.raises(gw.FeedError, match=rf"there is no input 'w'[^\n]*\n +{hint} for another; the inputs"):
        gw.compile(model, shapes={"w": (2, 3)})
    compiled = gw.compile(model)
    with pytest.raises(gw.FeedError, match=hint):
        compiled.run({"x": X, "w": X})
    with pytest.raises(gw.FeedError, match="there is no input 'v'") as caught:
        compiled.run({"x": X, "v": X})
    assert "default" not in str(caught.value)
    changed = gw.compile(model, constants={"w": X})
    np.testing.assert_array_equal(changed.run({"x": X})["y"], X + X)


def test_names_sources_and_metadata_survive() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "first"),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    model = model_of(nodes, outputs=["b", "same", "b"])
    model.metadata_props.add(key="character", value="a\nb")
    module = load(model)
    assert module.metadata == {"character": "a\nb"}
    assert module.main.output_names == ("b", "same", "b")
    assert [node.sources for node in module.main][:2] == [("first",), ("Neg:b",)]
    assert [v.name for node in module.main for v in node.outputs][:2] == ["a", "b"]


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [toy("Scale", ["a"], ["y"], factor=3.0), toy("Scale", ["x"], ["a"])]
    np.testing.assert_array_equal(run(load(model_of(nodes, toys=2)), {"x": X})["y"], (X * 2 + 200) * 3 + 200)


def test_equal_and_unused_initializers_cost_nothing() -> None:
    weights = [numpy_helper.from_array(np.ones((2, 3), np.float32), name) for name in ("w", "v")]
    weights.append(numpy_helper.from_array(np.ones(1000, np.float32), "unused"))
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "v"], ["y"])]
    module = load(model_of(nodes, initializers=weights))
    assert len(module.constants) == 1
    assert sum(isinstance(node.op, Constant) for node in module.main) == 2


# Opsets


@pytest.mark.parametrize(("version", "offset"), [(2, 200), (4, 200), (5, 500), (9, 500)])
def test_the_newest_mapping_not_above_the_models_opset_serves(version: int, offset: int) -> None:
    module = load(model_of([toy("Scale", ["x"], ["y"])], toys=version))
    np.testing.assert_array_equal(run(module, {"x": X})["y"], X * 2 + offset)


def test_an_op_known_only_from_a_later_opset_is_unsupported() -> None:
    with pytest.raises(ModelError, match="at opset 6 is not supported") as error:
        load(model_of([toy("Late", ["x"], ["y"])], toys=6))
    assert "supported versions are 7: convert the model to opset 7 or later" in str(error.value)


@pytest.mark.parametrize("opset", [0, 29, -3])
def test_opsets_out_of_range_are_rejected(opset: int) -> None:
    with pytest.raises(ModelError, match=f"opset {opset} is not supported, only 1 to 28"):
        load(model_of([toy("Scale", ["x"], ["y"])], opset=opset))


def test_a_domain_without_opset_is_named() -> None:
    model = model_of([helper.make_node("Scale", ["x"], ["y"], domain="unheard.of")])
    with pytest.raises(ModelError, match=r"imports no opset of domain 'unheard.of'"):
        load(model)


@pytest.mark.parametrize(
    ("domain", "op_type", "wanted"),
    [("com.microsoft", "QuickGelu", X / (1 + np.exp(-1.702 * X))), ("ai.onnx.ml", "Binarizer", X > 0)],
)
def test_a_known_domain_without_opset_is_taken_at_its_newest(domain: str, op_type: str, wanted: Any) -> None:
    """ONNX Runtime does the same: its own tools write such models."""
    model = model_of([helper.make_node(op_type, ["x"], ["y"], domain=domain)])
    np.testing.assert_allclose(run(load(model), {"x": X})["y"], wanted, rtol=1e-6)


def test_an_unsupported_op_of_a_known_domain_without_opset_is_listed() -> None:
    model = model_of([helper.make_node("Scale", ["x"], ["y"], domain="com.microsoft")])
    with pytest.raises(ModelError, match=r"com\.microsoft\.Scale at opset 1 is not supported"):
        load(model)


def test_sparse_constants_are_dense() -> None:
    values, places = np.array([5, 6], np.float32), np.array([[0, 1], [1, 2]])
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(values), numpy_helper.from_array(places), [2, 3]
    )
    model = model_of([helper.make_node("Constant", [], ["y"], sparse_value=sparse)])
    np.testing.assert_array_equal(run(load(model), {"x": X})["y"], [[0, 5, 0], [0, 0, 6]])


# Functions


def function(
    name: str, nodes: list[onnx.NodeProto], attributes: tuple[str, ...] = (), **others: object
) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, int(str(others.pop("toys", 9))))]
    imports.append(helper.make_opsetid("local", 1))
    made = helper.make_function("local", name, ["a"], ["b"], nodes, imports, list(attributes))
    made.attribute_proto.extend(helper.make_attribute(k, v) for k, v in others.items())
    return made


def with_functions(call: onnx.NodeProto, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    model = model_of([call], functions=functions)
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def call(name: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(name, ["x"], ["y"], "caller", domain="local", **attributes)


def by_reference(op_type: str, domain: str, outer: str, inner: str = "factor") -> onnx.NodeProto:
    node = helper.make_node(op_type, ["a"], ["b"], "inner", domain=domain)
    node.attribute.append(
        onnx.AttributeProto(name=inner, ref_attr_name=outer, type=onnx.AttributeProto.FLOAT)
    )
    return node


def test_functions_are_inlined_with_their_attributes_and_opsets() -> None:
    leaf = function("leaf", [by_reference("Scale", DOMAIN, "f")], toys=2, f=4.0)
    middle = function("middle", [by_reference("leaf", "local", "g", "f")], ("g",))
    given = load(with_functions(call("middle", g=3.0), leaf, middle))
    np.testing.assert_array_equal(run(given, {"x": X})["y"], X * 3 + 200)
    assert [node.sources for node in given.main] == [("caller/inner/inner",)]
    default = load(with_functions(call("middle"), leaf, middle))
    np.testing.assert_array_equal(run(default, {"x": X})["y"], X * 4 + 200)


def test_a_function_of_the_model_overrides_a_known_op() -> None:
    own = function("Relu", [helper.make_node("Neg", ["a"], ["b"])])
    own.domain = ""
    module = load(with_functions(helper.make_node("Relu", ["x"], ["y"]), own))
    np.testing.assert_array_equal(run(module, {"x": X})["y"], -X)


def test_functions_that_call_each_other_are_rejected() -> None:
    ping = function("ping", [helper.make_node("pong", ["a"], ["b"], domain="local")])
    pong = function("pong", [helper.make_node("ping", ["a"], ["b"], domain="local")])
    with pytest.raises(ModelError, match="ping -> pong -> ping"):
        load(with_functions(call("ping"), ping, pong))


def test_functions_that_grow_without_end_hit_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MAX_INLINED", 500)
    levels = [function("f0", [helper.make_node("Neg", ["a"], ["b"])])]
    for level in range(1, 40):
        twice = [
            helper.make_node(f"f{level - 1}", ["a"], ["m"], domain="local"),
            helper.make_node(f"f{level - 1}", ["m"], ["b"], domain="local"),
        ]
        levels.append(function(f"f{level}", twice))
    with pytest.raises(ModelError, match="more than 500 nodes"):
        load(with_functions(call("f39"), *levels))


def test_a_chain_of_functions_deeper_than_the_limit_is_rejected() -> None:
    chain = [function("f0", [helper.make_node("Neg", ["a"], ["b"])])]
    chain += [
        function(f"f{i}", [helper.make_node(f"f{i - 1}", ["a"], ["b"], domain="local")])
        for i in range(1, MAX_DEPTH + 10)
    ]
    with pytest.raises(ModelError, match=f"nest deeper than {MAX_DEPTH}"):
        load(with_functions(call(f"f{len(chain) - 1}"), *chain))


def test_ops_that_the_specification_defines_by_others_are_expanded() -> None:
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], "norm", axes=[1])
    module = load(model_of([node]))
    expected = (X - X.mean(1, keepdims=True)) / (X.std(1, keepdims=True) + 1e-9)
    np.testing.assert_allclose(run(module, {"x": X})["y"], expected, rtol=1e-5)
    assert {node.sources for node in module.main} == {("norm",)}


# Regions


def branches(condition: str) -> onnx.NodeProto:
    then = helper.make_graph([toy("Scale", ["mid"], ["t"])], "then", [], [tensor_info("t", None)])
    weight = numpy_helper.from_array(np.full((2, 3), 7, np.float32), "mid_w")
    other = helper.make_graph(
        [helper.make_node("Add", ["mid", "mid_w"], ["e"])], "else", [], [tensor_info("e", None)], [weight]
    )
    return toy("Branch", [condition], ["y"], "either", then_branch=then, else_branch=other)


def test_regions_are_closed_and_outer_values_become_their_inputs() -> None:
    infos = [tensor_info("x"), tensor_info("c", [], TensorProto.BOOL)]
    module = load(model_of([helper.make_node("Relu", ["x"], ["mid"]), branches("c")], infos))
    node = list(module.main)[-1]
    assert [v.name for v in node.inputs if v] == ["c", "mid"]
    assert [[v.name for v in region.inputs] for region in node.regions] == [["mid"], ["mid"]]
    for region in node.regions:
        inside = {v for inner in region for v in inner.outputs} | set(region.inputs)
        assert all(v in inside for inner in region for v in inner.inputs)


def test_a_branch_known_to_be_taken_is_read_in_place() -> None:
    condition = numpy_helper.from_array(np.array(False), "c")
    model = model_of([helper.make_node("Relu", ["x"], ["mid"]), branches("c")], initializers=[condition])
    np.testing.assert_array_equal(run(load(model), {"x": X})["y"], X + 7)


def test_constants_are_repeated_in_regions() -> None:
    infos = [tensor_info("x"), tensor_info("c", [], TensorProto.BOOL)]
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "mid")
    module = load(model_of([branches("c")], infos, initializers=[weight]))
    node = list(module.main)[-1]
    assert len(node.inputs) == 1 and all(not region.inputs for region in node.regions)


# Faults


def test_one_error_lists_everything() -> None:
    nodes = [
        helper.make_node("Nonsense", ["x"], ["n1"], "bad1"),
        helper.make_node("Nonsense", ["n1"], ["n2"], "bad2"),
        helper.make_node("Relu", ["nowhere"], ["d"], "dangling"),
        helper.make_node("Softmax", ["x"], ["s"], "attributes", axis="one"),
        helper.make_node("Softmax", ["x"], ["s2"], "unknown", axes=1),
        helper.make_node("Relu", ["loop"], ["loop"], "circle"),
        helper.make_node("Relu", ["x"], ["x"], "taken"),
        helper.make_node("Add", ["x", "ints"], ["m"], "mixed"),
        helper.make_node("Add", ["x"], ["m2"], "lonely"),
        helper.make_node("", ["x"], ["m3"], "nameless"),
        toy("Fault", ["x"], ["f"], "refusing", how="fail"),
        toy("Fault", ["x"], ["f2"], "crashing", how="crash"),
        toy("Fault", ["x"], ["f3"], "conflicting", how="infer"),
        helper.make_node("Add", ["n2", "f3"], ["y"], "after faults"),
    ]
    infos = [tensor_info("x"), tensor_info("ints", kind=TensorProto.INT64)]
    with pytest.raises(ModelError) as error:
        load(model_of(nodes, infos))
    found = {d.where: (d.code, str(d)) for d in error.value.diagnostics}
    assert {where: code for where, (code, _) in found.items()} == {
        "bad1, bad2": "unsupported-op",
        "dangling": "dangling-name",
        "attributes": "attribute",
        "unknown": "attribute",
        "circle": "cycle",
        "taken": "duplicate-name",
        "mixed": "dtype",
        "lonely": "schema",
        "nameless": "schema",
        "refusing": "import",
        "crashing": "import",
        "conflicting": "type",
    }
    assert "Nonsense at opset 17 is not supported (2 nodes)" in found["bad1, bad2"][1]
    assert "'axis' has type STRING instead of INT" in found["attributes"][1]
    assert "input 1 (B) is i64, but input 0 (A) is f32" in found["mixed"][1]
    assert "lonely: Add-14 takes 2 inputs, not 1" in found["lonely"][1]
    assert "nameless: the node names no op" in found["nameless"][1]
    assert "do that" in found["refusing"][1]
    assert isinstance(error.value.__cause__, IndexError)


@pytest.mark.parametrize(
    ("op", "kind", "said"),
    [
        ("DequantizeLinear", TensorProto.UINT4, "again with opset 21 or later"),
        ("Relu", TensorProto.BOOL, "export the model again"),
    ],
)
def test_a_type_that_only_later_opsets_allow(op: str, kind: int, said: str) -> None:
    """The standard allows 4-bit integers in DequantizeLinear from opset 21 on, and bool in Relu never."""
    nodes = [helper.make_node(op, ["x", "s"] if op == "DequantizeLinear" else ["x"], ["y"])]
    with pytest.raises(ModelError, match="cannot be .* in " + op) as error:
        load(model_of(nodes, [tensor_info("x", kind=kind), tensor_info("s", [])]))
    (fault,) = error.value.diagnostics
    assert fault.hint is not None and fault.hint.endswith(said)


def test_unsupported_ops_are_listed_in_branches_and_functions_too() -> None:
    then = helper.make_graph([helper.make_node("Deep", ["x"], ["t"])], "then", [], [tensor_info("t", None)])
    nodes = [
        helper.make_node("Nonsense", ["x"], ["c"], "bad"),
        toy("Branch", ["c"], ["b"], then_branch=then, else_branch=then),
        helper.make_node("wrong", ["b"], ["y"], "caller", domain="local"),
    ]
    inner = function("wrong", [helper.make_node("Deeper", ["a"], ["b"], "leaf")])
    model = model_of(nodes, functions=[inner])
    model.opset_import.append(helper.make_opsetid("local", 1))
    with pytest.raises(ModelError) as error:
        load(model)
    assert [d.where for d in error.value.diagnostics] == ["Deep:t, Deep:t", "bad", "caller/leaf"]


@pytest.mark.parametrize("name", ["\x1b[2J*/", "a" * 5000, "‮evil", "\n\n", "'; DROP", ""])
def test_hostile_names_do_not_reach_messages_as_they_are(name: str) -> None:
    with pytest.raises(ModelError) as error:
        load(model_of([helper.make_node("Nonsense", ["x"], ["y"], name)]))
    shown = str(error.value)
    assert "\x1b" not in shown and "‮" not in shown and len(shown) < 3000


def test_a_name_that_is_not_utf8_is_rejected() -> None:
    data = bytearray(model_of([helper.make_node("Relu", ["x"], ["y"], "marker")]).SerializeToString())
    data[data.find(b"Relu")] = 0xFF
    with pytest.raises(ModelError, match="not UTF-8"):
        load(bytes(data))


@pytest.mark.parametrize("kind", ["map", "none", "unknown"])
def test_inputs_of_unknown_types_are_rejected(kind: str) -> None:
    model = model_of([helper.make_node("Identity", ["x"], ["y"])])
    info = model.graph.input[0]
    if kind == "map":
        info.type.map_type.key_type = TensorProto.INT64
    elif kind == "none":
        info.ClearField("type")
    else:
        info.type.tensor_type.elem_type = 99
    with pytest.raises(ModelError, match="input x"):
        load(model)


def test_absurd_sizes_are_rejected() -> None:
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], [tensor_info("x", [2**40, 2**40])])
    with pytest.raises(ModelError, match="exceeds the addressable memory"):
        load(model)


def nested(levels: int) -> onnx.ModelProto:
    """Nested branches."""
    leaf = helper.make_graph([toy("Scale", ["x"], ["t"])], "leaf", [], [tensor_info("t", None)])
    inner = leaf
    for _ in range(levels):
        node = toy("Branch", ["c"], ["t"], then_branch=inner, else_branch=leaf)
        inner = helper.make_graph([node], "level", [], [tensor_info("t", None)])
    condition = numpy_helper.from_array(np.array(True), "c")
    return model_of(
        [toy("Branch", ["c"], ["y"], then_branch=inner, else_branch=leaf)], initializers=[condition]
    )


def test_nested_subgraphs_are_read() -> None:
    model = nested(20)  # protobuf itself stops at about 30
    np.testing.assert_array_equal(run(load(model.SerializeToString()), {"x": X})["y"], X * 2 + 500)


def test_an_output_may_occur_twice() -> None:
    """ONNX Runtime returns it twice, too. Exporters write such models."""
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], outputs=["y", "y"])
    module = load(model)
    verify(module)
    verify(parse_module(print_module(module)))
    assert module.main.output_names == ("y", "y")


@pytest.mark.parametrize("opset, absent", [(9, 4), (13, 4), (14, 2), (15, 2)])
def test_empty_outputs_at_the_end_are_absent(opset: int, absent: int) -> None:
    """A BatchNormalization with one output uses the running statistics."""
    text = f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    g (float[2, 1, 3] x, float[1] scale, float[1] bias, float[1] mean, float[1] variance) => (y) {{
        y = BatchNormalization <epsilon = 0.0> (x, scale, bias, mean, variance)
    }}"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].output.extend([""] * absent)
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    (y,) = evaluate_module(load(model), [x, *(np.array([k], np.float32) for k in (3, 2, 1, 4))])
    np.testing.assert_allclose(y, (x - 1) / 2 * 3 + 2)


def test_empty_outputs_of_split_are_computed() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[6] x) => (y) { y = Split (x) }"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].output.extend(["", ""])
    (y,) = evaluate_module(load(model), [np.arange(6, dtype=np.float32)])
    np.testing.assert_array_equal(y, [0, 1])


def test_no_outputs_and_dangling_outputs_are_rejected() -> None:
    with pytest.raises(ModelError, match="the graph has no outputs"):
        load(model_of([toy("Scale", ["x"], ["y"])], outputs=[]))
    with pytest.raises(ModelError, match="'ghost' is not produced by any node"):
        load(model_of([toy("Scale", ["x"], ["y"])], outputs=["ghost"]))


@pytest.mark.parametrize(
    ("type", "dtype"),
    [
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [1])), "seq(f32)[]"),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(8, None)), "optional(string)[]"),
        (
            helper.make_optional_type_proto(
                helper.make_sequence_type_proto(helper.make_tensor_type_proto(7, [2]))
            ),
            "optional(seq(i64))[]",
        ),
    ],
)
def test_inputs_may_be_containers(type: onnx.TypeProto, dtype: str) -> None:
    model = model_of([helper.make_node("Identity", ["x"], ["y"])])
    model.graph.input[0].type.CopyFrom(type)
    model.graph.output[0].type.CopyFrom(type)
    module = load(model)
    assert [str(v.type) for v in (*module.main.inputs, *module.main.outputs)] == [dtype, dtype]
    with pytest.raises(ModelError, match="is not a tensor and has no shape"):
        load(model, shapes={"x": ()})


def test_an_unsupported_op_in_the_body_of_a_standard_op_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomUniform, "onnx", {})
    with pytest.raises(ModelError, match="RandomUniformLike at opset 15 is not supported"):
        load(model_of([helper.make_node("Bernoulli", ["x"], ["y"])]))


@pytest.mark.parametrize("outer", ["x", "weight", "computed"])
def test_the_body_of_a_sequence_map_reads_outer_values(outer: str) -> None:
    text = f"""
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 3] x) => (float[m, 3] y) <float[3] weight = {{1, 2, 3}}> {{
        computed = Neg (x)
        rows = SplitToSequence (x)
        sums = SequenceMap (rows) <
            body = b (float[1, 3] row) => (float[k, 3] s) {{ s = Add (row, {outer}) }}>
        y = ConcatFromSequence <axis = 0> (sums)
    }}"""
    added = {"x": X, "weight": np.array([1, 2, 3], np.float32), "computed": -X}[outer]
    (y,) = evaluate_module(load(onnx.parser.parse_model(text)), [X])
    np.testing.assert_array_equal(y, np.concatenate([row + added for row in np.split(X, 2)]))


@pytest.mark.parametrize("count", [0, 2])
def test_outputs_of_a_sequence_map_need_no_declared_types(count: int) -> None:
    """The function that the specification defines for it needs them."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (seq(float[n, 3]) xs, float[3] scale) => (seq(int64[2]) shapes, seq(float[n, 3]) scaled) {
        shapes, scaled = SequenceMap (xs, scale) <
            body = b (float[k, 3] x, float[3] s) => (int64[2] size, float[k, 3] y) {
                size = Shape (x)
                y = Mul (x, s)
            }>
    }"""
    model = onnx.parser.parse_model(text)
    for output in model.graph.node[0].attribute[0].g.output:
        output.ClearField("type")
    xs, scale = [np.full((k + 1, 3), k, np.float32) for k in range(count)], np.arange(3, dtype=np.float32)
    shapes, scaled = evaluate_module(load(model), [xs, scale])
    assert [shape.tolist() for shape in shapes] == [[1, 3], [2, 3]][:count]
    for y, x in zip(scaled, xs, strict=True):
        np.testing.assert_array_equal(y, x * scale)


def test_lack_of_memory_is_not_a_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(node_reader, "_imported", fail)
    with pytest.raises(MemoryError, match="no room"):
        load(model_of([toy("Scale", ["x"], ["y"])], [tensor_info("x", [2])]))
