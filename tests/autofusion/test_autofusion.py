"""``graph-autofusion``: fused models compute what their sources do in stock ONNX Runtime, and bad input is
one error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from graphwright.autofusion.autofuse import DUPLICATE, Request, autofuse
from graphwright.errors import ModelError
from graphwright.export.onnx import FUNCTION_DOMAIN
from graphwright.layout.costs import LayoutCosts
from graphwright.tools.graph_autofusion import app
from tests.export.peers import session
from tests.onnx_models import model_proto
from tests.tools.support import HOSTILE, write_model

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(16, 16)).astype(np.float32)


def block(opset: int = 17) -> onnx.ModelProto:
    """LayerNorm, a product, GELU as exporters write it, a residual, a softmax; two layers of it."""
    nodes, x = [], "x"
    for k in range(2):
        nodes += [
            helper.make_node("LayerNormalization", [x, "scale", "bias"], [f"n{k}"], f"norm{k}", axis=-1),
            helper.make_node("MatMul", [f"n{k}", "w"], [f"m{k}"], f"product{k}"),
            helper.make_node("Div", [f"m{k}", "root"], [f"d{k}"], f"div{k}"),
            helper.make_node("Erf", [f"d{k}"], [f"e{k}"], f"erf{k}"),
            helper.make_node("Add", [f"e{k}", "one"], [f"o{k}"], f"one{k}"),
            helper.make_node("Mul", [f"m{k}", f"o{k}"], [f"g{k}"], f"gelu{k}"),
            helper.make_node("Add", [f"g{k}", x], [f"r{k}"], f"residual{k}"),
        ]
        x = f"r{k}"
    nodes.append(helper.make_node("Softmax", [x], ["y"], "softmax", axis=-1))
    constants = {
        "scale": np.ones(16, np.float32), "bias": np.zeros(16, np.float32), "w": WEIGHT,
        "root": np.array(2**0.5, np.float32), "one": np.array(1, np.float32),
    }  # fmt: skip
    sizes = ["batch", "seq", 16]
    return model_proto(nodes, {"x": sizes}, {"y": sizes}, constants, opset)


def assert_same(fused: onnx.ModelProto, source: onnx.ModelProto, *shapes: tuple[int, ...]) -> None:
    onnx.checker.check_model(fused, full_check=True)
    ours, theirs = session(fused), session(source)
    for shape in shapes:
        feed = {"x": RNG.normal(size=shape).astype(np.float32)}
        for given, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-6)


def test_a_fused_model_computes_what_its_source_does() -> None:
    fused = autofuse(block())
    summary = fused.summary
    model = fused.model.with_weights()
    assert_same(model, block(), (1, 1, 16), (2, 7, 16), (3, 0, 16), (1, 13, 16))
    assert summary.regions == len([n for n in model.graph.node if n.domain == FUNCTION_DOMAIN]) > 0
    assert summary.after.launches == summary.before.launches - summary.fused_nodes + summary.regions
    assert summary.after.activation_bytes < summary.before.activation_bytes
    assert summary.merges > 0
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_fusion_sees_images_as_other_engines_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, x = [], "x"
    for k, y in enumerate(("z", "y")):
        nodes += [
            helper.make_node("Conv", [x, "w"], [f"c{k}"], f"conv{k}", pads=[3] * 4, group=16),
            helper.make_node("Transpose", [f"c{k}"], [f"t{k}"], f"rows{k}", perm=[0, 2, 3, 1]),
            helper.make_node("LayerNormalization", [f"t{k}", "scale", "bias"], [f"n{k}"], f"norm{k}"),
            helper.make_node("MatMul", [f"n{k}", "wide"], [f"m{k}"], f"up{k}"),
            helper.make_node("Relu", [f"m{k}"], [f"r{k}"], f"relu{k}"),
            helper.make_node("MatMul", [f"r{k}", "narrow"], [f"d{k}"], f"down{k}"),
            helper.make_node("Transpose", [f"d{k}"], [f"u{k}"], f"planes{k}", perm=[0, 3, 1, 2]),
            helper.make_node("Add", [f"u{k}", x], [y], f"residual{k}"),
        ]
        x = y
    sizes = {"w": (16, 1, 7, 7), "scale": (16,), "bias": (16,), "wide": (16, 64), "narrow": (64, 16)}
    constants = {name: RNG.normal(size=size) / 8 for name, size in sizes.items()}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 24, 24]) for name in "xy"]
    weights = [
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()
    ]
    graph = helper.make_graph(nodes, "image", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    merges = []
    for nanoseconds in (0.0, 1e9):  # what a transpose costs: if much, the compiler keeps rows of channels
        monkeypatch.setattr(LayoutCosts, "transfer_ns", lambda costs, value, ns=nanoseconds: ns)
        fused = autofuse(model)
        merges.append(fused.summary.merges)
    assert merges[0] == merges[1] > 0
    assert_same(fused.model.with_weights(), model, (1, 16, 24, 24))


def test_weights_that_moved_into_functions_are_not_written() -> None:
    model = autofuse(block()).model.proto
    read = {name for node in model.graph.node for name in node.input}
    assert {tensor.name for tensor in model.graph.initializer} <= read


def test_functions_are_named_for_what_they_do_and_equal_ones_are_one() -> None:
    model = autofuse(block()).model.proto
    names = [function.name for function in model.functions]
    assert all("erf" in name or "gelu" in name or "softmax" in name or "norm" in name for name in names)
    called = [node.op_type for node in model.graph.node if node.domain == FUNCTION_DOMAIN]
    assert set(called) == set(names)
    assert all(function.domain == FUNCTION_DOMAIN for function in model.functions)
    sources = [entry.value for node in model.graph.node for entry in node.metadata_props]
    assert any("erf0" in each and "gelu0" in each for each in sources)


def test_without_functions_the_nodes_stand_in_the_graph() -> None:
    model = autofuse(block(), Request(inline=True)).model.with_weights()
    assert not model.functions
    assert all(node.domain == "" for node in model.graph.node)
    assert_same(model, block(), (2, 5, 16))


@pytest.mark.parametrize("inline", [True, False])
def test_a_model_is_fused_once(inline: bool) -> None:
    first = autofuse(block(), Request(inline=inline)).model.with_weights()
    with pytest.raises(ModelError) as caught:
        autofuse(first)
    assert caught.value.diagnostics[0].code == DUPLICATE == "GW_ERROR_DUPLICATE_FUSION"
    assert "--redo" in caught.value.diagnostics[0].hint
    again = autofuse(first, Request(redo=True))
    assert again.summary.regions > 0
    assert_same(again.model.with_weights(), block(), (2, 3, 16))


def test_bytes_are_a_function_of_the_model() -> None:
    first, second = (
        autofuse(block()).model.with_weights().SerializeToString(deterministic=True) for _ in range(2)
    )
    assert first == second


WINDOWS = {
    "Conv": ("float", "x, w", ""),
    "MaxPool": ("float", "x", "kernel_shape = [3, 3], "),
    "AveragePool": ("float", "x", "kernel_shape = [3, 3], "),
    "LpPool": ("float", "x", "kernel_shape = [3, 3], "),
    "ConvInteger": ("uint8", "x, w, zero, none", ""),
    "QLinearConv": ("uint8", "x, s, zero, w, s, none, s, zeros", ""),
}
"""For each op with windows: the type of its input, its operands, and the attributes that it requires."""


@pytest.mark.parametrize("size", [(5, 8), (6, 6), (7, 3), (9, 10)])
@pytest.mark.parametrize("op", WINDOWS)
def test_pads_of_dynamic_sizes_are_computed(op: str, size: tuple[int, int]) -> None:
    """The SAME padding of strided windows depends on the size of the image."""
    kind, operands, window = WINDOWS[op]
    source = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]> g ({kind}[1, 2, h, w2] x) => (a)
        <{kind}[2, 2, 3, 3] w = {{{", ".join(str(k % 5) for k in range(36))}}}, float s = {{0.5}},
         {kind} zero = {{3}}, {kind} none = {{0}}, {kind}[1] zeros = {{0}}> {{
            a = {op} <{window}strides = [2, 2], auto_pad = "SAME_UPPER"> ({operands})
        }}""")
    feed = {"x": RNG.integers(0, 9, (1, 2, *size)).astype(np.float32 if kind == "float" else np.uint8)}
    (given,), (wanted,) = (
        session(model).run(None, feed) for model in (autofuse(source).model.with_weights(), source)
    )
    np.testing.assert_allclose(given, wanted, rtol=2e-6)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_positions_in_images_of_dynamic_sizes_do_not_count_pads(mode: str) -> None:
    source = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]> g (float[1, 2, h, w] x)
        => (float[1, 2, p, q] y, int64[1, 2, p, q] i)
        {{
            y, i = MaxPool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "{mode}"> (x)
        }}""")
    assert_same(autofuse(source).model.with_weights(), source, (1, 2, 5, 8), (1, 2, 6, 3))


@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 1, 0), (0, 1, 3), (0, 1, 0)])
def test_axes_without_elements_are_moved(shape: tuple[int, int, int]) -> None:
    """Moved axes of size 1 are a Reshape, whose sizes of 0 are no copies."""
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> g (float[a, 1, b] x) => (float[1, 1, a, b] y)
        <int64[1] one = {1}> {
            u = Unsqueeze (x, one)
            y = Transpose <perm = [1, 2, 0, 3]> (u)
        }""")
    fused = session(autofuse(source).model.with_weights())
    feed = {"x": RNG.normal(size=shape).astype(np.float32)}
    np.testing.assert_array_equal(fused.run(None, feed)[0], feed["x"].reshape(1, 1, shape[0], shape[2]))


@pytest.mark.parametrize("batch", [2, 0])
def test_axes_of_size_1_are_inserted_and_removed_in_empty_batches(batch: int) -> None:
    """Engines infer no size of -1 if a copied size is 0."""
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, s, 4] x)
        => (float[n, s, 4] y, float[n, 1, s, 4] z)
        <int64[2] head = {1, 4}, int64[1] width = {4}> {
            sizes = Shape <start = 0, end = 2> (x)
            split = Concat <axis = 0> (sizes, head)
            merged = Concat <axis = 0> (sizes, width)
            heads = Reshape (x, split)
            first = Transpose <perm = [0, 2, 1, 3]> (heads)
            z = Exp (first)
            back = Transpose <perm = [0, 2, 1, 3]> (z)
            y = Reshape (back, merged)
        }""")
    fused = session(autofuse(source).model.with_weights())
    x = RNG.normal(size=(batch, 3, 4)).astype(np.float32)
    y, z = fused.run(None, {"x": x})
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(z, np.exp(x)[:, np.newaxis], rtol=1e-6)


def test_a_loop_that_runs_once_on_values_of_unknown_rank_is_inlined() -> None:
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> g (float[a, b] x, int64[r] sizes) => (y, rows)
        <int64 once = {1}, bool go_on = {1}, float two = {2}> {
            first = Reshape (x, sizes)
            y, rows = Loop (once, go_on, first) <body =
                body (int64 i, bool c, float[] s) => (again, next, row) {
                again = Identity (c)
                next = Mul (s, two)
                row = Identity (next)
            }>
        }""")
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    feed = {"x": x, "sizes": np.array([2, 3, 2])}
    fused = session(autofuse(source).model.with_weights())
    for given, wanted in zip(
        fused.run(None, feed), (2 * x.reshape(2, 3, 2), 2 * x.reshape(1, 2, 3, 2)), strict=True
    ):
        np.testing.assert_array_equal(given, wanted)


def test_quantized_weights_stay_quantized() -> None:
    source = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, 8] x) => (float[n, 4] y)
        <int8[8, 4] w = {{{", ".join(str(k % 9 - 4) for k in range(32))}}}, float s = {{0.1}}, int8 z = {{0}},
         float t = {{0.05}}, uint8 zero = {{128}}> {{
            q = QuantizeLinear (x, t, zero)
            d = DequantizeLinear (q, t, zero)
            v = DequantizeLinear (w, s, z)
            a = MatMul (d, v)
            y = Relu (a)
        }}""")
    model = autofuse(source).model.with_weights()
    assert [t.data_type for t in model.graph.initializer if list(t.dims) == [8, 4]] == [TensorProto.INT8]
    assert_same(model, source, (3, 8), (1, 8))


def with_foreign(declared: bool) -> onnx.ModelProto:
    """An op of ONNX Runtime's own, one of an unknown domain, and ops of ONNX around them."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"], "square"),
        helper.make_node("QuickGelu", ["a"], ["b"], "theirs", domain="com.microsoft", alpha=1.5),
        helper.make_node("Whatever", ["b"], ["c"], "stranger", domain="com.example", mode="fast"),
        helper.make_node("Relu", ["c"], ["d"], "relu"),
        helper.make_node("Neg", ["d"], ["y"], "neg"),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y", "c")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:2], value_info=infos[2:] if declared else [])
    domains = [("", 17), ("com.microsoft", 1), ("com.example", 3)]
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*each) for each in domains], ir_version=8
    )


def test_foreign_ops_are_kept_and_listed() -> None:
    fused = autofuse(with_foreign(declared=True))
    kept = {n.op_type: n for n in fused.model.proto.graph.node if n.domain not in ("", FUNCTION_DOMAIN)}
    assert fused.summary.foreign == {"com.microsoft.QuickGelu": 1, "com.example.Whatever": 1}
    assert helper.get_node_attr_value(kept["QuickGelu"], "alpha") == 1.5
    assert helper.get_node_attr_value(kept["Whatever"], "mode") == b"fast"
    assert kept["Whatever"].name == "stranger"
    assert {(o.domain, o.version) for o in fused.model.proto.opset_import} >= {("com.example", 3)}


def test_a_foreign_op_whose_types_are_not_declared_is_rejected() -> None:
    with pytest.raises(ModelError, match=r"com.example.Whatever"):
        autofuse(with_foreign(declared=False))


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_model_describes_itself_as_its_source() -> None:
    """It has the names of sizes that the source declares but the compiler cannot prove, a rank that the
    compiler does not know, and the texts.
    """
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("SequenceAt", ["s", "i"], ["picked"]),
        helper.make_node("Relu", ["picked"], ["y"]),
    ]
    f32 = TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info("x", f32, ["batch size", 4]),
        helper.make_tensor_sequence_value_info("s", f32, ["rows", 16]),
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
    ]
    outputs = [
        helper.make_tensor_value_info("found", TensorProto.INT64, [2, "count"]),
        helper.make_tensor_value_info("y", f32, ["rows", 16]),
    ]
    graph = helper.make_graph(nodes, "the graph", inputs, outputs, doc_string="about the graph")
    texts = {"doc_string": "about the model", "domain": "org.example", "model_version": 7}
    opsets = [helper.make_opsetid("", 17)]
    source = helper.make_model(graph, opset_imports=opsets, ir_version=8, **texts)
    fused = autofuse(source.SerializeToString()).model.with_weights()
    onnx.checker.check_model(fused)
    assert {name: getattr(fused, name) for name in texts} == texts
    assert (fused.graph.name, fused.graph.doc_string) == ("the graph", "about the graph")
    for args in ("get_inputs", "get_outputs"):
        found, wanted = (getattr(session(model), args)() for model in (fused, source))
        assert [(a.name, a.type, a.shape) for a in found] == [(a.name, a.type, a.shape) for a in wanted]


def test_the_command_writes_a_model_and_says_what_it_did(tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(block(), source)
    done = run("--input", source, "--output", target)
    assert done.exit_code == 0, done.output
    assert "nodes into" in done.stdout and "launches" in done.stdout and "operators" in done.stdout
    assert "wrote" in done.output
    assert_same(onnx.load(target), block(), (1, 4, 16))


def test_the_default_output_is_named_for_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(block(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    assert run("-i", "m.onnx").exit_code == 0
    assert (tmp_path / "m_fused.onnx").is_file()


def test_a_second_fusion_is_rejected_by_the_command(tmp_path: Path) -> None:
    source, once, twice = (tmp_path / name for name in ("m.onnx", "once.onnx", "twice.onnx"))
    onnx.save(block(), source)
    assert run("-i", source, "-o", once).exit_code == 0
    refused = run("-i", once, "-o", twice)
    assert refused.exit_code == 1
    assert "GW_ERROR_DUPLICATE_FUSION" in refused.output
    assert not twice.exists()
    assert run("-i", once, "-o", twice, "--redo").exit_code == 0


def test_a_model_without_its_functions_cannot_be_fused_again(tmp_path: Path) -> None:
    """``--weights packed`` leaves them out."""
    source = autofuse(block()).model.with_weights()
    del source.functions[:]
    del source.metadata_props[:]
    onnx.save(source, tmp_path / "packed.onnx")
    refused = run("-i", tmp_path / "packed.onnx", "-o", tmp_path / "twice.onnx", "--redo")
    assert refused.exit_code == 1 and "give the original model" in refused.output
    assert "packed.onnx: only the library" in refused.output.replace("\n", "")
    assert not (tmp_path / "twice.onnx").exists()


def test_merges_within_one_node_are_not_counted() -> None:
    """A softmax consists of a maximum, a difference, an exponential, a sum and a quotient."""
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> g (float[n, 8] x) => (float[n, 8] y) { y = Softmax (x) }""")
    summary = autofuse(source).summary
    assert (summary.candidates, summary.merges, summary.regions) == (0, 0, 0)


def test_standard_output_takes_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(block(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    done = run("-i", "m.onnx", "-o", "-")
    assert done.exit_code == 2 and "standard output" in done.output
    assert [each.name for each in tmp_path.iterdir()] == ["m.onnx"]


def test_sizes_without_measure_are_an_error(tmp_path: Path) -> None:
    onnx.save(block(), tmp_path / "m.onnx")
    done = run("-i", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--shape", "x:1,2,16")
    assert done.exit_code == 2 and "--measure" in done.output
    assert not (tmp_path / "out.onnx").exists()


def hinted(**hints: str) -> onnx.ModelProto:
    model = block()
    for node in model.graph.node:
        if node.name in hints:
            node.metadata_props.add(key="graphwright.fuse", value=hints[node.name])
    return model


def test_hints_are_obeyed() -> None:
    free, apart = (autofuse(each).model.proto.graph for each in (block(), hinted(residual0="never")))
    assert "residual0" not in {node.name for node in free.node}
    assert "residual0" in {node.name for node in apart.node}


@pytest.mark.parametrize(
    "hints",
    [
        {"product0": "g", "softmax": "g"},
        {
            "product0": "g",
            "div0": "never",
            "erf0": "never",
            "one0": "never",
            "gelu0": "never",
            "residual0": "g",
        },
    ],
)
def test_hints_that_cannot_be_obeyed_are_one_error_that_names_the_nodes(hints: dict[str, str]) -> None:
    with pytest.raises(ModelError, match=r"product0 and .*the hinted group 'g'"):
        autofuse(hinted(**hints))


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 50, b"not a model"])
def test_a_broken_model_is_one_error_and_leaves_no_file(tmp_path: Path, content: bytes) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    source.write_bytes(content)
    done = run("-i", source, "-o", target)
    assert done.exit_code == 1
    assert done.output.count("error:") == 1
    assert sorted(tmp_path.iterdir()) == [source]


def test_invalid_paths_are_rejected_before_the_model_is_compiled(tmp_path: Path) -> None:
    source = write_model(tmp_path / "m.onnx")
    assert run("-i", source, "-o", tmp_path / "no" / "out.onnx").exit_code == 2
    assert run("-i", source, "-o", source).exit_code == 2
    assert run("-i", tmp_path / "none.onnx", "-o", tmp_path / "out.onnx").exit_code == 1
    assert sorted(tmp_path.iterdir()) == [source]


def test_weights_of_the_source_are_not_written_over(tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(block(), source, save_as_external_data=True, location="out.onnx.data", size_threshold=0)
    before = (tmp_path / "out.onnx.data").read_bytes()
    done = run("-i", source, "-o", target, "--external-weights")
    assert done.exit_code == 2
    assert done.output.count("error:") == 1 and "[source-file]" in done.output
    assert (tmp_path / "out.onnx.data").read_bytes() == before and not target.exists()
    assert run("-i", source, "-o", tmp_path / "other.onnx", "--external-weights").exit_code == 0


def test_hostile_names_reach_the_model_and_not_the_terminal(tmp_path: Path) -> None:
    source = write_model(tmp_path / "m.onnx", HOSTILE)
    done = run("-i", source, "-o", tmp_path / "out.onnx")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output and "\u202e" not in done.output
    fused = onnx.load(tmp_path / "out.onnx")
    assert fused.graph.input[0].name == f"x{HOSTILE}"
    assert all(name.isidentifier() for name in (function.name for function in fused.functions))


UNRANKED: dict[str, tuple[str, str, dict[str, np.ndarray[Any, Any]]]] = {
    "mean of halves": ("Mean", "a", {"a": np.ones((2, 1, 3), np.float16)}),
    "norm of halves": ("ReduceL1", "a", {"a": np.ones((2, 3), np.float16)}),
    "comparison of halves": (
        "Less", "a b", {"a": np.ones(3, np.float16), "b": np.array(2, np.float16)},
    ),
    "quantized convolution": (
        "QLinearConv", "x s z w s z s z",
        {
            "x": np.arange(12, dtype=np.uint8).reshape(1, 3, 4),
            "w": np.arange(6, dtype=np.uint8).reshape(2, 3, 1),
            "s": np.array(0.5, np.float32),
            "z": np.array(3, np.uint8),
        },
    ),
}  # fmt: skip
"""An op, its operands, and feeds for inputs of unknown rank."""


@pytest.mark.parametrize("case", UNRANKED)
def test_operands_of_unknown_rank_are_accepted(case: str) -> None:
    kind, operands, feeds = UNRANKED[case]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), None)
        for name, array in feeds.items()
    ]
    node = helper.make_node(kind, operands.split(), ["y"], "n")
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (expected,) = session(source).run(None, feeds)
    (got,) = session(autofuse(source).model.with_weights()).run(None, feeds)
    np.testing.assert_array_equal(got, expected)


def test_the_locale_of_texts_is_kept() -> None:
    """ONNX Runtime sets it, and fails where the system lacks it; its default is en_US."""
    node = helper.make_node("StringNormalizer", ["x"], ["y"], locale="C", case_change_action="UPPER")
    infos = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in "xy"]
    source = helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:]), ir_version=8)
    (got,) = session(autofuse(source).model.proto).run(None, {"x": np.array(["a", "b"])})
    assert got.tolist() == ["A", "B"]
