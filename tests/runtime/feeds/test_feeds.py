"""Accepted feeds and output arrays; for others, one error that says what the model takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.ops.core.identity import Identity
from tests.onnx_models import onnx_model
from tests.package.models import Classifier

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def doubler(options: Options) -> gw.Model:
    """y = x + x over any matrix."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    spec = (TensorProto.FLOAT, ["N", "M"])
    return gw.compile(onnx_model([node], {"x": spec}, {"y": spec}), options=options)


class Named(np.ndarray):  # type: ignore[type-arg]  # of any element type
    """A subclass, as libraries make them."""


BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
FORMS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda a: a,
    "transposed twice": lambda a: a.T.copy().T,
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "big-endian": lambda a: a.astype(">f4"),
    "a subclass": lambda a: a.view(Named),
    "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), np.float32, offset=1).reshape(a.shape),
    "rows": lambda a: a[1:3],
    "no rows": lambda a: a[:0],
    "no columns": lambda a: a[:, :0],
    "one element": lambda a: a[:1, :1],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("writeable", [True, False])
def test_every_form_of_array_is_read_right(
    doubler: gw.Model, form: Callable[[Array], Array], writeable: bool
) -> None:
    x = form(BASE)
    before = np.array(x)
    if not writeable and x.flags.owndata:
        x.flags.writeable = False
    (y,) = doubler(x)
    assert type(y) is np.ndarray and y.dtype == np.float32
    assert np.array_equal(y, before.astype(np.float32) * 2)
    assert np.array_equal(x, before)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4", "f8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_every_type_of_element_goes_in_and_out(dtype: Any, shape: tuple[int, ...], options: Options) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    kind = {
        "bool": "BOOL",
        "bfloat16": "BFLOAT16",
        "float16": "FLOAT16",
        "float32": "FLOAT",
        "float64": "DOUBLE",
    }
    element = getattr(TensorProto, kind.get(array.dtype.name, array.dtype.name.upper()))
    node = helper.make_node(
        "Concat" if shape else "Identity",
        ["x"] * (2 if shape else 1),
        ["y"],
        **({"axis": 0} if shape else {}),
    )
    out_shape = [2 * shape[0], *shape[1:]] if shape else []
    model = gw.compile(
        onnx_model([node], {"x": (element, [*shape])}, {"y": (element, out_shape)}), options=options
    )
    (y,) = model(array)
    expected = np.concatenate([array, array]) if shape else array
    assert y.dtype == array.dtype and y.shape == expected.shape and y.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "feeds",
    [
        {},
        {"z": BASE},
        {"x": BASE, "z": BASE},
        {"x": BASE[0]},
        {"x": BASE[None]},
        {"x": BASE.astype(np.float64)},
        {"x": BASE.astype(np.int32)},
        {"x": BASE.astype(np.complex64)},
        {"x": BASE.astype(object)},
        {"x": BASE.astype(str)},
        {"x": None},
        {"x": 3.0},
        {"x": [[1.0], ["text"]]},
        {"x": [[1.0 + 1j]]},
        {"x": [[1e300]]},
        {"x": [[1.0], [1.0, 2.0]]},
        {"x": "text"},
        [BASE],
        BASE,
        None,
    ],
)
def test_feeds_that_do_not_fit(doubler: gw.Model, feeds: Any) -> None:
    with pytest.raises(gw.FeedError, match=r"the inputs are x: f32\[N, M\]"):
        doubler.run(feeds)


def test_too_few_and_too_many_arrays(doubler: gw.Model) -> None:
    for arrays in ((), (BASE, BASE)):
        with pytest.raises(gw.FeedError, match="for 1 input"):
            doubler(*arrays)


def test_sizes_that_do_not_fit_name_the_input(model: gw.Model) -> None:
    for shape in [(2, 4, 12, 12), (2, 3, 11, 12), (2, 3, 12)]:
        with pytest.raises(gw.FeedError, match=r"'x' must[^$]*the inputs are x: f32\[N, 3, 12, 12\]"):
            model(np.zeros(shape, np.float32))


def test_bits_are_not_taken_for_another_type(options: Options) -> None:
    """bfloat16 is stored as uint16 internally, but an array of uint16 is not bfloat16."""
    node = helper.make_node("Identity", ["x"], ["y"])
    spec = (TensorProto.BFLOAT16, [3])
    bf16 = gw.compile(onnx_model([node], {"x": spec}, {"y": spec}), options=options)
    with pytest.raises(gw.FeedError, match="takes bf16, not uint16"):
        bf16(np.zeros(3, np.uint16))


NAN = float("nan")
PLAIN: list[tuple[str, Any, Any]] = [
    ("FLOAT", [[1, 2.5], [True, -0.0]], [[1, 2.5], [1, -0.0]]),
    ("FLOAT", ((1,), (2,)), [[1], [2]]),
    ("FLOAT", [[0.1, NAN, float("inf")]], np.float32([[0.1, NAN, np.inf]])),
    ("FLOAT", [range(3)], [[0, 1, 2]]),
    ("FLOAT", [[]], np.zeros((1, 0))),
    ("FLOAT", [np.float32([1, 2]), np.float32([3, 4])], [[1, 2], [3, 4]]),
    ("UINT8", [[0, 255]], [[0, 255]]),
    ("INT64", [[2**62, -1]], [[2**62, -1]]),
    ("BOOL", [[True, 0]], [[True, False]]),
]


@functools.cache
def copier(element: str, options: Options, rank: int = 2) -> gw.Model:
    """y = x, a matrix."""
    spec = (getattr(TensorProto, element), ["N", "M"][:rank])
    node = helper.make_node("Identity", ["x"], ["y"])
    return gw.compile(onnx_model([node], {"x": spec}, {"y": spec}), options=options)


@pytest.mark.parametrize(("element", "given", "expected"), PLAIN)
def test_numbers_and_lists_are_converted_to_the_dtype_of_the_input(
    element: str, given: Any, expected: Any, options: Options
) -> None:
    y = copier(element, options).run({"x": given})["y"]
    np.testing.assert_array_equal(y, expected)
    assert y.dtype == {"FLOAT": np.float32, "UINT8": np.uint8, "INT64": np.int64, "BOOL": bool}[element]


@pytest.mark.parametrize(
    ("element", "given"), [("UINT8", [[256]]), ("UINT8", [[-1]]), ("INT64", [[0.5]]), ("BOOL", [[2]])]
)
def test_numbers_that_the_input_does_not_hold_are_rejected(
    element: str, given: Any, options: Options
) -> None:
    with pytest.raises(gw.FeedError, match=r"has elements that .* cannot represent"):
        copier(element, options)(given)


def test_a_scalar_is_a_number_of_python_or_numpy(options: Options) -> None:
    scalar = copier("FLOAT", options, 0)
    for given in (2.5, np.float64(2.5), np.float32(2.5), np.array(2.5, np.float32)):
        assert scalar(given)[0] == np.float32(2.5)
    with pytest.raises(gw.FeedError, match=r"takes f32, not int64 .*\s*convert it, as array.astype"):
        scalar(np.int64(2))


class OnlyDlpack:
    """An array of a library that NumPy does not know."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **given: Any) -> Any:
        return self._array.__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("form", ["contiguous", "fortran", "strided", "rows", "no rows", "one element"])
def test_arrays_are_read_through_dlpack(doubler: gw.Model, form: str) -> None:
    x = FORMS[form](BASE)
    np.testing.assert_array_equal(doubler(OnlyDlpack(x))[0], x * 2)
    np.testing.assert_array_equal(doubler(torch.from_numpy(np.array(x)))[0], x * 2)
    with pytest.raises(gw.FeedError, match="takes f32, not int64"):
        doubler(OnlyDlpack(x.astype(np.int64)))


@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (0, 5), (7, 0), (31, 17)])
@pytest.mark.parametrize("wrap", [OnlyDlpack, lambda tensor: tensor])
def test_tensors_of_bfloat16_are_read(
    wrap: Callable[[Any], Any], shape: tuple[int, int], options: Options
) -> None:
    model = copier("BFLOAT16", options)
    tensor = torch.linspace(-3, 3, shape[0] * shape[1], dtype=torch.bfloat16).reshape(shape)
    for given in (tensor, tensor.T, tensor[::2]):
        y = model(wrap(given))[0]
        assert y.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(y.astype(np.float32), given.float().numpy())
    with pytest.raises(gw.FeedError, match="takes bf16, not float16"):
        model(wrap(tensor.half()))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_tensors_of_8_bit_floats_are_read(name: str, options: Options) -> None:
    tensor = torch.tensor([[0.5, -1.5, 2.0]]).to(getattr(torch, name))
    builder = gw.GraphBuilder()
    builder.output(
        "y", builder(Identity(), builder.input("x", name.replace("float", "f").replace("_", ""), (1, 3)))
    )
    y = builder.compile(options)(tensor)[0]
    np.testing.assert_array_equal(y.astype(np.float32), tensor.float().numpy())


def test_tensors_that_cannot_be_read_say_why(doubler: gw.Model) -> None:
    with pytest.raises(gw.FeedError, match=r"input 'x' cannot be read as an array: .*detach\(\)"):
        doubler(torch.ones(2, 2, requires_grad=True))
    with pytest.raises(gw.FeedError, match="input 'x' cannot be read as an array"):
        doubler(torch.ones(2, 2, device="meta"))


@pytest.mark.parametrize(
    ("given", "kind"),
    [(None, "NoneType"), ("text", "str"), ((r for r in BASE), "generator"), ({1.0}, "set"), (b"12", "bytes")],
)
def test_the_error_names_the_type_of_a_feed_that_is_not_an_array(
    doubler: gw.Model, given: Any, kind: str
) -> None:
    with pytest.raises(gw.FeedError, match=f"input 'x' takes f32, not {kind} ") as caught:
        doubler.run({"x": given})
    assert "astype" not in str(caught.value)


def test_masked_elements_have_no_value(doubler: gw.Model) -> None:
    whole = np.ma.masked_array(BASE, mask=np.zeros_like(BASE, bool))
    np.testing.assert_array_equal(doubler(whole)[0], BASE * 2)
    with pytest.raises(gw.FeedError, match=r"masked elements: replace them by values, as array.filled"):
        doubler(np.ma.masked_greater(BASE, 5))
    np.testing.assert_array_equal(doubler(np.ma.masked_greater(BASE, 5).filled(0))[0][0], [0, 2, 4, 6, 8, 10])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ([BASE], "out must be a mapping from names to arrays, not list"),
        ({"y": None}, r"out\['y'\] must be a writable C-contiguous NumPy array of f32, not NoneType"),
        ({"y": torch.zeros(4, 6)}, "not Tensor"),
        ({"y": np.zeros((4, 6))}, "not float64"),
        ({"y": np.zeros((6, 4), np.float32).T}, "not strided"),
        ({"y": np.broadcast_to(np.float32(0), (4, 6)).copy().view(">f4")}, "not >f4"),
        ({"y": np.frombuffer(bytes(96), np.float32).reshape(4, 6)}, "not read-only"),
        (
            {"y": np.zeros((4, 4), np.float32)},
            r"output 'y' has shape \(4, 6\), but the array for it has shape \(4, 4\)",
        ),
        ({"z": np.zeros((4, 6), np.float32)}, "there is no output 'z'"),
        (3, "out must be a mapping from names to arrays, not int"),
    ],
)
def test_memory_that_takes_no_output_says_why(doubler: gw.Model, out: Any, message: str) -> None:
    with pytest.raises(gw.FeedError, match=message):
        doubler.run({"x": BASE}, out=out)


def test_names_of_outputs_are_any_collection_of_texts(doubler: gw.Model) -> None:
    for names in ("y", ["y"], ("y",), {"y"}, (name for name in "y")):
        np.testing.assert_array_equal(doubler.run({"x": BASE}, names)["y"], BASE * 2)
    for wrong in (3, [3], ["y", "z"]):
        with pytest.raises(gw.FeedError, match="output"):
            doubler.run({"x": BASE}, wrong)  # type: ignore[arg-type]  # no names


def test_an_input_may_be_called_self(options: Options) -> None:
    spec = (TensorProto.FLOAT, [2])
    node = helper.make_node("Neg", ["self"], ["y"])
    model = gw.compile(onnx_model([node], {"self": spec}, {"y": spec}), options=options)
    assert model(self=[1, 2])[0].tolist() == [-1, -2]


def test_calls_take_names_and_dicts(options: Options) -> None:
    specs = {name: (TensorProto.FLOAT, ["N", 2]) for name in "ab"}
    node = helper.make_node("Sub", ["a", "b"], ["y"])
    model = gw.compile(onnx_model([node], specs, {"y": specs["a"]}), options=options)
    a, b = np.float32([[3, 5]]), np.float32([[1, 1]])
    for (y,) in (model(a, b), model(a, b=b), model(b=b, a=a), model({"b": b, "a": a}), model(a, [[1, 1]])):
        np.testing.assert_array_equal(y, [[2, 4]])
    wrong: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((a,), {"a": a}, "input 'a' is given twice"),
        ((a,), {"c": a}, "there is no input 'c'"),
        ((a,), {}, "got 1 array for 2 inputs"),
        ((a, b, a), {}, "got 3 arrays for 2 inputs"),
        ((a, b, a), {"b": b}, "input 'b' is given twice"),
        (({"a": a},), {}, "input 'b' is missing"),
        ((), {}, "got 0 arrays for 2 inputs"),
    ]
    for arrays, named, message in wrong:
        with pytest.raises(gw.FeedError, match=message):
            model(*arrays, **named)


@pytest.mark.parametrize("kind", ["seq", "optional", "optional(seq)"])
def test_the_dict_of_a_call_is_no_container_that_the_input_takes(kind: str) -> None:
    info = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])
    info = helper.make_sequence_type_proto(info) if "seq" in kind else info
    info = helper.make_optional_type_proto(info) if "optional" in kind else info
    nodes = [helper.make_node("OptionalGetElement", ["q"], ["s"])] if "optional" in kind else []
    last = "ConcatFromSequence" if "seq" in kind else "Identity"
    attributes = {"axis": 0} if "seq" in kind else {}
    nodes.append(helper.make_node(last, ["s" if nodes else "q"], ["y"], **attributes))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M"])]
    graph = helper.make_graph(nodes, "g", [helper.make_value_info("q", info)], outputs)
    model = gw.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    x = np.arange(3, dtype=np.float32)
    fed = [x, x] if "seq" in kind else x
    for (y,) in (model(fed), model(q=fed), model({"q": fed})):
        np.testing.assert_array_equal(y, np.concatenate([x, x]) if "seq" in kind else x)
    with pytest.raises(gw.FeedError, match="there is no input 'r'"):
        model({"r": fed})


class TestOut:
    def test_is_written_and_returned(self, model: gw.Model, classifier: Classifier) -> None:
        y = np.full((2, 5), np.nan, np.float32)
        results = model.run({"x": classifier.x}, out={"y": y})
        assert results["y"] is y
        assert np.array_equal(y, model(classifier.x)[0])

    def test_may_be_a_part_of_a_larger_array(self, doubler: gw.Model) -> None:
        y = np.zeros((6, 6), np.float32)
        doubler.run({"x": BASE}, out={"y": y[1:5]})
        assert np.array_equal(y[1:5], BASE * 2) and not y[0].any() and not y[5].any()

    @pytest.mark.parametrize(
        "y",
        [
            np.zeros((4, 6), np.float64),
            np.zeros((4, 6), np.int32),
            np.zeros((4, 12), np.float32)[:, ::2],
            np.zeros((6, 4), np.float32).T,
            np.broadcast_to(np.float32(0), (4, 6)),
            np.zeros((6, 4), np.float32),
            np.zeros(24, np.float32),
            np.zeros((1, 4, 6), np.float32),
            np.zeros((5, 6), np.float32),
            np.zeros((3, 6), np.float32),
            [[0.0]],
        ],
    )
    def test_an_output_array_that_does_not_fit_is_rejected(self, doubler: gw.Model, y: Any) -> None:
        with pytest.raises(gw.FeedError, match="y"):
            doubler.run({"x": BASE}, out={"y": y})

    def test_an_unknown_output_is_rejected(self, doubler: gw.Model) -> None:
        with pytest.raises(gw.FeedError, match="no output 'z'"):
            doubler.run({"x": BASE}, out={"z": BASE.copy()})
        with pytest.raises(gw.FeedError, match="no output 'z'"):
            doubler.run({"x": BASE}, ["z"])

    def test_overlapping_an_input_or_another_output(self, options: Options) -> None:
        nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])]
        spec = (TensorProto.FLOAT, ["N"])
        model = gw.compile(onnx_model(nodes, {"x": spec}, {"y": spec, "z": spec}), options=options)
        memory = np.ones(30, np.float32)
        x = memory[:10]
        for out in ({"y": x}, {"z": memory[9:19]}, {"y": memory[10:20], "z": memory[19:29]}):
            with pytest.raises(gw.FeedError, match="overlaps"):
                model.run({"x": x}, out=out)
        assert (memory == 1).all()
        results = model.run({"x": x}, out={"y": memory[10:20], "z": memory[20:]})
        assert (results["y"] == -1).all() and (memory[10:20] == -1).all() and (memory[20:] == 1).all()


def test_strings_are_read_from_each_of_numpy_s_types(options: Options, doubler: gw.Model) -> None:
    """NumPy's strings of variable length have no byte order to compare."""
    spec = (TensorProto.STRING, ["N"])
    copied = gw.compile(
        onnx_model([helper.make_node("Identity", ["x"], ["y"])], {"x": spec}, {"y": spec}), options=options
    )
    for dtype in (object, "U3", ">U5", np.dtypes.StringDType()):
        (found,) = copied(np.array(["abc", "", "é"], dtype))
        assert found.dtype == object
        assert found.tolist() == ["abc", "", "é"]
    with pytest.raises(gw.GraphwrightError, match="input 'x' takes f32, not StringDType"):
        doubler(np.array([["1"]], np.dtypes.StringDType()))
    for encoded in (np.char.encode(["abc", "", "é"], "utf-8"), np.array(["abc", b"", "é".encode()], object)):
        assert copied(encoded)[0].tolist() == ["abc", "", "é"]
    faults = ((b"\xff", "can't decode"), (None, "None is not a text"), (2, "2 is not a text"))
    for element, fault in faults:
        for feed in (["abc", element], np.array(["abc", element], object)):
            with pytest.raises(gw.FeedError, match=f"input 'x' cannot be read as an array: .*{fault}"):
                copied(feed)


@pytest.mark.parametrize("rank", [32, 33, 64])
def test_arrays_of_all_ranks_that_numpy_has(rank: int) -> None:
    shape = (*[1] * (rank - 2), 2, 3)
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, shape)
    b.output("y", b.neg(x))
    given = np.arange(6, dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(b.compile().run({"x": given})["y"], -given)
