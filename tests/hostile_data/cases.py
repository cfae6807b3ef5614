"""Every op that takes indices, lengths, axes, sizes or coordinates from data, with sound data for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fed:
    """An input of the model; ``bound``: what its elements count or reach, if they may be hostile."""

    array: Array
    bound: float | None = None


@dataclass(frozen=True)
class Case:
    """A node: its inputs by position (arrays are constants, None is absent), and hostile values for them."""

    name: str
    op: str
    inputs: Sequence[Fed | Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    opset: int = 24
    plain: bool = False
    """Whether no elementwise op can follow."""
    fixed: Sequence[int] = ()
    """Operands whose shapes are part of what the node is: they are never open."""

    def feeds(self) -> dict[str, Fed]:
        """The inputs by name."""
        return {f"i{k}": given for k, given in enumerate(self.inputs) if isinstance(given, Fed)}


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def ints(*values: Any, dtype: Any = np.int64) -> Array:
    return np.array(values, dtype)


def x(*shape: int) -> Fed:
    """An operand of plain floats."""
    return Fed(floats(*shape))


def at(values: Any, bound: float, dtype: Any = np.int64) -> Fed:
    """An operand of positions, counts or lengths."""
    return Fed(np.array(values, dtype), bound)


def real(array: Array, bound: float) -> Fed:
    """An operand of coordinates."""
    return Fed(np.asarray(array, np.float32), bound)


CASES: list[Case] = []


def case(name: str, op: str, *inputs: Fed | Array | None, outputs: int = 1, **attributes: Any) -> None:
    kept = {
        name: attributes.pop(name) for name in ("domain", "opset", "plain", "fixed") if name in attributes
    }
    CASES.append(Case(name, op, inputs, attributes, outputs, **kept))


MS, ML = "com.microsoft", "ai.onnx.ml"

# -- gather and scatter
for axis, shape in ((0, (7, 5)), (1, (3, 7, 4)), (1, (6, 7))):
    case(f"gather_{axis}_{len(shape)}", "Gather", x(*shape), at([[0, 6], [-7, 3]], 7), axis=axis)
case("gather_i32", "Gather", x(7, 40), at([0, 6, -7], 7, np.int32), axis=0)
case(
    "gather_bytes",
    "Gather",
    Fed(np.arange(35, dtype=np.uint8).reshape(7, 5)),
    at([0, 6, -7], 7),
    axis=0,
    plain=True,
)
case("gather_scalar", "Gather", x(7, 5), at(3, 7), axis=0)
case("embedding", "Gather", floats(7, 5), at([[0, 6], [-7, 3]], 7), axis=0)
case("embedding_i32", "Gather", floats(7, 33), at([0, 6, -7], 7, np.int32), axis=0)
for axis in (0, 1):
    where = [[0, 4, -5], [1, 2, 3]] if axis == 0 else [[0, 2, -3], [1, 2, 0]]
    case(f"gather_elements_{axis}", "GatherElements", x(5, 3), at(where, (5, 3)[axis]), axis=axis)
    case(f"scatter_elements_{axis}", "ScatterElements", x(5, 3), at(where, (5, 3)[axis]), x(2, 3), axis=axis)
for kind in ("add", "mul", "min", "max"):
    where_add = at([[0, 4, -5], [0, 2, 3]], 5)
    case(f"scatter_{kind}", "ScatterElements", x(5, 3), where_add, x(2, 3), axis=0, reduction=kind)
    case(
        f"scatter_nd_{kind}",
        "ScatterND",
        x(5, 3),
        at([[0, 2], [-5, -3]], 5),
        x(2),
        reduction=kind,
        fixed=(1,),
    )
case("gather_nd", "GatherND", x(5, 3, 4), at([[0, 2], [4, -3]], 5), fixed=(1,))
case("gather_nd_scalar", "GatherND", x(5, 3), at([[0, 2], [4, -3]], 5), fixed=(1,))
case("gather_nd_batch", "GatherND", x(2, 3, 4), at([[0], [-3]], 3), batch_dims=1, fixed=(1,))
case("scatter_nd", "ScatterND", x(5, 3, 4), at([[0], [-5]], 5), x(2, 3, 4), fixed=(1,))
case("scatter_nd_rows", "ScatterND", x(5, 3, 4), at([[0, 1], [-5, 2]], 5), x(2, 4), fixed=(1,))
case("tensor_scatter", "TensorScatter", x(2, 6, 3), x(2, 2, 3), at([0, 4], 6), axis=1)
case("tensor_scatter_round", "TensorScatter", x(2, 6, 3), x(2, 2, 3), at([0, 4], 6), axis=1, mode="circular")
case("array_feature_extractor", "ArrayFeatureExtractor", x(3, 5), at([0, 4], 5), domain=ML, opset=24)
case(
    "max_unpool",
    "MaxUnpool",
    x(1, 1, 2, 2),
    at([[[[0, 3], [9, 15]]]], 16),
    kernel_shape=[2, 2],
    strides=[2, 2],
)
case("one_hot", "OneHot", at([0, 2, -1], 4), at(4, 4), Fed(np.array([0, 1], np.float32)))
case("one_hot_axis", "OneHot", at([[0, 2], [-1, 3]], 4), ints(4), Fed(np.array([0, 1], np.float32)), axis=0)
case("one_hot_float", "OneHot", real(np.array([0, 2, -1]), 4), ints(4), Fed(np.array([0, 1], np.float32)))
case("compress", "Compress", x(5, 3), Fed(np.array([1, 0, 1, 0, 1], bool)), axis=0)
case("reverse_sequence", "ReverseSequence", x(5, 3, 2), at([1, 5, 3], 5), time_axis=0, batch_axis=1)
case("reverse_sequence_rows", "ReverseSequence", x(3, 5), at([1, 5, 3], 5), time_axis=1, batch_axis=0)
case("nll_loss", "NegativeLogLikelihoodLoss", x(3, 5), at([0, 4, 2], 5), x(5))
case(
    "nll_loss_ignored",
    "NegativeLogLikelihoodLoss",
    x(3, 5, 2),
    at([[0, 4], [2, 1], [3, 3]], 5),
    ignore_index=-1,
)
case("cross_entropy", "SoftmaxCrossEntropyLoss", x(3, 5), at([0, 4, 2], 5), reduction="none")
case("trilu", "Trilu", x(4, 5), at(1, 5))

# -- sizes and axes
case("slice", "Slice", x(7, 5), at([1, 0], 7), at([6, 5], 7), ints(0, 1), at([2, 1], 2))
case("slice_axes", "Slice", x(7, 5), at([1], 7), at([6], 7), at([0], 2), at([1], 3))
case("slice_back", "Slice", x(7, 5), at([6], 7), at([-8], 7), ints(0), ints(-2))
case("pad", "Pad", x(3, 4), at([1, 0, 2, 1], 3), np.float32(1.5))
case("pad_reflect", "Pad", x(3, 4), at([1, 0, 2, 1], 3), mode="reflect")
case("pad_edge", "Pad", x(3, 4), at([1, 2], 3), None, at([1], 2), mode="edge")
case("pad_wrap", "Pad", x(3, 4), at([1, 0, 2, 1], 3), mode="wrap")
case("tile", "Tile", x(3, 4), at([2, 1], 2))
case("expand", "Expand", x(3, 1), at([3, 4], 3))
case("reshape", "Reshape", x(3, 4), at([2, -1], 6))
case("reshape_zero", "Reshape", x(3, 4), at([3, 4], 6), allowzero=1)
case("range", "Range", at(0, 3), at(6, 6), at(2, 2))
case("range_float", "Range", real(np.float32(0), 3), real(np.float32(6), 6), real(np.float32(2), 2))
case("constant_of_shape", "ConstantOfShape", at([2, 3], 3))
case("top_k", "TopK", x(3, 7), at([2], 7), outputs=2)
case("top_k_axis", "TopK", x(7, 3), at([7], 7), outputs=2, axis=0, largest=0)
case("split", "Split", x(7, 2), at([3, 4], 7), outputs=2, axis=0)
case("unsqueeze", "Unsqueeze", x(3, 4), at([0], 3))
case("squeeze", "Squeeze", x(3, 1, 4), at([1], 3))
case("reduce_sum", "ReduceSum", x(3, 4), at([1], 2))
case("reduce_max", "ReduceMax", x(3, 4), at([-1], 2), keepdims=0)
case("cumsum", "CumSum", x(3, 4), at(1, 2))
case("cumsum_first", "CumSum", x(3, 4), at([0], 2), exclusive=1, reverse=1)
case("center_crop_pad", "CenterCropPad", x(6, 5), at([3, 8], 8))
case("col2im", "Col2Im", x(1, 5, 5), at([5, 5], 5), at([1, 5], 5))
case("affine_grid", "AffineGrid", x(1, 2, 3), at([1, 1, 3, 4], 4), fixed=(1,))
case("resize_sizes", "Resize", x(1, 1, 4, 5), None, None, at([1, 1, 8, 3], 8))
for mode in ("nearest", "linear", "cubic"):
    scales = real(np.array([1, 1, 2, 0.5]), 2)
    case(f"resize_{mode}", "Resize", x(1, 1, 4, 5), None, scales, mode=mode)
    roi = real(np.array([0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8]), 1)
    transform = "tf_crop_and_resize"
    case(
        f"resize_crop_{mode}",
        "Resize",
        x(1, 1, 4, 5),
        roi,
        None,
        ints(1, 1, 6, 6),
        mode=mode,
        coordinate_transformation_mode=transform,
    )
case("upsample", "Upsample", x(1, 1, 4, 5), real(np.array([1, 1, 2, 2]), 2), opset=9, mode="linear")
case("dropout", "Dropout", x(3, 4), real(np.float32(0.5), 1), np.bool_(True), outputs=2)

# -- signals
case("dft", "DFT", x(1, 8, 1), at(8, 8), opset=20)
case("dft_axis", "DFT", x(1, 8, 4, 1), None, at(1, 3), opset=20)
case("stft", "STFT", x(1, 32, 1), at(8, 8), x(16), at(16, 16))
case("hann", "HannWindow", at(8, 8))
case(
    "mel",
    "MelWeightMatrix",
    at(8, 8),
    at(16, 16),
    at(8000, 8000),
    real(np.float32(0), 10),
    real(np.float32(4000), 4000),
)

# -- images
BOXES = np.array([[0, 0, 3, 3], [1, 1, 5, 4], [2, 0, 4, 4]], np.float32)
case(
    "roi_align",
    "RoiAlign",
    x(2, 2, 5, 6),
    real(BOXES, 6),
    at([0, 1, 1], 2),
    output_height=2,
    output_width=2,
    sampling_ratio=2,
    fixed=(1,),
)
case(
    "roi_align_free",
    "RoiAlign",
    x(2, 2, 5, 6),
    real(BOXES, 6),
    at([0, 1, 1], 2),
    output_height=2,
    output_width=2,
    mode="max",
    fixed=(1,),
)
case(
    "max_roi_pool",
    "MaxRoiPool",
    x(2, 2, 5, 6),
    real(np.insert(BOXES, 0, [0, 1, 1], axis=1), 6),
    pooled_shape=[2, 2],
)
for mode in ("linear", "nearest", "cubic"):
    for padding in ("zeros", "border", "reflection"):
        grid = real(np.linspace(-1.2, 1.2, 24).reshape(1, 3, 4, 2), 1)
        case(
            f"grid_sample_{mode}_{padding}",
            "GridSample",
            x(1, 2, 5, 6),
            grid,
            mode=mode,
            padding_mode=padding,
        )
volume = real(np.linspace(-1.2, 1.2, 24).reshape(1, 2, 2, 2, 3), 1)
case("grid_sample_3d", "GridSample", x(1, 2, 3, 4, 5), volume, align_corners=1)
case(
    "deform_conv",
    "DeformConv",
    x(1, 2, 5, 5),
    floats(3, 2, 2, 2),
    real(np.zeros((1, 8, 4, 4)), 5),
    floats(3),
    real(np.ones((1, 4, 4, 4)), 1),
    kernel_shape=[2, 2],
)
SCORES = np.array([[[0.9, 0.8, 0.7]]], np.float32)
case(
    "nms",
    "NonMaxSuppression",
    real(BOXES[None], 6),
    real(SCORES, 1),
    at([2], 3),
    real(np.float32(0.5), 1),
    real(np.float32(0), 1),
    fixed=(0, 1, 2),
)
case(
    "nms_center",
    "NonMaxSuppression",
    real(BOXES[None], 6),
    real(SCORES, 1),
    at([2], 3),
    center_point_box=1,
    fixed=(0, 1, 2),
)

# -- sequences
for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    weights = floats(1, gates * 3, 2), floats(1, gates * 3, 3)
    case(
        f"{kind.lower()}_lengths",
        kind,
        x(5, 2, 2),
        *weights,
        None,
        at([5, 3], 5, np.int32),
        outputs=2,
        hidden_size=3,
    )
    both = (np.repeat(weight, 2, 0) for weight in weights)
    case(
        f"{kind.lower()}_both_ways",
        kind,
        x(5, 2, 2),
        *both,
        None,
        at([5, 3], 5, np.int32),
        outputs=2,
        hidden_size=3,
        direction="bidirectional",
    )
case(
    "attention_lengths",
    "Attention",
    x(2, 2, 3, 4),
    x(2, 2, 6, 4),
    x(2, 2, 6, 4),
    None,
    None,
    None,
    at([6, 4], 6),
    fixed=(0, 1, 2),
)
case("rotary", "RotaryEmbedding", x(2, 2, 3, 4), floats(7, 2), floats(7, 2), at([[0, 1, 6], [2, 3, 4]], 7))
case(
    "rotary_contrib",
    "RotaryEmbedding",
    x(2, 2, 3, 4),
    at([[0, 1, 6], [2, 3, 4]], 7),
    floats(7, 2),
    floats(7, 2),
    domain=MS,
)
case(
    "group_query_attention",
    "GroupQueryAttention",
    x(2, 1, 8),
    x(2, 1, 4),
    x(2, 1, 4),
    x(2, 1, 6, 4),
    x(2, 1, 6, 4),
    at([5, 3], 6, np.int32),
    at(6, 6, np.int32),
    domain=MS,
    num_heads=2,
    kv_num_heads=1,
    outputs=3,
    fixed=(0, 1, 2, 3, 4),
)
case(
    "group_query_rotary",
    "GroupQueryAttention",
    x(2, 1, 8),
    x(2, 1, 4),
    x(2, 1, 4),
    x(2, 1, 6, 4),
    x(2, 1, 6, 4),
    at([5, 3], 6, np.int32),
    at(6, 6, np.int32),
    floats(8, 2),
    floats(8, 2),
    domain=MS,
    num_heads=2,
    kv_num_heads=1,
    outputs=3,
    do_rotary=1,
    fixed=(0, 1, 2, 3, 4),
)
case(
    "attention_mask",
    "MultiHeadAttention",
    x(2, 3, 8),
    x(2, 3, 8),
    x(2, 3, 8),
    None,
    at([3, 2], 3, np.int32),
    domain=MS,
    num_heads=2,
    fixed=(0, 1, 2),
)
case(
    "embed_layer_norm",
    "EmbedLayerNormalization",
    at([[0, 6], [2, 3]], 7, np.int32),
    at([[0, 1], [1, 0]], 2, np.int32),
    floats(7, 8),
    floats(5, 8),
    floats(2, 8),
    floats(8),
    floats(8),
    at([[1, 1], [1, 0]], 2, np.int32),
    domain=MS,
    outputs=2,
)
case("multinomial", "Multinomial", real(np.zeros((2, 3)), 1), sample_size=4, seed=1.0)
case("bernoulli", "Bernoulli", real(np.full((2, 3), 0.5), 1), seed=1.0)

# -- numbers
case("cast_i32", "Cast", real(np.array([1.5, -2, 3]), 2**31), to=TensorProto.INT32, plain=True)
case("cast_u8", "Cast", real(np.array([1.5, 2, 3]), 256), to=TensorProto.UINT8, plain=True)
case(
    "bit_shift",
    "BitShift",
    Fed(ints(1, 2, 3, dtype=np.uint32)),
    Fed(ints(1, 31, 3, dtype=np.uint32), 32),
    direction="LEFT",
    plain=True,
)
case("divide", "Div", Fed(ints(5, -7, -(2**63))), at([2, 3, 1], 3))
case("mod", "Mod", Fed(ints(5, -7, -(2**63))), at([2, 3, 1], 3))
case("pow", "Pow", Fed(ints(5, -7, 2)), at([2, 3, 1], 64))
case(
    "quantize",
    "QuantizeLinear",
    real(floats(3, 4), 128),
    real(np.float32(0.1), 1),
    Fed(np.array(3, np.uint8)),
    plain=True,
)
case(
    "tree",
    "TreeEnsembleRegressor",
    real(floats(4, 3), 1),
    domain=ML,
    n_targets=1,
    nodes_treeids=[0, 0, 0],
    nodes_nodeids=[0, 1, 2],
    nodes_featureids=[2, 0, 0],
    nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_values=[0.1, 0.0, 0.0],
    nodes_truenodeids=[1, 0, 0],
    nodes_falsenodeids=[2, 0, 0],
    target_treeids=[0, 0],
    target_nodeids=[1, 2],
    target_ids=[0, 0],
    target_weights=[1.0, 2.0],
)


def model(case: Case, *, is_open: bool) -> bytes:
    """The case as a model: static with elementwise ops around the node, or the node with dynamic sizes."""
    inputs, weights, nodes, names = [], [], [], []
    for k, given in enumerate(case.inputs):
        name = f"i{k}"
        if isinstance(given, Fed):
            opened = is_open and k not in case.fixed
            dims = [f"{name}_{axis}" for axis in range(given.array.ndim)] if opened else given.array.shape
            kind = helper.np_dtype_to_tensor_dtype(given.array.dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, dims))
        elif given is not None:
            weights.append(numpy_helper.from_array(np.asarray(given), name))
        wrapped = isinstance(given, Fed) and given.bound is None and given.array.dtype == np.float32
        if wrapped and not is_open:
            nodes.append(helper.make_node("Neg", [name], [f"n{k}"]))
            name = f"n{k}"
        names.append("" if given is None else name)
    outputs = [f"o{k}" for k in range(case.outputs)]
    nodes.append(helper.make_node(case.op, names, outputs, domain=case.domain, **case.attributes))
    if not is_open and not case.plain:
        nodes.append(helper.make_node("Neg", ["o0"], ["y"]))
        outputs[0] = "y"
    values = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, case.name, inputs, values, weights)
    imports = [helper.make_opsetid(d, v) for d, v in (("", case.opset), (ML, 3), (MS, 1))]
    made: bytes = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    return made
