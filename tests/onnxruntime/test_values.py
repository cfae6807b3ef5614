"""OrtValue and IOBinding do what ONNX Runtime's do."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime as theirs
import pytest
import torch
from onnx import TensorProto, helper

import graphwright as gw
import graphwright.onnxruntime as ours
from tests.onnxruntime.support import F32, ROW, ROWS, built, copied, outcome, plain, same, sums


def facts(value: Any) -> Any:
    names = ("data_type", "device_name", "element_type", "has_value", "is_tensor", "is_sparse_tensor")
    names += ("is_tensor_sequence", "shape", "tensor_size_in_bytes", "numpy", "__dlpack_device__")
    return [outcome(getattr(value, name)) for name in names]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "i4", "u1", "?"])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_values_of_arrays_have_the_same_types_and_sizes(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype)
    same(lambda engine: facts(engine.OrtValue.ortvalue_from_numpy(array)))


@pytest.mark.parametrize("given", [[1, 2], np.array(["a"]), np.array([None]), np.array(["2026"], "M8[D]"), 3])
def test_an_ortvalue_needs_an_array_of_numbers(given: Any) -> None:
    assert same(lambda engine: engine.OrtValue.ortvalue_from_numpy(given)) == "RuntimeError"


def test_devices_are_accepted_and_rejected_alike() -> None:
    assert same(lambda engine: engine.OrtValue.ortvalue_from_numpy(ROW, "cuda", 0)) == "RuntimeError"
    assert same(lambda engine: engine.OrtValue.ortvalue_from_numpy(ROW, "moon", 0)) == "Exception"
    same(
        lambda engine: [
            getattr(engine.OrtDevice.make("cpu", 0), name)() for name in ("device_id", "device_type")
        ]
    )

    def memory(engine: ModuleType) -> Any:
        kind, place = engine.OrtAllocatorType.ORT_ARENA_ALLOCATOR, engine.OrtMemType.DEFAULT
        info = engine.OrtMemoryInfo("Cpu", kind, 0, place)
        return info.name, str(info.allocator_type), info.device_id, str(info.mem_type)

    same(memory)


def test_values_share_the_memory_of_their_arrays() -> None:
    for engine in (ours, theirs):
        array = ROWS.copy()
        value = engine.OrtValue.ortvalue_from_numpy(array)
        assert value.data_ptr() == array.ctypes.data
        value.update_inplace(np.full((2, 3), 7, np.float32))
        assert (array == 7).all() and (np.asarray(value) == 7).all()
        assert np.array(value, np.float64).dtype == np.float64
    other = ours.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    ours.copy_tensors([ours.OrtValue.ortvalue_from_numpy(ROWS)], [other])  # there for GPUs alone
    np.testing.assert_array_equal(other.numpy(), ROWS)


@pytest.mark.parametrize("new", [np.zeros((3, 2), np.float32), np.zeros((2, 2), np.float32), [1]])
def test_updates_in_place_have_the_same_result(new: Any) -> None:
    def update(engine: ModuleType) -> Any:
        value = engine.OrtValue.ortvalue_from_numpy(np.ones((2, 3), np.float32))
        value.update_inplace(new)
        return value.numpy()

    same(update)


@pytest.mark.parametrize("element", [np.float32, np.dtype("int64"), "float64", 10, 16, 999])
def test_values_of_a_shape_and_type_are_the_same(element: Any) -> None:
    def made(engine: ModuleType) -> Any:
        value = engine.OrtValue.ortvalue_from_shape_and_type([2, 0, 3], element)
        return value.data_type(), value.shape(), value.element_type()

    same(made)


def test_bfloat16_values_are_made_of_their_bytes() -> None:
    """ONNX Runtime has no array of this type; results are ml_dtypes arrays."""
    bits = np.array([0x3F80, 0xC000], np.uint16)
    for engine in (ours, theirs):
        value = engine.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
        assert value.data_type() == "tensor(bfloat16)" and value.tensor_size_in_bytes() == 4
        session = engine.InferenceSession(copied(TensorProto.BFLOAT16))
        (found,) = session.run_with_ort_values(None, {"x": value})
        assert found.data_type() == "tensor(bfloat16)" and found.shape() == [2]
    mine = ours.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert mine.numpy().astype(np.float32).tolist() == [1, -2]
    narrow = np.zeros(2, np.uint8)
    assert same(lambda e: e.OrtValue.ortvalue_from_numpy_with_onnx_type(narrow, 16)) == "RuntimeError"


def test_dlpack_shares_memory() -> None:
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    for engine in (ours, theirs):
        value = engine.OrtValue.from_dlpack(tensor)
        assert value.data_ptr() == tensor.data_ptr()
        back = torch.from_dlpack(value)
        assert back.data_ptr() == tensor.data_ptr() and back.shape == (2, 3)
        assert engine.OrtValue.from_dlpack(tensor.__dlpack__()).numpy().tolist() == tensor.tolist()
        assert engine.OrtValue.from_dlpack(tensor > 2).data_type() == "tensor(bool)"
    assert same(lambda engine: engine.OrtValue.from_dlpack(3)) == "TypeError"


def test_runs_on_values_return_the_same_results(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        feed = {name: engine.OrtValue.ortvalue_from_numpy(array) for name, array in (("a", ROWS), ("b", ROW))}
        found = pair[engine].run_with_ort_values(["less", "total"], feed)
        assert all(isinstance(value, engine.OrtValue) for value in found)
        return [value.numpy() for value in found], pair[engine].run(None, feed)

    same(run)


def bound(engine: ModuleType, session: Any) -> Any:
    binding = session.io_binding()
    binding.bind_cpu_input("a", ROWS)
    binding.bind_ortvalue_input("b", engine.OrtValue.ortvalue_from_numpy(ROW))
    return binding


def test_outputs_bound_without_memory_are_the_same(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        session = pair[engine]
        binding = bound(engine, session)
        binding.bind_output("less")
        binding.bind_output("total", "cpu")
        binding.synchronize_inputs()
        session.run_with_iobinding(binding, engine.RunOptions())
        binding.synchronize_outputs()
        return binding.copy_outputs_to_cpu(), [value.numpy() for value in binding.get_outputs()]

    same(run)


@pytest.mark.parametrize("device", ["cuda", "gpu", "dml", "moon"])
def test_outputs_bound_to_a_device_that_is_not_there_are_on_the_cpu(
    pair: dict[ModuleType, Any], device: str
) -> None:
    def run(engine: ModuleType) -> Any:
        binding = bound(engine, pair[engine])
        binding.bind_output("less", device)
        binding.bind_output("total", device, 0, np.float32, [2, 3])
        pair[engine].run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu(), [value.device_name() for value in binding.get_outputs()]

    same(run)


def test_memory_of_a_device_that_is_not_there_is_rejected(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        binding = bound(engine, pair[engine])
        binding.bind_input("a", "cuda", 0, np.float32, [2, 3], ROWS.ctypes.data)
        binding.bind_output("less")
        pair[engine].run_with_iobinding(binding)

    assert same(run) == "RuntimeError"
    with pytest.raises(RuntimeError, match="cannot use memory on 'cuda': it runs on the CPU; name 'cpu'"):
        pair[ours].io_binding().bind_output("less", "cuda", 0, np.float32, [2, 3], ROWS.ctypes.data)


def test_bindings_read_and_write_the_callers_memory(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        session, a, less = pair[engine], ROWS.copy(), np.zeros((2, 3), np.float32)
        total = engine.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
        binding = bound(engine, session)
        binding.bind_input("a", "cpu", 0, np.float32, [2, 3], a.ctypes.data)
        binding.bind_ortvalue_output("total", total)
        binding.bind_output("less", "cpu", 0, np.float32, [2, 3], less.ctypes.data)
        session.run_with_iobinding(binding)
        first = total.numpy().copy()
        a += 1
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].data_ptr() == total.data_ptr()
        return first, total.numpy(), less, binding.copy_outputs_to_cpu()

    same(run)


def test_an_output_may_be_bound_to_an_input_of_the_next_run(pair: dict[ModuleType, Any]) -> None:
    """Decoders pass their states to the next run in this way."""

    def run(engine: ModuleType) -> Any:
        session, state = pair[engine], engine.OrtValue.ortvalue_from_numpy(ROWS.copy())
        binding = bound(engine, session)
        binding.bind_output("total")
        for _ in range(3):
            binding.bind_ortvalue_input("a", state)
            session.run_with_iobinding(binding)
            (state,) = binding.get_outputs()
        return state.numpy()

    assert same(run)[2] == (ROWS + 3 * ROW).tolist()


def test_a_run_writes_to_the_bound_memory_itself(pair: dict[ModuleType, Any]) -> None:
    """A copy of a KV cache takes as long as the run of a small decoder."""
    session, written = pair[ours], []
    binding = bound(ours, session)
    memory = np.zeros((2, 3), np.float32)
    binding.bind_ortvalue_output("total", ours.OrtValue.ortvalue_from_numpy(memory))
    binding.bind_output("less")
    binding.run(lambda *call: written.extend(session._written(*call)) or written)
    assert written[0] is memory and (memory == ROWS + ROW).all()


def test_outputs_of_a_run_on_a_sequence_may_not_overlap_its_tensors() -> None:
    """The tensors of a sequence may differ in size, and may not be overwritten by the caller's arrays."""
    node = helper.make_node("SequenceAt", ["s", "i"], ["t"])
    model = built([node], [("i", TensorProto.INT64, [])], [("t", F32, ["N"])])
    element = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F32, ["N"]))
    model.graph.input.append(helper.make_value_info("s", element))
    compiled, feed = gw.compile(model), {"s": [ROW, ROW[:2].copy()], "i": np.array(0)}
    memory = np.zeros(3, np.float32)
    assert compiled.run(feed, out={"t": memory})["t"] is memory and (memory == ROW).all()
    with pytest.raises(gw.errors.FeedError, match="overlaps an input"):
        compiled.run(feed, out={"t": feed["s"][0]})

    session = ours.InferenceSession(model.SerializeToString())
    binding = session.io_binding()
    binding.bind_ortvalue_input("s", ours.OrtValue(feed["s"]))
    binding.bind_cpu_input("i", feed["i"])
    binding.bind_ortvalue_output("t", ours.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32)))
    session.run_with_iobinding(binding)
    assert plain(binding.copy_outputs_to_cpu()) == plain([ROW])


def test_bound_memory_may_overlap(pair: dict[ModuleType, Any]) -> None:
    """Scripts update a state in place."""

    def run(engine: ModuleType) -> Any:
        state = engine.OrtValue.ortvalue_from_numpy(ROWS.copy())
        binding = bound(engine, pair[engine])
        binding.bind_ortvalue_input("a", state)
        binding.bind_ortvalue_output("total", state)
        for _ in range(2):
            pair[engine].run_with_iobinding(binding)
        return state.numpy()

    assert same(run)[2] == (ROWS + 2 * ROW).tolist()


def misbound(engine: ModuleType, session: Any, how: str) -> None:
    binding = bound(engine, session)
    if how == "no outputs":
        session.run_with_iobinding(binding)
    binding.bind_output("total")
    match how:
        case "unknown input":
            binding.bind_cpu_input("zz", ROWS)
        case "unknown output":
            binding.bind_output("zz")
        case "list":
            binding.bind_cpu_input("a", [[1, 2, 3]])
        case "type":
            binding.bind_cpu_input("a", ROWS.astype(np.float64))
        case "cleared":
            binding.clear_binding_inputs()
        case "no shape":
            binding.bind_output("total", buffer_ptr=ROWS.ctypes.data)
        case "small memory":
            binding.bind_output("total", "cpu", 0, np.float32, [2, 2], ROWS.copy().ctypes.data)
        case "other type":
            binding.bind_output("total", "cpu", 0, np.int32, [2, 3], ROWS.copy().ctypes.data)
    session.run_with_iobinding(binding)


@pytest.mark.parametrize(
    "how",
    [
        *("no outputs", "unknown input", "unknown output", "list", "type", "cleared", "no shape"),
        *("small memory", "other type"),
    ],
)
def test_bindings_that_do_not_fit_raise_the_same_error(pair: dict[ModuleType, Any], how: str) -> None:
    assert same(lambda engine: misbound(engine, pair[engine], how)) in ("RuntimeError", "ValueError")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("small memory", r"'total' has shape \[2, 3\], the memory bound to it \[2, 2\]: bind memory of"),
        ("other type", "'total' is float32, the memory bound to it int32: bind memory of"),
    ],
)
def test_memory_that_does_not_fit_is_compared(pair: dict[ModuleType, Any], how: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        misbound(ours, pair[ours], how)


def test_bindings_belong_to_their_session(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        other = engine.InferenceSession(sums())
        other.run_with_iobinding(bound(engine, pair[engine]))

    assert same(run) == "ValueError"


def test_strings_are_returned_as_strings() -> None:
    session = ours.InferenceSession(copied(TensorProto.STRING))
    (found,) = session.run_with_ort_values(None, {"x": ours.OrtValue(np.array(["a", "b"], object))})
    assert found.data_type() == "tensor(string)" and plain(found.numpy())[2] == ["a", "b"]


def test_a_vector_of_values_has_the_outputs_and_what_is_added(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        binding = bound(engine, pair[engine])
        binding.bind_output("total")
        pair[engine].run_with_iobinding(binding)
        found = binding.get_outputs_as_ortvaluevector()
        found.reserve(2)
        found.push_back(engine.OrtValue.ortvalue_from_numpy(ROW)._ortvalue)
        found.shrink_to_fit()
        assert isinstance(found, engine.capi.onnxruntime_pybind11_state.OrtValueVector)
        return len(found), [value.numpy() for value in found]

    assert same(run)[0] == 2


@pytest.mark.parametrize("shape", [[-1, 2], [10**12, 10**9]])
def test_impossible_shapes_raise_an_error(shape: list[int]) -> None:
    found = same(lambda engine: engine.OrtValue.ortvalue_from_shape_and_type(shape, np.float32))
    assert found == "RuntimeError"


def test_arrays_are_rejected_where_an_ortvalue_is_needed(pair: dict[ModuleType, Any]) -> None:
    binding = pair[ours].io_binding()
    for call in (
        lambda: binding.bind_ortvalue_input("a", ROWS),
        lambda: binding.bind_ortvalue_output("total", ROWS),
        lambda: pair[ours].run_with_ort_values(None, {"a": ROWS, "b": ROW}),
    ):
        with pytest.raises(TypeError, match=r"takes an OrtValue, not ndarray: OrtValue\.ortvalue_from_numpy"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.run_with_ort_values(None, ROWS), "input_dict_ort_values must be a mapping from names"),
        (lambda s: s.run_with_iobinding(None), r"iobinding takes the result of session\.io_binding\(\)"),
        (lambda s: ours.OrtValue.ortvalue_from_numpy_with_onnx_type([1], 16), "data must be a NumPy array"),
        (lambda s: ours.OrtValue.ortvalue_from_shape_and_type(3, np.float32), "a shape must be a sequence"),
        (lambda s: s.io_binding().bind_input("a", "cpu", 0, np.float32, [2, 3], None), "array.ctypes.data"),
        (lambda s: s.io_binding().bind_input("a", "cpu", 0, np.float32, 2, 64), "a shape must be a sequence"),
    ],
)
def test_errors_about_arguments_name_what_fits(pair: dict[ModuleType, Any], call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call(pair[ours])


def test_an_unknown_element_type_says_what_fits() -> None:
    with pytest.raises(RuntimeError, match=r"'tensor\(float\)' is not an element type.*np\.float32"):
        ours.OrtValue.ortvalue_from_shape_and_type([3], "tensor(float)")


def test_capsules_of_dlpack_share_memory() -> None:
    """Scripts pass bare capsules, which share writable memory."""
    for engine in (ours, theirs):
        tensor = torch.zeros(2, 3)
        value = engine.OrtValue.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
        value.update_inplace(ROWS)
        assert tensor.tolist() == ROWS.tolist()
        back = torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack())
        assert back.data_ptr() == tensor.data_ptr()
        halves = torch.tensor([1.0, -2.0], dtype=torch.bfloat16)
        assert engine.OrtValue.from_dlpack(halves).data_type() == "tensor(bfloat16)"
    assert ours.OrtValue.from_dlpack(halves).numpy().astype(np.float32).tolist() == [1, -2]


def test_types_and_arrays_that_numpy_does_not_exchange() -> None:
    """Exporters of transformers read outputs in bf16 so."""
    torch = pytest.importorskip("torch")

    def read(engine: ModuleType) -> Any:
        made = engine.OrtValue.ortvalue_from_numpy_with_onnx_type
        fixed = ROWS.copy()
        fixed.setflags(write=False)
        values = (
            made(np.array([[0x3F80, 0xC000]], np.uint16), TensorProto.BFLOAT16),
            made(np.array([0x38, 0xC0], np.uint8), TensorProto.FLOAT8E4M3FN),
            engine.OrtValue.ortvalue_from_numpy(fixed),
        )
        tensors = [torch.from_dlpack(value._ortvalue.to_dlpack()) for value in values]
        tensors.append(torch.from_dlpack(values[0]))
        return [(str(each.dtype), each.float().tolist()) for each in tensors]

    assert same(read)[0] == ["torch.bfloat16", [[1.0, -2.0]]]


def test_native_devices_are_those_of_the_python_class() -> None:
    """Scripts read native devices from the Python class, or create them from numbers."""

    def made(engine: ModuleType) -> Any:
        native = engine.capi._pybind_state
        device = native.OrtDevice(native.OrtDevice.cpu(), native.OrtDevice.default_memory(), 0)
        other = engine.OrtDevice.make("cpu", 0)._get_c_device()
        values = [
            native.OrtValue.ortvalue_from_shape_and_type([2], np.float32, each) for each in (device, other)
        ]
        value = native.OrtValue.ortvalue_from_numpy(ROW, device)
        return device.device_type(), device.device_id(), [each.shape() for each in values], value.numpy()

    assert same(made)[0] == 0


def test_native_bindings_return_the_same_results(pair: dict[ModuleType, Any]) -> None:
    """Scripts of language models hand native values and devices to the native binding of each step."""

    def run(engine: ModuleType) -> Any:
        native, made = engine.capi._pybind_state, np.zeros_like(ROWS)
        kind = engine.capi.onnxruntime_inference_collection.get_ort_device_type("cpu")
        device = native.OrtDevice(kind, native.OrtDevice.default_memory(), 0)
        binding = pair[engine].io_binding()._iobinding
        binding.bind_ortvalue_input("a", engine.OrtValue.ortvalue_from_numpy(ROWS)._ortvalue)
        binding.bind_input("b", ROW)
        binding.bind_output("less", device)
        binding.bind_output("total", device, np.float32, made.shape, made.ctypes.data)
        pair[engine]._sess.run_with_iobinding(binding, None)
        less = binding.get_outputs()[0].numpy()
        other = native.SessionIOBinding(pair[engine]._sess)
        other.bind_input("a", device, np.float32, ROWS.shape, ROWS.ctypes.data)
        other.bind_input("b", ROW)
        other.bind_output("total", device)
        pair[engine]._sess.run_with_iobinding(other, None)
        return less, made, other.get_outputs()[0].numpy()

    assert len(same(run)) == 3


def test_outputs_are_forgotten_with_their_bindings(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        binding = bound(engine, pair[engine])
        binding.bind_output("total")
        pair[engine].run_with_iobinding(binding)
        binding.clear_binding_outputs()
        return len(binding.get_outputs())

    assert same(run) == 0


def test_a_list_of_dicts_has_the_type_of_a_sequence_of_maps() -> None:
    """The result of ZipMap, which skl2onnx writes for probabilities."""
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    entry = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(F32, []))
    model = built([node], [("x", F32, ["N", 3])], [])
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    model.graph.output.append(helper.make_value_info("y", helper.make_sequence_type_proto(entry)))

    def kinds(engine: ModuleType) -> Any:
        value = engine.OrtValue.ortvalue_from_numpy(ROWS)
        session = engine.InferenceSession(model.SerializeToString())
        (made,) = session.run_with_ort_values(["y"], {"x": value})
        return made.data_type(), made.is_tensor(), made.is_tensor_sequence(), made.has_value()

    assert same(kinds)[2] is False


@pytest.mark.parametrize(
    "value",
    [np.array(1.5), np.array(2, np.int32), np.float16(1.5), True, False, 3, np.array([1.0]), "x", None],
)
def test_dicts_hold_what_onnx_runtime_takes(value: Any) -> None:
    """What it takes gives the same result; what it rejects is rejected."""
    kind = helper.make_map_type_proto(
        TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    node = helper.make_node("DictVectorizer", ["d"], ["y"], domain="ai.onnx.ml", string_vocabulary=["p", "q"])
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])]
    graph = helper.make_graph([node], "g", [helper.make_value_info("d", kind)], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    mine, wanted = (
        outcome(lambda engine=engine: engine.InferenceSession(model).run(None, {"d": {"q": value}}))
        for engine in (ours, theirs)
    )
    if isinstance(wanted, str):
        assert mine == "InvalidArgument"
    else:
        assert mine == wanted
