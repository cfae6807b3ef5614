"""Models that mean harm or nothing: by name, what makes each, small as a file whatever they ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
HUGE = 2**40
Case = Callable[[], bytes]

REFUSED: dict[str, Case] = {}
"""Each of these must be refused."""
EITHER: dict[str, Case] = {}
"""Each of these may run or be refused, within the limits."""


def refused(case: Case) -> Case:
    REFUSED[case.__name__] = case
    return case


def either(case: Case) -> Case:
    EITHER[case.__name__] = case
    return case


def info(name: str, shape: Sequence[Any] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, value: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value), name)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node called after its first output; operands separated by spaces."""
    return helper.make_node(op, inputs.split(), outputs.split(), outputs.split()[0], **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    inputs: Sequence[onnx.ValueInfoProto] = (),
    output: str = "y",
    kind: int = FLOAT,
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 17,
) -> bytes:
    inputs = inputs or [info("x", ["n", 4])]
    graph = helper.make_graph(nodes, "g", inputs, [info(output, None, kind)], weights)
    imports = [helper.make_opsetid(d, v) for d, v in (("", opset), ("ai.onnx.ml", 5), ("local", 1))]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions)
    data: bytes = made.SerializeToString()
    return data


# Nonsense


@refused
def cycle() -> bytes:
    return model([node("Add", "x b", "a"), node("Add", "x a", "b"), node("Relu", "b", "y")])


@refused
def own_output() -> bytes:
    return model([node("Add", "x y", "y")])


@refused
def dtypes_differ() -> bytes:
    return model([node("Add", "x i", "y")], [tensor("i", np.ones((1, 4), np.int64))])


@refused
def integer_where_float_is_due() -> bytes:
    return model([node("Conv", "x w", "y")], [tensor("w", np.ones((1, 1, 1, 1), np.int64))])


@refused
def ranks_differ() -> bytes:
    return model([node("Conv", "x w", "y")], [tensor("w", np.ones((1, 1, 3, 3), np.float32))])


@refused
def sizes_differ() -> bytes:
    return model([node("MatMul", "x w", "y")], [tensor("w", np.ones((5, 3), np.float32))])


@refused
def unknown_ops() -> bytes:
    return model([node("NoSuchOp", "x", "a"), node("NorThis", "a", "y", domain="nowhere")])


@refused
def missing_external_data() -> bytes:
    outside = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="no_such_file.bin")
    return model([node("Add", "x w", "y")], [outside])


@refused
def external_data_of_another_user() -> bytes:
    outside = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="../../../../etc/hostname")
    return model([node("Add", "x w", "y")], [outside])


@refused
def no_outputs() -> bytes:
    graph = helper.make_graph([node("Relu", "x", "y")], "g", [info("x", [1])], [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


@refused
def a_function_that_calls_itself() -> bytes:
    body = [node("again", "a", "b", domain="local")]
    imports = [helper.make_opsetid("local", 1)]
    again = helper.make_function("local", "again", ["a"], ["b"], body, imports)
    return model([node("again", "x", "y", domain="local")], functions=[again])


# Sizes that no machine has


@refused
def a_weight_of_terabytes() -> bytes:
    return model([node("Add", "x w", "y")], [onnx.TensorProto(name="w", data_type=FLOAT, dims=[HUGE, 4])])


@refused
def a_weight_beyond_int64() -> bytes:
    vast = onnx.TensorProto(name="w", data_type=FLOAT, dims=[2**62, 2**62], raw_data=b"1234")
    return model([node("Add", "x w", "y")], [vast])


@refused
def a_weight_of_negative_size() -> bytes:
    return model(
        [node("Add", "x w", "y")],
        [onnx.TensorProto(name="w", data_type=FLOAT, dims=[-1, 4], raw_data=b"1234")],
    )


@either
def inputs_beyond_int64() -> bytes:
    return model([node("Add", "x x", "y")], inputs=[info("x", [2**62, 2**62])])


@either
def inputs_near_int32() -> bytes:
    return model(
        [node("MatMul", "x w", "y")],
        inputs=[info("x", [2**31 - 1, 2**31 - 1]), info("w", [2**31 - 1, 2**31 - 1])],
    )


@either
def an_outer_product_beyond_int64() -> bytes:
    nodes = [node("Unsqueeze", "x a", "u"), node("Unsqueeze", "x b", "v"), node("Mul", "u v", "y")]
    axes = [tensor("a", [0]), tensor("b", [1])]
    return model(nodes, axes, [info("x", [2**40])])


@either
def a_convolution_with_vast_padding() -> bytes:
    return model(
        [node("Conv", "x w", "y", pads=[2**31, 2**31, 2**31, 2**31])],
        [tensor("w", np.ones((1, 1, 1, 1), np.float32))],
        [info("x", [1, 1, 2, 2])],
    )


@either
def a_convolution_with_vast_strides_and_dilations() -> bytes:
    return model(
        [node("Conv", "x w", "y", strides=[2**62, 2**62], dilations=[2**62, 1])],
        [tensor("w", np.ones((1, 1, 1, 2), np.float32))],
        [info("x", [1, 1, 2, 2])],
    )


@either
def a_pool_with_a_vast_kernel() -> bytes:
    return model(
        [node("MaxPool", "x", "y", kernel_shape=[2**40, 2**40], pads=[2**40 - 1] * 4)],
        inputs=[info("x", [1, 1, 2, 2])],
    )


@either
def a_transposed_convolution_with_vast_strides() -> bytes:
    return model(
        [node("ConvTranspose", "x w", "y", strides=[2**40, 2**40])],
        [tensor("w", np.ones((1, 1, 3, 3), np.float32))],
        [info("x", [1, 1, 2, 2])],
    )


@either
def a_vast_reshape() -> bytes:
    return model([node("Reshape", "x to", "y")], [tensor("to", [2**62, 2**62, -1])])


# Folding bombs: constants that ask for more than there is


@either
def constant_of_shape() -> bytes:
    return model([node("ConstantOfShape", "to", "c"), node("Add", "x c", "y")], [tensor("to", [HUGE, 4])])


@either
def constant_of_shape_beyond_int64() -> bytes:
    return model([node("ConstantOfShape", "to", "y")], [tensor("to", [2**40, 2**40])])


@either
def expand() -> bytes:
    weights = [tensor("one", np.ones((1, 4), np.float32)), tensor("to", [HUGE, 4])]
    return model([node("Expand", "one to", "c"), node("Add", "x c", "y")], weights)


@either
def tile() -> bytes:
    weights = [tensor("one", np.ones((1, 4), np.float32)), tensor("by", [HUGE, 1])]
    return model([node("Tile", "one by", "c"), node("Add", "x c", "y")], weights)


@either
def tiles_of_tiles() -> bytes:
    nodes = [node("Tile", f"t{k} by", f"t{k + 1}") for k in range(8)]
    weights = [tensor("t0", np.ones((1, 4), np.float32)), tensor("by", [1000, 1])]
    return model([*nodes, node("Add", "x t8", "y")], weights)


@either
def range_of_terabytes() -> bytes:
    weights = [tensor("from", 0), tensor("to", HUGE), tensor("by", 1)]
    return model([node("Range", "from to by", "y")], weights, kind=INT64)


@either
def range_of_floats_that_does_not_move() -> bytes:
    weights = [
        tensor("from", np.float32(1e30)),
        tensor("to", np.float32(2e30)),
        tensor("by", np.float32(1e-30)),
    ]
    return model([node("Range", "from to by", "y")], weights)


@either
def range_with_steps_of_nan() -> bytes:
    weights = [tensor("from", np.float32(0)), tensor("to", np.float32(9)), tensor("by", np.float32(np.nan))]
    return model([node("Range", "from to by", "y")], weights)


@either
def pad() -> bytes:
    weights = [tensor("one", np.ones((1, 4), np.float32)), tensor("by", [HUGE, 0, HUGE, 0])]
    return model([node("Pad", "one by", "c"), node("Add", "x c", "y")], weights)


@either
def pad_of_an_input() -> bytes:
    return model([node("Pad", "x by", "y")], [tensor("by", [2**62, 2**62, 2**62, 2**62])])


@either
def one_hot() -> bytes:
    weights = [tensor("i", [1, 2]), tensor("depth", HUGE), tensor("values", np.array([0, 1], np.float32))]
    return model([node("OneHot", "i depth values", "y")], weights)


@either
def resize() -> bytes:
    weights = [tensor("to", [HUGE, 4]), tensor("one", np.ones((1, 4), np.float32))]
    return model(
        [node("Resize", "one none none to", "y")], [*weights, tensor("none", np.ones(0, np.float32))]
    )


@either
def resize_of_an_input() -> bytes:
    weights = [tensor("to", [2, HUGE]), tensor("none", np.ones(0, np.float32))]
    resized = node("Resize", "x none none to", "y", mode="linear", antialias=1)
    return model([resized], weights, [info("x", [2, 4])], opset=18)


@either
def concats_that_double() -> bytes:
    nodes = [node("Concat", f"c{k} c{k}", f"c{k + 1}", axis=0) for k in range(60)]
    return model([*nodes, node("Add", "x c60", "y")], [tensor("c0", np.ones((1, 4), np.float32))])


@either
def concats_of_an_input_that_double() -> bytes:
    nodes = [node("Concat", "x x", "c1", axis=0)]
    nodes += [node("Concat", f"c{k} c{k}", f"c{k + 1}", axis=0) for k in range(1, 60)]
    return model([*nodes, node("Relu", "c60", "y")])


@either
def outer_products_of_constants() -> bytes:
    nodes = [
        node("Einsum", f"e{k} e{k}", f"e{k + 1}", equation="a,b->ab" if not k else "ab,cd->abcd")
        for k in (0, 1)
    ]
    return model([*nodes, node("ReduceSum", "e2", "y")], [tensor("e0", np.ones(3000, np.float32))])


@either
def matrix_products_of_minutes() -> bytes:
    """Products of constants whose results are not read: they are neither folded nor run."""
    weights = [tensor("to", [6000, 6000])]
    nodes = [
        node("ConstantOfShape", "to", "m0"),
        *(node("MatMul", f"m{k} m{k}", f"m{k + 1}") for k in range(200)),
    ]
    return model([*nodes, node("Relu", "m200", "z"), node("Relu", "x", "y")], weights)


@either
def a_sum_over_a_vast_axis() -> bytes:
    nodes = [node("Expand", "one to", "c"), node("ReduceSum", "c", "s"), node("Add", "x s", "y")]
    return model(nodes, [tensor("one", np.ones((1, 1), np.float32)), tensor("to", [HUGE, HUGE])])


@either
def a_vast_sparse_weight() -> bytes:
    values, indices = tensor("w", np.ones(1, np.float32)), tensor("", np.zeros(1, np.int64))
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[HUGE, 4])
    made = onnx.ModelProto.FromString(model([node("Add", "x w", "y")]))
    made.graph.sparse_initializer.append(sparse)
    data: bytes = made.SerializeToString()
    return data


# Depth and length


def _branches(depth: int) -> onnx.GraphProto:
    body = [node("If", "c", "t", then_branch=_branches(depth - 1), else_branch=_leaf())] if depth else []
    return helper.make_graph(body or [node("Relu", "x", "t")], "b", [], [info("t", None)])


def _leaf() -> onnx.GraphProto:
    return helper.make_graph([node("Neg", "x", "t")], "leaf", [], [info("t", None)])


@either
def branches_in_branches() -> bytes:
    chosen = node("If", "c", "y", then_branch=_branches(24), else_branch=_leaf())
    return model([chosen], inputs=[info("x", ["n", 4]), info("c", [], BOOL)])


@either
def functions_that_call_two_of_the_next() -> bytes:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "f0", ["a"], ["b"], [node("Neg", "a", "b")], imports)]
    for k in range(1, 40):
        body = [node(f"f{k - 1}", "a", "m", domain="local"), node(f"f{k - 1}", "m", "b", domain="local")]
        functions.append(helper.make_function("local", f"f{k}", ["a"], ["b"], body, imports))
    return model([node("f39", "x", "y", domain="local")], functions=functions)


@either
def a_chain_of_many_nodes() -> bytes:
    nodes = [node("Neg", f"v{k}" if k else "x", f"v{k + 1}") for k in range(4000)]
    return model([*nodes, node("Abs", "v4000", "y")])


@either
def a_long_list_of_attributes() -> bytes:
    return model([node("Transpose", "x", "y", perm=[0, 1] * 200_000)])


@either
def a_constant_of_many_numbers() -> bytes:
    many = helper.make_node("Constant", [], ["c"], "many", value_floats=[1.0] * 500_000)
    return model([many, node("ReduceSum", "c", "s"), node("Add", "x s", "y")])


@either
def a_split_into_many() -> bytes:
    many = helper.make_node("Split", ["x"], [f"s{k}" for k in range(2000)], "many", axis=0)
    return model([many, node("Relu", "s7", "y")], inputs=[info("x", [2000, 4])])


@either
def regions_of_many_bins() -> bytes:
    weights = [tensor("r", np.zeros((1, 4), np.float32)), tensor("k", [0])]
    align = node("RoiAlign", "x r k", "y", output_height=HUGE, output_width=2, sampling_ratio=2)
    return model([align], weights, [info("x", [1, 1, 4, 4])])


@either
def regions_of_many_samples() -> bytes:
    weights = [tensor("r", np.zeros((1, 4), np.float32)), tensor("k", [0])]
    align = node("RoiAlign", "x r k", "y", output_height=2, output_width=2, sampling_ratio=2**62)
    return model([align], weights, [info("x", [1, 1, 4, 4])])


@either
def frames_as_long_as_memory() -> bytes:
    weights = [tensor("step", 1), tensor("length", HUGE)]
    return model(
        [helper.make_node("STFT", ["x", "step", "", "length"], ["y"], "y")], weights, [info("x", [1, "t", 1])]
    )


@either
def trees_of_many_targets() -> bytes:
    """A tree with one leaf, and scores for more targets than fit any memory."""
    trees = node(
        "TreeEnsemble", "x", "y", n_targets=HUGE, tree_roots=[0], domain="ai.onnx.ml",
        nodes_featureids=[0], nodes_splits=tensor("", np.zeros(1, np.float32)),
        nodes_modes=tensor("", np.zeros(1, np.uint8)),
        nodes_truenodeids=[0], nodes_trueleafs=[1], nodes_falsenodeids=[0], nodes_falseleafs=[1],
        leaf_targetids=[0], leaf_weights=tensor("", np.ones(1, np.float32)),
    )  # fmt: skip
    return model([trees])


@either
def sizes_that_grow_as_terms() -> bytes:
    """Each reshape multiplies a symbolic size by itself plus one: its terms double."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "d0")]
    for k in range(40):
        nodes += [node("Mul", f"d{k} d{k}", f"p{k}"), node("Add", f"p{k} d{k}", f"d{k + 1}")]
    nodes += [node("Unsqueeze", "d40 axis", "to"), node("ConstantOfShape", "to", "y")]
    return model(nodes, [tensor("zero", 0), tensor("axis", [0])])
