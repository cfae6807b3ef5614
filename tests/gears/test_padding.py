"""Shapes between gears, padded with zeros: the result is that of the model, or the op that prevents padding
is named.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright import ops
from graphwright.compiler.recompile import unpacked_module
from graphwright.config import Options
from graphwright.frontends.onnx import load
from graphwright.ir.evaluate import evaluate_module
from graphwright.runtime.dispatch.executor import DispatchExecutor
from tests.executables import dispatch
from tests.onnx_models import onnx_model

from .models import FLOAT, INT64, cnn, encoder, images, node, plain, weight

ops.load()
Array = np.ndarray[Any, Any]
N, M = 7, 5
"""Of the largest gear; a gear less has 3 and 2."""
REFERENCE = Options(device="reference")
_FIRST_TYPE = {"ArgMax": INT64, "NonZero": INT64, "Cast": TensorProto.DOUBLE}
"""The element types of first outputs, where they are not f32."""


def one(
    op: str, shape: list[Any], *operands: Array | tuple[int, list[Any]], outputs: int = 1, **attributes: Any
) -> bytes:
    """A node called ``it`` of ``x``, f32, of constants, and of inputs that are (element type, shape)."""
    names = [f"a{k}" for k in range(len(operands))]
    fed = {n: o for n, o in zip(names, operands, strict=True) if isinstance(o, tuple)}
    held = {n: o for n, o in zip(names, operands, strict=True) if not isinstance(o, tuple)}
    made = [f"y{k}" for k in range(outputs)]
    return onnx_model(
        [node(op, ["x", *names], made, name="it", **attributes)],
        {"x": (FLOAT, shape), **fed},
        {name: (INT64 if k else _FIRST_TYPE.get(op, FLOAT), None) for k, name in enumerate(made)},
        held,
    )


def choosing() -> bytes:
    """The columns of ``x: f32[N, 4]`` where ``m: f32[4]`` is not 0: the host finds how many there are."""
    return onnx_model(
        [
            node("NonZero", ["m"], ["where"]),
            node("Squeeze", ["where", "first"], ["columns"]),
            node("Gather", ["x", "columns"], ["taken"], axis=1),
            node("Exp", ["taken"], ["y"]),
        ],
        {"x": (FLOAT, ["N", 4]), "m": (FLOAT, [4])},
        {"y": (FLOAT, None), "where": (INT64, None)},
        {"first": np.array([0])},
    )


def repeated(*body: onnx.NodeProto, grown: bool = False, **weights: Array) -> bytes:
    """``body``, from ``c`` to ``d``, repeated ``n`` times from ``x: f32[N, 3]`` on; each ``d`` stacked."""
    info = helper.make_tensor_value_info
    again = helper.make_node("Identity", ["on"], ["again"])
    kept = helper.make_node("Identity", ["d"], ["row"])
    ports = [info("k", INT64, []), info("on", TensorProto.BOOL, []), info("c", FLOAT, None)]
    results = [info("again", TensorProto.BOOL, []), info("d", FLOAT, None)]
    rows = [] if grown else [info("row", FLOAT, None)]
    graph = helper.make_graph([*body, again, kept], "body", ports, results + rows)
    return onnx_model(
        [node("Loop", ["n", "", "x"], ["y"] if grown else ["y", "rows"], name="it", body=graph)],
        {"x": (FLOAT, ["N", 3]), "n": (INT64, [])},
        {"y": (FLOAT, None)} if grown else {"y": (FLOAT, None), "rows": (FLOAT, None)},
        weights,
    )


def scanned() -> bytes:
    """Running sums along the padded axis."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("Add", ["h", "v"], ["g"]), node("Identity", ["g"], ["row"])],
        "body",
        [info("h", FLOAT, [3]), info("v", FLOAT, [3])],
        [info("g", FLOAT, [3]), info("row", FLOAT, [3])],
    )
    return onnx_model(
        [node("Scan", ["start", "x"], ["y", "rows"], name="it", num_scan_inputs=1, body=graph)],
        {"x": (FLOAT, ["N", 3])},
        {"y": (FLOAT, None), "rows": (FLOAT, None)},
        {"start": np.zeros(3, np.float32)},
    )


def chain(shape: list[Any], *nodes: onnx.NodeProto, **weights: Array) -> bytes:
    """A model of nodes from ``x`` to ``y``."""
    return onnx_model(list(nodes), {"x": (FLOAT, shape)}, {"y": (FLOAT, None)}, weights)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def choice(op: str, *operands: Array, **attributes: Any) -> bytes:
    """``op`` of ``x``, or its magnitude, by ``c``."""
    info = helper.make_tensor_value_info
    names = [f"a{k}" for k in range(len(operands))]
    made = [node(op, ["x", *names], ["t"], **attributes)]
    taken = helper.make_graph(made, "taken", [], [info("t", FLOAT, None)])
    other = helper.make_graph([node("Abs", ["x"], ["e"])], "other", [], [info("e", FLOAT, None)])
    nodes = [node("If", ["c"], ["y"], name="it", then_branch=taken, else_branch=other)]
    held = dict(zip(names, operands, strict=True))
    return onnx_model(nodes, {"c": (TensorProto.BOOL, []), "x": (FLOAT, ["N"])}, {"y": (FLOAT, None)}, held)


EQUAL: dict[str, bytes] = {
    "sizes of elements that are not padded": choosing(),
    "a loop that treats rows apart": repeated(
        node("MatMul", ["c", "w"], ["m"]),
        node("Cast", ["k"], ["f"], to=FLOAT),
        node("Add", ["m", "f"], ["s"]),
        node("Tanh", ["s"], ["d"]),
        w=weight(0, 3, 3),
    ),
    "elementwise": one("Exp", ["N", 3]),
    "broadcast": one("Add", ["N", "M"], weight(0, 1)),
    "two of one size": one("Mul", ["N", "M"], (FLOAT, ["M"])),
    "transpose": one("Transpose", ["N", 3, "M"], perm=[2, 0, 1]),
    "cast": one("Cast", ["N", 2], to=TensorProto.DOUBLE),
    "rows of a matrix product": one("MatMul", ["N", 4], weight(0, 4, 6)),
    "columns of a matrix product": one("MatMul", [3, 4], (FLOAT, [4, "N"])),
    "batches of matrix products": one("MatMul", ["N", 3, 4], (FLOAT, ["N", 4, 2])),
    "gemm": one("Gemm", ["N", 4], weight(0, 4, 6), weight(1, 6)),
    "gemm, transposed": one("Gemm", [4, "N"], weight(0, 4, 6), transA=1),
    "batch of convolutions": one("Conv", ["N", 2, 5, 5], weight(0, 3, 2, 3, 3), pads=[1, 1, 1, 1]),
    "windows that end inside": one("Conv", [1, 2, "N", "M"], weight(0, 3, 2, 2, 1)),
    "strided windows": one("Conv", [1, 2, "N", 6], weight(0, 3, 2, 3, 3), strides=[2, 2]),
    "padded in front": one("Conv", [1, 2, "N"], weight(0, 3, 2, 3), pads=[2, 0]),
    "dilated": one("Conv", [1, 2, "N"], weight(0, 3, 2, 2), dilations=[2]),
    "1x1": one("Conv", ["N", 2, "M", "M"], weight(0, 3, 2, 1, 1)),
    "batch of transposed convolutions": one("ConvTranspose", ["N", 2, 3, 3], weight(0, 2, 3, 2, 2)),
    "pooling": one("MaxPool", ["N", 2, "M", 4], kernel_shape=[1, 2]),
    "average of windows": one("AveragePool", [1, 2, "N"], kernel_shape=[3], pads=[1, 0], count_include_pad=1),
    "global pooling of a batch": one("GlobalAveragePool", ["N", 2, 3, 3]),
    "a reduction beside": one("ReduceSum", ["N", 4], ints(1)),
    "softmax of rows": one("Softmax", ["N", "M", 4], axis=-1),
    "normalized rows": one("LayerNormalization", ["N", 4], weight(0, 4), weight(1, 4)),
    "normalized images": one("InstanceNormalization", ["N", 2, 3, 3], weight(0, 2), weight(1, 2)),
    "batch normalization": one(
        "BatchNormalization", ["N", 2, "M"], weight(0, 2), weight(1, 2), weight(2, 2), weight(3, 2) ** 2
    ),
    "views": chain(
        ["N", 4, 3],
        node("Reshape", ["x", "s"], ["r"]),
        node("Unsqueeze", ["r", "a"], ["u"]),
        node("Identity", ["u"], ["y"]),
        s=ints(-1, 2, 6),
        a=ints(1),
    ),
    "the outermost of a group": chain(["N", 4], node("Reshape", ["x", "s"], ["y"]), s=ints(-1)),
    "flattened images": one("Flatten", ["N", 2, 3], axis=1),
    "the last of a concatenation": one("Concat", [2, 3], (FLOAT, ["N", 3]), axis=0),
    "beside a concatenation": one("Concat", ["N", 3], (FLOAT, ["N", 2]), axis=1),
    "from the front": one("Slice", ["N", 3], ints(1), ints(2**62), ints(0), ints(2)),
    "all but the last": one("Slice", ["N", 3], ints(0), ints(-1), ints(0), ints(1)),
    "rows of a table": onnx_model(
        [node("Gather", ["table", "x"], ["y"], name="it")],
        {"x": (INT64, ["N", "M"])},
        {"y": (FLOAT, None)},
        {"table": weight(0, 9, 3)},
    ),
    "elements of rows": one("Gather", ["N", 4], ints(-1, 0), axis=1),
    "padded at the start": one("Pad", ["N", 3], ints(2, 0, 0, 1)),
    "running sums": one("CumSum", ["N", 3], np.array(0)),
    "the largest of rows": one("TopK", ["N", 6], ints(2), outputs=2),
    "places of the largest": one("ArgMax", ["N", 6], axis=1),
    "split beside": chain(["N", 4], node("Split", ["x"], ["a", "b"], axis=1), node("Sub", ["a", "b"], ["y"])),
    "resized beside": one(
        "Resize", ["N", 2, 3, 3], np.array([], np.float32), np.array([1, 1, 2, 2], np.float32), mode="nearest"
    ),
    "a constant of a size": chain(
        ["N", 2],
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["s"], ["c"]),
        node("Add", ["x", "c"], ["y"]),
    ),
    "sequences of a batch": one(
        "LSTM", [4, "N", 3], weight(0, 1, 8, 3), weight(1, 1, 8, 2), outputs=1, hidden_size=2
    ),
    "einsum": one("Einsum", ["N", 3], weight(0, 3, 4), equation="ij,jk->ki"),
    "attention of a batch": encoder(),
    "branches that keep elements apart": choice("Neg"),
}
"""Models of inputs of N and M, which padding leaves as they are."""

REFUSED: dict[str, tuple[bytes, str]] = {
    "a sum": (one("ReduceSum", ["N", 4], ints(0)), "ReduceSum: it reduces over a padded axis"),
    "a mean": (one("ReduceMean", ["N", 4], axes=[0]), "ReduceMean: it reduces over a padded axis"),
    "softmax along": (one("Softmax", [3, "N"], axis=-1), "reduces over a padded axis"),
    "normalized along": (one("LayerNormalization", [3, "N"], weight(0, 1)), "reduces over a padded axis"),
    "a product along": (one("MatMul", [3, "N"], (FLOAT, ["N", 2])), "MatMul: it sums along a padded axis"),
    "gemm along": (one("Gemm", ["N", 3], (FLOAT, ["N", 2]), transA=1), "Gemm: it sums along a padded axis"),
    "windows over the end": (
        one("Conv", [1, 2, "N"], weight(0, 3, 2, 3), pads=[0, 1]),
        "Conv: windows extend beyond the end of axis 2",
    ),
    "pooling over the end": (
        one("MaxPool", [1, 2, "N"], kernel_shape=[2], ceil_mode=1),
        "extend beyond the end",
    ),
    "channels": (one("Conv", [1, "N", 4], (FLOAT, [3, "N", 2])), "Conv: "),
    "transposed windows": (
        one("ConvTranspose", [1, 2, "N"], weight(0, 2, 3, 3)),
        "ConvTranspose: its windows",
    ),
    "global pooling": (one("GlobalMaxPool", [1, 2, "N"]), "reduces over a padded axis"),
    "in front of others": (one("Concat", ["N", 3], (FLOAT, [2, 3]), axis=0), "Concat: elements after"),
    "from the end": (one("Slice", ["N", 3], ints(-2), ints(2**62), ints(0), ints(1)), "Slice: it counts"),
    "backwards": (one("Slice", ["N", 3], ints(-1), ints(-(2**62)), ints(0), ints(-1)), "Slice: it counts"),
    "merged": (
        chain([2, "N"], node("Reshape", ["x", "s"], ["y"], name="it"), s=ints(-1)),
        "it reshapes a padded axis: [2, N] to [2*N]",
    ),
    "flattened": (one("Flatten", ["N", 3, "M"], axis=1), "[N, 3, M] to"),
    "indices along": (one("Gather", ["N", 3], (INT64, [2]), axis=0), "Gather: its indices may count"),
    "padded at the end": (one("Pad", ["N", 3], ints(0, 0, 1, 0)), "Pad: it pads the end of axis 0"),
    "sums from the end": (one("CumSum", ["N", 3], np.array(0), reverse=1), "CumSum: it runs from the end"),
    "sorted along": (one("TopK", [3, "N"], ints(1), outputs=2), "TopK: it sorts along"),
    "resized": (
        one("Resize", [1, 1, "N"], np.array([], np.float32), np.array([1, 1, 2], np.float32), mode="linear"),
        "Resize: it resizes axis 2",
    ),
    "a sequence": (
        one("LSTM", ["N", 2, 3], weight(0, 1, 8, 3), weight(1, 1, 8, 2), hidden_size=2),
        "LSTM: it runs along",
    ),
    "its own size": (
        chain(
            ["N", 2],
            node("Shape", ["x"], ["s"]),
            node("Cast", ["s"], ["f"], to=FLOAT),
            node("Mul", ["x", "f"], ["y"], name="it"),
        ),
        "Shape: there is no padding rule",
    ),
    "sizes of elements": (
        one("NonZero", ["N", 2]),
        "NonZero: the size nonzero is data-dependent",
    ),
    "a sequence of what is padded": (
        onnx_model(
            [node("SequenceConstruct", ["x", "x"], ["q"]), node("SequenceAt", ["q", "i"], ["y"])],
            {"x": (FLOAT, ["N", 2]), "i": (INT64, [])},
            {"y": (FLOAT, None)},
        ),
        "SequenceConstruct: there is no padding rule",
    ),
    "a loop that mixes rows": (
        repeated(node("CumSum", ["c", "axis"], ["d"], reverse=1), axis=np.array(0)),
        "Loop: CumSum in the body: it runs from the end",
    ),
    "a loop whose rows become more": (
        repeated(node("Concat", ["c", "c"], ["d"], axis=0), grown=True),
        "is data-dependent",
    ),
    "a loop along a padded axis": (scanned(), "Loop: its number of iterations depends on padded sizes"),
    "a branch that runs backwards": (
        choice("CumSum", np.array(0), reverse=1),
        "If: CumSum in a branch: it runs from the end",
    ),
}


def sizes_of(model: bytes, n: int, m: int) -> dict[str, list[int | None]]:
    """Shapes of the inputs at these sizes."""
    named = {"N": n, "M": m, "S": 4}
    return {
        value.name: [dim if isinstance(dim, int) else named[str(dim)] for dim in value.type.dims]
        for value in load(model).main.inputs
    }


def gears_of(model: bytes) -> gw.Gears:
    rows = [sizes_of(model, 3, 2), sizes_of(model, N, M)]
    return gw.Gears({name: [row[name] for row in rows] for name in rows[0]}, between="pad")


def feeds_of(model: bytes, n: int, m: int) -> list[Array]:
    random = np.random.default_rng(n)
    shapes = sizes_of(model, n, m)
    return [
        random.integers(0, 2, shapes[value.name]).astype(value.type.dtype.numpy)
        if not value.type.dtype.is_float
        else random.standard_normal(shapes[value.name]).astype(np.float32)  # type: ignore[arg-type]  # numbers alone by now
        for value in load(model).main.inputs
    ]


@pytest.mark.parametrize("name", EQUAL)
def test_padding_that_changes_nothing(name: str) -> None:
    """The references give the same result as for the unpadded shape."""
    model = EQUAL[name]
    geared = gw.compile(model, gears=gears_of(model), options=REFERENCE)
    alone = gw.compile(model, options=REFERENCE)
    for n, m in ((4, 3), (6, 4), (3, 2), (7, 5), (3, 1), (5, 5)):
        feeds = feeds_of(model, n, m)
        for got, want in zip(geared(*feeds), alone(*feeds), strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_padding_that_could_change_something_is_rejected(name: str) -> None:
    model, words = REFUSED[name]
    with pytest.raises(gw.ModelError) as caught:
        gw.compile(model, gears=gears_of(model), options=REFERENCE)
    assert words in str(caught.value), str(caught.value)
    assert {d.code for d in caught.value.diagnostics} == {"padding"}
    assert "dynamic" in str(caught.value), "what to do about it"


def test_all_ops_that_reject_are_named() -> None:
    with pytest.raises(gw.ModelError) as caught:
        gw.compile(cnn(), gears=gw.Gears(batch=(1, 2), image=[(16, 16), (32, 32)], between="pad"))
    places = [d.where for d in caught.value.diagnostics]
    assert places == ["stem", "middle", "pool"]


def test_native_results_are_those_of_the_gear_cropped(options: Options) -> None:
    shapes = {"x": ["N", 3, 16, 16]}
    model = gw.compile(cnn(), shapes=shapes, gears=gw.Gears(batch=(2, 4, 8), between="pad"), options=options)
    for n, gear in ((1, 2), (2, 2), (3, 4), (5, 8), (8, 8), (0, 2)):
        x = images(n, 3, 16, 16)
        alone = gw.compile(cnn(), shapes={"x": (gear, 3, 16, 16)}, options=options)
        filled = np.concatenate([x, np.zeros((gear - n, 3, 16, 16), np.float32)])
        want = alone(filled)[0][:n]
        for y in (
            model(x)[0],
            model.run({"x": x})["y"],
            model.run({"x": x}, out={"y": np.empty_like(want)})["y"],
        ):
            assert y.shape == (n, 5) and y.tobytes() == want.tobytes()
        assert model.trace({"x": x})


def test_a_package_pads_as_well_and_so_does_one_made_again(options: Options, tmp_path: Any) -> None:
    shapes = {"x": ["N", 3, 16, 16]}
    model = gw.compile(cnn(), shapes=shapes, gears=gw.Gears(batch=(2, 4), between="pad"), options=options)
    model.save(tmp_path / "pad.om")
    x = images(3, 3, 16, 16)
    for each in (
        gw.load(tmp_path / "pad.om", options=options),
        gw.load(
            tmp_path / "pad.om", options=Options(cache_dir=options.cache_dir, key_dir=tmp_path, threads=1)
        ),
    ):
        guards = [[text.partition(" (")[0] for text in case.guards] for case in dispatch(each.package).cases]
        assert guards == [[], [], ["N <= 2"], ["N <= 4"]]
        assert each(x)[0].tobytes() == model(x)[0].tobytes()


def test_a_model_that_is_cut_pads_in_its_branches(options: Options, tmp_path: Any) -> None:
    model = gw.compile(choosing(), gears=gw.Gears(batch=(2, 4), between="pad"), options=options)
    model.save(tmp_path / "pad.om")
    stranger = Options(cache_dir=options.cache_dir, key_dir=tmp_path, threads=1)
    m = np.array([1, 0, 2, 3], np.float32)
    for each in (model, *(gw.load(tmp_path / "pad.om", options=o) for o in (options, stranger))):
        for n in (3, 2, 1, 4, 0):
            x = images(n, 4)
            y, where = each(x, m)
            np.testing.assert_allclose(y, np.exp(x[:, [0, 2, 3]]), rtol=1e-6)
            np.testing.assert_array_equal(where, [[0, 2, 3]])
            out = {"y": np.empty((n, 3), np.float32)}
            assert each.run({"x": x, "m": m}, out=out)["y"] is out["y"]
            np.testing.assert_array_equal(out["y"], y)
            assert each.trace({"x": x, "m": m})
        for shape, words in (
            ((5, 4), "no gear accepts x:5,4 m:4"),
            ((2, 5), "axis 1 of 'x' must be 4, but is 5"),
        ):
            with pytest.raises(gw.FeedError, match=words):
                each(images(*shape), m)


def test_shapes_larger_than_all_gears_are_rejected(options: Options) -> None:
    shapes = {"x": ["N", 3, 16, "W"]}
    gears = gw.Gears({"x": [(2, 3, 16, 16), (4, 3, 16, 16)]}, between="pad")
    model = gw.compile(cnn(), shapes=shapes, gears=gears, options=options)
    for shape, words in (
        ((5, 3, 16, 16), "no gear accepts x:5,3,16,16"),
        # no gear varies the width: nothing is proved of it
        ((2, 3, 16, 12), "no gear accepts x:2,3,16,12"),
        ((2, 4, 16, 16), "axis 1 of 'x' must be 3, but is 4"),
        ((2, 3, 16), "must have rank 4, but has rank 3"),
    ):
        with pytest.raises(gw.FeedError, match=words):
            model(images(*shape))
    wrong = np.empty((2, 5), np.float32)
    with pytest.raises(gw.FeedError, match=r"output 'y' has shape "):
        model.run({"x": images(3, 3, 16, 16)}, out={"y": wrong})


def test_sizes_that_the_model_does_not_take_are_rejected(options: Options) -> None:
    model = plain("MaxPool", [1, 1, "N"], kernel_shape=[3])
    compiled = gw.compile(
        model, gears=gw.Gears({"x": [(1, 1, 4), (1, 1, 8)]}, between="pad"), options=options
    )
    assert compiled(images(1, 1, 3))[0].shape == (1, 1, 1)
    assert compiled(images(1, 1, 2))[0].shape == (1, 1, 0)  # as ONNX Runtime has it
    with pytest.raises(gw.FeedError, match="do not fit the model"):
        compiled(images(1, 1, 1))


def test_the_next_gear_is_the_smallest_that_holds_the_shape() -> None:
    shapes = [(1, 16), (8, 2), (4, 5), (16, 16)]
    model = gw.compile(
        plain("Neg", ["N", "M"]), gears=gw.Gears({"x": shapes}, between="pad"), options=REFERENCE
    )
    taken = []
    for x in (images(4, 2), images(4, 4), images(1, 6), images(9, 9)):
        (y,) = model(x)
        np.testing.assert_array_equal(y, -x)
        assert isinstance(model.executor, DispatchExecutor)
        padded = model.executor.cases[len(shapes) :]
        taken.append([case.executor.stats()["runs"] for case in padded])
    assert taken == [[0, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_the_padded_graph_has_the_same_results() -> None:
    """The printed graph with its pads, gears and crops is evaluated as it stands."""
    model = gw.compile(plain("Neg", ["N", 3]), gears=gw.Gears(batch=(2, 5), between="pad"), options=REFERENCE)
    module = unpacked_module(model.package)
    for n in (1, 2, 3, 5):
        x = images(n, 3)
        (y,) = evaluate_module(module, [x, np.array(x.shape)])
        np.testing.assert_array_equal(y, -x)
