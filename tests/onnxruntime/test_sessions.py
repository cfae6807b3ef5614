"""Sessions return the results of ONNX Runtime's sessions, and raise its exception classes."""

from __future__ import annotations

import contextlib
import queue
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime as theirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
import graphwright.onnxruntime as ours
from graphwright.onnxruntime.capi import onnxruntime_pybind11_state as state
from tests.onnxruntime.support import (
    F32,
    FEED,
    I64,
    ROW,
    ROWS,
    built,
    copied,
    outcome,
    plain,
    same,
    sums,
    with_default,
)


@pytest.mark.parametrize(
    "names", [None, [], (), ["total"], ["less", "total"], ("total", "total"), ["sum"], "less"]
)
def test_outputs_by_name(pair: dict[ModuleType, Any], names: Any) -> None:
    same(lambda engine: pair[engine].run(names, FEED))


@pytest.mark.parametrize(
    "feed",
    [
        {"a": [[1, 2, 3]], "b": [1, 2, 3]},
        {"a": [[1.5, 2, True]], "b": ROW},
        {"a": [ROW, ROW], "b": ROW},
        {"a": [], "b": ROW},
        {"a": ROWS.T.reshape(2, 3)[:, ::-1], "b": ROW[::-1]},
        {"a": np.zeros((0, 3), np.float32), "b": ROW},
        {"a": ROWS.astype(np.float64), "b": ROW},
        {"a": ROWS.astype(np.int64), "b": ROW},
        {"a": ROWS.astype(np.float16), "b": ROW},
        {"a": ROWS > 0, "b": ROW},
        {"a": ROW, "b": ROW},
        {"a": np.zeros((2, 4), np.float32), "b": ROW},
        {"a": ROWS},
        {},
        {"a": ROWS, "b": ROW, "c": ROW},
        {"a": [[1, 2], [3]], "b": ROW},
        {"a": [["one", 2, 3]], "b": ROW},
        {"a": [None], "b": ROW},
        {"a": ROWS.astype(object), "b": ROW},
        {"a": np.ma.masked_greater(ROWS, 2), "b": np.ma.masked_array(ROW)},
    ],
)
def test_feeds_give_the_same_results_or_errors(pair: dict[ModuleType, Any], feed: Any) -> None:
    same(lambda engine: pair[engine].run(None, feed))


def test_errors_begin_as_in_onnx_runtime(pair: dict[ModuleType, Any]) -> None:
    """The message begins with ONNX Runtime's words, and says what is wrong and what would fit."""
    with pytest.raises(state.InvalidArgument) as caught:
        pair[ours].run(None, FEED | {"a": ROWS.astype(np.float64)})
    text = str(caught.value)
    assert text.startswith("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ")
    assert "input 'a' takes f32, not float64" in text and "a: f32[N, 3]" in text
    with pytest.raises(TypeError, match="output_names takes a sequence of names"):
        pair[ours].run("total", FEED)
    with pytest.raises(TypeError, match="input_feed must be a mapping from names to values, not list"):
        pair[ours].run(None, [ROWS])


@pytest.mark.parametrize("given", [1, 2.0, (1, 2), np.float32(3)])
def test_numbers_and_tuples_are_taken_as_well(given: Any) -> None:
    """ONNX Runtime only takes lists."""
    shape = [] if np.ndim(given) == 0 else [None]
    (found,) = ours.InferenceSession(copied(F32, shape)).run(None, {"x": given})
    assert plain(found) == plain(np.asarray(given, np.float32))


@pytest.mark.parametrize(
    ("element", "given"),
    [
        (I64, [3.7, True]),
        (I64, ["3"]),
        (I64, []),
        (TensorProto.UINT8, [300]),
        (TensorProto.UINT8, [-1]),
        (TensorProto.DOUBLE, [1, 2]),
        (TensorProto.BOOL, [0, 2]),
        (TensorProto.FLOAT16, [0.1]),
        (TensorProto.STRING, ["a", "b"]),
        (TensorProto.STRING, [1, 2]),
        (TensorProto.STRING, np.array(["a", "bc"])),
        (TensorProto.STRING, np.array(["a", 3], object)),
        (TensorProto.STRING, np.ones(2)),
    ],
)
def test_lists_become_the_type_of_the_input(element: int, given: Any) -> None:
    same(lambda engine: engine.InferenceSession(copied(element)).run(None, {"x": given}))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=7))
def test_any_list_of_rows(rows: list[list[float]]) -> None:
    mine, wanted = _SESSIONS
    feed = {"a": rows, "b": [0.0, 1, 2]}
    assert plain(mine.run(None, feed)) == plain(wanted.run(None, feed))


_SESSIONS = (ours.InferenceSession(sums()), theirs.InferenceSession(sums()))


def of_two(**info: Any) -> bytes:
    """A model of one node, ``t = op(a, b)``."""
    inputs = info.get("inputs", [("a", F32, [3]), ("b", F32, [3])])
    node = helper.make_node(
        info.get("op", "Add"), info.get("reads", ["a", "b"]), ["t"], **info.get("made", {})
    )
    model = built([node], inputs, [(info.get("gives", "t"), F32, [3])], opset=info.get("opset", 17))
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in info.get("domains", ()))
    made: bytes = model.SerializeToString()
    return made


@pytest.mark.parametrize(
    "source",
    [
        "/nowhere/model.onnx",
        "/",
        b"",
        b"no model is here, only text",
        onnx.ModelProto(ir_version=9).SerializeToString(),
        None,
        3,
        bytearray(sums()),
        onnx.load_from_string(sums()),
        of_two(op="Nope"),
        of_two(made={"domain": "org.example.other"}),
        of_two(made={"domain": "org.example.other"}, domains=["org.example.other"]),
        of_two(op="Nope", made={"domain": "com.microsoft"}, domains=["com.microsoft"]),
        of_two(op="Nope", made={"domain": "ai.onnx.ml"}, domains=["ai.onnx.ml"]),
        of_two(reads=["a", "missing"]),
        of_two(gives="missing"),
        of_two(inputs=[("a", F32, [3]), ("b", I64, [3])]),
        of_two(inputs=[("a", F32, [3]), ("b", F32, [4])]),
        of_two(op="Relu", reads=["a"], made={"foo": 3}),
        of_two(op="Cast", reads=["a"]),
        of_two(op=""),
        of_two(reads=["a"]),
        of_two(reads=["a", ""]),
        of_two(reads=["a", "b", "b"]),
        of_two(op="And"),
        of_two(op="Split", reads=["a", "b"]),
        of_two(opset=99),
    ],
    ids=lambda source: None if isinstance(source, bytes) else str(type(source).__name__),
)
def test_models_that_cannot_be_loaded_raise_the_same_errors(source: Any) -> None:
    def load(engine: ModuleType) -> str:
        engine.InferenceSession(source)
        return "loaded"

    assert same(load) != "loaded"


def test_an_unknown_op_names_the_variable_that_loads_plugins() -> None:
    """A package that imports onnxruntime has no command line to add --plugin to."""
    with pytest.raises(state.InvalidGraph, match=r"Nope at opset 17 [\s\S]*GRAPHWRIGHT_PLUGINS"):
        ours.InferenceSession(of_two(op="Nope"))


def test_an_op_of_a_custom_op_library_has_the_error_of_onnx_runtime() -> None:
    other = "org.example.other"
    model = of_two(made={"domain": other}, domains=[other])
    words = rf"Fatal error: {other}:Add\(-1\) is not a registered function/op"
    for engine in (ours, theirs):
        with pytest.raises(Exception, match=words):
            engine.InferenceSession(model)


def test_arguments_of_the_wrong_kind(pair: dict[ModuleType, Any]) -> None:
    same(lambda engine: engine.InferenceSession(sums(), {"intra_op_num_threads": 1}))
    same(lambda engine: pair[engine].run(None, FEED, {"terminate": False}))
    with pytest.raises(TypeError, match="sess_options takes SessionOptions, not dict"):
        ours.InferenceSession(sums(), {})


@pytest.mark.filterwarnings("ignore:.*is the model as it was read")
def test_a_model_saved_under_the_name_of_the_ort_format_is_read(tmp_path: Path) -> None:
    """The bytes decide, as in ONNX Runtime: here optimized_model_filepath is ONNX under every name."""
    options = ours.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    ours.InferenceSession(sums(), options)
    (found, _) = ours.InferenceSession(tmp_path / "model.ort").run(None, FEED)
    np.testing.assert_array_equal(found, ROWS + ROW)
    with pytest.raises(state.NoSuchFile):
        ours.InferenceSession(tmp_path / "missing.ort")
    (tmp_path / "link.onnx").symlink_to(tmp_path / "gone.onnx")
    with pytest.raises(state.NoSuchFile, match=r"link to .*gone\.onnx, which is not there"):
        ours.InferenceSession(tmp_path / "link.onnx")


def test_bytes_need_no_working_directory(tmp_path: Path) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    with contextlib.chdir(folder):
        folder.rmdir()
        (total, _) = ours.InferenceSession(sums()).run(None, FEED)
    np.testing.assert_array_equal(total, ROWS + ROW)


def test_an_index_beyond_a_sequence() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["a", "a"], ["s"]),
        helper.make_node("SequenceAt", ["s", "i"], ["t"]),
    ]
    model = built(nodes, [("a", F32, ["N"]), ("i", I64, [])], [("t", F32, ["N"])]).SerializeToString()
    sessions = {engine: engine.InferenceSession(model) for engine in (ours, theirs)}
    for index, wanted in ((1, plain([ROW])), (2, "InvalidArgument"), (-3, "InvalidArgument")):
        feed = {"a": ROW, "i": np.array(index)}
        assert same(lambda engine, feed=feed: sessions[engine].run(None, feed)) == wanted


def test_an_empty_optional_that_the_model_reads() -> None:
    tensor = helper.make_tensor_type_proto(F32, ["N"])
    node = helper.make_node("OptionalGetElement", ["o"], ["y"])
    model = built([node], [], [("y", F32, ["N"])])
    model.graph.input.append(helper.make_value_info("o", helper.make_optional_type_proto(tensor)))
    session = ours.InferenceSession(model.SerializeToString())
    assert plain(session.run(None, {"o": ROW})) == plain([ROW])
    for feed in ({"o": None}, {}):
        with pytest.raises(state.Fail, match=r"OptionalGetElement.*the optional is empty"):
            session.run(None, feed)


def test_a_run_can_be_terminated(pair: dict[ModuleType, Any]) -> None:
    def run(engine: ModuleType) -> Any:
        options = engine.RunOptions()
        options.terminate = True
        return pair[engine].run(None, FEED, options)

    assert same(run) == "Fail"


def described(engine: ModuleType, model: bytes) -> Any:
    session, texts = engine.InferenceSession(model), {}
    for name in ("description", "domain", "graph_description", "graph_name", "producer_name", "version"):
        texts[name] = getattr(session.get_modelmeta(), name)
    args = [session.get_inputs(), session.get_outputs(), session.get_overridable_initializers()]
    shown = [[(arg.name, arg.type, list(arg.shape), str(arg)) for arg in part] for part in args]
    return shown, texts, session.get_modelmeta().custom_metadata_map


def test_a_model_describes_itself() -> None:
    same(lambda engine: described(engine, sums()))
    same(lambda engine: described(engine, with_default()))
    args = ours.InferenceSession(sums()).get_inputs()
    assert f"{args}" == f"[{args[0]}, {args[1]}]", "a list of arguments shows them as they are printed"


def test_shapes_that_scripts_change(pair: dict[ModuleType, Any]) -> None:
    """Scripts replace the names in the shape of an input by numbers to make an array."""

    def run(engine: ModuleType) -> Any:
        shape = pair[engine].get_inputs()[0].shape
        shape[0] = 1
        feeds = (FEED | {"a": np.zeros(shape, np.float32)}, FEED)
        return [pair[engine].run(None, feed) for feed in feeds], pair[engine].get_inputs()[0].shape

    assert same(run)[1] == ["N", 3]


def test_sizes_without_a_name_are_shown_as_none() -> None:
    nodes = [helper.make_node("Relu", ["a"], [name]) for name in ("as_is", "named", "rankless")]
    nodes += [helper.make_node("Shape", ["a"], ["sizes"]), helper.make_node("Relu", ["z"], ["free"])]
    inputs = [("a", F32, ["batch size", None, -1, 5]), ("z", F32, None)]
    outputs = [("as_is", F32, ["batch size", None, None, 5]), ("named", F32, ["Q", None, "R", None])]
    outputs += [("rankless", F32, None), ("sizes", I64, None), ("free", F32, None)]
    model = built(nodes, inputs, outputs).SerializeToString()
    shapes = same(lambda engine: described(engine, model))[0][0]
    assert shapes[0][2] == ["batch size", None, None, 5]


def test_outputs_of_unknown_rank_are_as_declared() -> None:
    """The rank depends on elements that only a run knows."""
    nodes = [helper.make_node("Reshape", ["a", "sizes"], ["t"])]
    inputs = [("a", F32, ["N", 3]), ("sizes", I64, ["R"])]
    model = built(nodes, inputs, [("t", F32, ["rows", 3])]).SerializeToString()
    shapes = same(lambda engine: described(engine, model))[0][1]
    assert shapes[0][2] == ["rows", 3]


def test_an_om_describes_itself(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["a"], ["t"])]
    model = built(nodes, [("a", F32, ["N", None, 3])], [("t", F32, ["N", None, 3])])
    gw.compile(model).save(tmp_path / "model.om")
    session = ours.InferenceSession(tmp_path / "model.om")
    assert session.get_inputs() == [state.NodeArg("a", "tensor(float)", ["N", None, 3])]
    assert session.get_outputs() == [state.NodeArg("t", "tensor(float)", ["N", None, 3])]
    assert session.get_modelmeta().custom_metadata_map == {"alphabet": "xyz"}
    (found,) = session.run(None, {"a": ROWS.reshape(1, 2, 3)})
    np.testing.assert_array_equal(found, ROWS.reshape(1, 2, 3))


def test_a_feed_can_replace_an_initializer() -> None:
    for engine in (ours, theirs):
        session = engine.InferenceSession(with_default())
        assert [arg.name for arg in session.get_inputs()] == ["a"]
        (arg,) = session.get_overridable_initializers()
        assert (arg.name, arg.type, arg.shape) == ("b", "tensor(float)", [3])
        for feed, wanted in (({"a": ROWS}, ROWS + 1), (FEED, ROWS + ROW), ({"a": ROWS}, ROWS + 1)):
            np.testing.assert_array_equal(session.run(["total"], feed)[0], wanted)


def joined(outputs: str) -> bytes:
    """``t`` = ``a`` and ``b`` end to end, whose sizes the file calls by one name."""
    node = helper.make_node("Concat", ["a", "b"], ["t"], axis=0)
    return built([node], [("a", F32, ["N"]), ("b", F32, ["N"])], [("t", F32, [outputs])]).SerializeToString()


@pytest.mark.parametrize("outputs", ["M", "N"])
def test_sizes_of_one_name_may_differ(outputs: str) -> None:
    """Exporters write such files, and ONNX Runtime does not compare the sizes."""
    sessions = {engine: engine.InferenceSession(joined(outputs)) for engine in (ours, theirs)}
    for first, second in ((3, 3), (3, 4), (0, 5), (2, 2), (1, 7)):
        feed = {"a": np.arange(first, dtype=np.float32), "b": np.arange(second, dtype=np.float32)}
        assert same(lambda engine, feed=feed: sessions[engine].run(None, feed))[0][1] == (first + second,)
    assert sessions[ours].get_inputs()[1].shape == ["N"]
    ranks = {"a": np.zeros((1, 2), np.float32), "b": np.zeros(2, np.float32)}
    assert same(lambda engine: sessions[engine].run(None, ranks)) == "InvalidArgument"


def test_options_replace_sizes_and_initializers() -> None:
    def sized(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        options.add_free_dimension_override_by_name("N", 2)
        options.add_free_dimension_override_by_name("unknown", 4)
        session = engine.InferenceSession(sums(), options)
        shapes = [arg.shape for arg in (*session.get_inputs(), *session.get_outputs())]
        return (
            shapes,
            outcome(lambda: session.run(None, FEED)),
            outcome(lambda: session.run(None, FEED | {"a": ROWS[:1]})),
        )

    shapes, _, refused = same(sized)
    assert shapes[0] == [2, 3] and refused == "InvalidArgument"

    def filled(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        value = engine.OrtValue.ortvalue_from_numpy(np.full(3, 9, np.float32))
        options.add_initializer("b", value)
        return engine.InferenceSession(with_default(), options).run(["total"], {"a": ROWS}), outcome(
            lambda: options.add_initializer("b", ROW)
        )

    same(filled)


def test_sizes_are_fixed_by_denotation() -> None:
    model = onnx.load_from_string(sums())
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"

    def shapes(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        options.add_free_dimension_override_by_denotation("DATA_BATCH", 5)
        return engine.InferenceSession(model.SerializeToString(), options).get_inputs()[0].shape

    assert same(shapes) == [5, 3]


def test_external_data_stays_in_the_folder_of_the_file(tmp_path: Path) -> None:
    model = onnx.load_from_string(with_default())
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="w", size_threshold=0)
    same(lambda engine: engine.InferenceSession(str(tmp_path / "model.onnx")).run(None, {"a": ROWS}))


@pytest.mark.parametrize("form", ["bytes", "path"])
def test_the_optimized_model_is_the_model_with_its_overrides(tmp_path: Path, form: str) -> None:
    (tmp_path / "model.onnx").write_bytes(sums())
    options = ours.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "written.onnx")
    options.add_free_dimension_override_by_name("N", 2)
    source = sums() if form == "bytes" else tmp_path / "model.onnx"
    with pytest.warns(UserWarning, match="no ONNX form; save what it compiled as an .om"):
        ours.InferenceSession(source, options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "written.onnx"]
    session = theirs.InferenceSession(tmp_path / "written.onnx")
    assert session.get_inputs()[0].shape == [2, 3]
    assert plain(session.run(None, FEED)) == plain(theirs.InferenceSession(sums()).run(None, FEED))


@pytest.mark.filterwarnings("ignore:.*is the model as it was read")
@pytest.mark.parametrize("smallest", [0, 1000])
def test_weights_of_the_optimized_model_in_a_file_of_their_own(tmp_path: Path, smallest: int) -> None:
    def written(engine: ModuleType) -> Any:
        folder = tmp_path / engine.__name__
        folder.mkdir()
        options = engine.SessionOptions()
        options.optimized_model_filepath = str(folder / "written.onnx")
        prefix = "session.optimized_model_external_initializers_"
        options.add_session_config_entry(f"{prefix}file_name", "weights.bin")
        options.add_session_config_entry(f"{prefix}min_size_in_bytes", str(smallest))
        engine.InferenceSession(with_default(), options)
        results = theirs.InferenceSession(folder / "written.onnx").run(None, {"a": ROWS})
        return sorted(path.name for path in folder.iterdir()), results

    assert len(same(written)[0]) == (1 if smallest else 2)


def test_run_async_calls_back(pair: dict[ModuleType, Any]) -> None:
    def called(engine: ModuleType, feed: Any) -> Any:
        done, seen = threading.Event(), []

        def callback(results: Any, user_data: Any, error: str) -> None:
            seen.append((plain(results), user_data, bool(error)))
            done.set()

        pair[engine].run_async(["total"], feed, callback, "mine")
        assert done.wait(60)
        return seen

    assert same(lambda engine: called(engine, FEED))[0][1:] == ["mine", False]
    assert same(lambda engine: called(engine, FEED | {"a": ROWS.astype(np.float64)}))[0] == [[], "mine", True]
    assert same(lambda engine: pair[engine].run_async(None, {"a": ROWS}, print, None)) == "ValueError"


def test_errors_of_run_async_have_no_code(pair: dict[ModuleType, Any]) -> None:
    def reported(engine: ModuleType) -> str:
        done: queue.Queue[str] = queue.Queue()
        wide = FEED | {"a": np.zeros((2, 4), np.float32)}
        pair[engine].run_async(None, wide, lambda results, data, error: done.put(error), None)
        return done.get(timeout=60)[:95]

    assert same(reported).startswith("Got invalid dimensions for input: a")


def test_sessions_can_be_subclassed() -> None:
    """Insightface and other packages subclass the session."""

    class Session(ours.InferenceSession):
        def __init__(self, path: Any, **kwargs: Any) -> None:
            super().__init__(path, **kwargs)
            self.path = path

    assert plain(Session(sums(), providers=None).run(["total"], FEED)) == plain([ROWS + ROW])


def test_a_session_has_its_path_in_the_attribute_that_packages_read(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(sums())
    for engine in (ours, theirs):
        assert engine.InferenceSession(str(path))._model_path == str(path)
        assert not engine.InferenceSession(sums())._model_path


def test_a_session_returns_its_options() -> None:
    options = ours.SessionOptions()
    options.intra_op_num_threads = 1
    session = ours.InferenceSession(sums(), sess_options=options, disabled_optimizers=["x"])
    assert session.get_session_options() is options
    assert [info.name for info in session.get_input_memory_infos()] == ["Cpu", "Cpu"]
    session.set_providers(["CPUExecutionProvider"])
    session.disable_fallback()
    assert session.get_tuning_results() == []
    with pytest.raises(state.Fail, match="graphwright inspect FILE"):
        session.get_provider_graph_assignment_info()


@pytest.mark.parametrize(
    "named",
    [lambda: {"total": 1}.keys(), lambda: (name for name in ("less", "total"))],
)
def test_names_come_from_any_iterable(pair: dict[ModuleType, Any], named: Any) -> None:
    assert same(lambda engine: pair[engine].run(named(), FEED))[-1][1] == (2, 3)


def test_the_native_classes_are_the_session_and_its_values() -> None:
    """Scripts use the attributes of ONNX Runtime's Python classes that hold the native objects."""

    def run(engine: ModuleType) -> Any:
        session = engine.InferenceSession(sums())
        binding = session.io_binding()
        for name, array in FEED.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("total")
        session._sess.run_with_iobinding(binding._iobinding, None)
        (value,) = [engine.OrtValue(native) for native in binding._iobinding.get_outputs()]
        held = engine.OrtValue.ortvalue_from_numpy(ROW)._ortvalue
        feed = {name: engine.OrtValue.ortvalue_from_numpy(a)._get_c_value() for name, a in FEED.items()}
        found = session._sess.run_with_ort_values(feed, ["less", "total"], None)
        native = engine.capi.onnxruntime_pybind11_state
        assert type(found) is native.OrtValueVector
        array = session._sess.run(["less"], FEED, None)
        assert held.shape() == [3] and found.dlpack_at(0) is not None
        arrays = array, value.numpy(), held.numpy(), found[1].numpy()
        return arrays, found.element_type_at(0), len(found.to_dlpacks(None))

    assert same(run)[1:] == [F32, 2]


@pytest.mark.parametrize("form", ["folder", "memory", "other folder"])
def test_external_data_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """The data is in the working folder, or in the memory that the options name."""
    model = onnx.load_from_string(with_default())
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="w", size_threshold=0)
    data = (tmp_path / "model.onnx").read_bytes()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path if form == "folder" else tmp_path / "other")

    def run(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        if form == "memory":
            file = (tmp_path / "w").read_bytes()
            options.add_external_initializers_from_files_in_memory(["w"], [file], [len(file)])
        return engine.InferenceSession(data, options).run(["total"], {"a": ROWS})

    found = same(run)
    assert found == ("Fail" if form == "other folder" else plain([ROWS + 1]))


def test_a_model_without_a_version() -> None:
    model = onnx.load_from_string(sums())
    model.ClearField("model_version")
    data = model.SerializeToString()
    assert same(lambda engine: engine.InferenceSession(data).get_modelmeta().version) == 2**63 - 1


def test_invalid_paths_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(state.InvalidArgument, match="the path is empty"):
        ours.InferenceSession("")
    with pytest.raises(state.InvalidProtobuf, match="File name too long"):
        ours.InferenceSession("x" * 300)
    options = ours.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(state.InvalidArgument, match="there is no folder"):
        ours.InferenceSession(sums(), options)


def test_texts_of_bytes_are_utf8() -> None:
    """ONNX Runtime reads past the end of elements that fill their slot completely."""
    session = ours.InferenceSession(copied(TensorProto.STRING))
    (found,) = session.run(None, {"x": np.array(["\u00e9".encode(), b"ab"])})
    assert plain(found)[1:] == ((2,), ["\u00e9", "ab"])


@pytest.mark.parametrize("rate", [[16000], np.array(16000), np.array([16000]), np.array([[8000]]), [1, 2]])
def test_inputs_without_axes_take_arrays_with_some(rate: Any) -> None:
    """Scripts pass the sampling rate of silero-vad as such an array; results have the axes of the feed."""
    nodes = [
        helper.make_node("Cast", ["rate"], ["number"], to=F32),
        helper.make_node("Mul", ["number", "x"], ["y"]),
    ]
    inputs, outputs = [("rate", I64, []), ("x", F32, [1])], [("y", F32, ["N"])]
    data = built(nodes, inputs, outputs).SerializeToString()
    found = same(
        lambda ort: ort.InferenceSession(data).run(None, {"rate": rate, "x": np.ones(1, np.float32)})
    )
    assert found[0][1] == (np.shape(rate) or (1,))


def test_an_om_without_axes_says_what_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    gw.compile(copied(F32, [])).save(path)
    with pytest.raises(state.InvalidArgument, match="'x' must have rank 0, but has rank 1"):
        ours.InferenceSession(str(path)).run(None, {"x": ROW})


def test_optionals_have_the_shape_of_their_tensor() -> None:
    element = helper.make_tensor_type_proto(F32, ["N", 3])
    value = helper.make_value_info("x", helper.make_optional_type_proto(element))
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    model = built([node], [], [("y", TensorProto.BOOL, [])], opset=18)
    model.graph.input.append(value)
    found = same(
        lambda ort: [
            (arg.name, arg.type, arg.shape)
            for arg in ort.InferenceSession(model.SerializeToString()).get_inputs()
        ]
    )
    assert found == [["x", "optional(tensor(float))", ["N", 3]]]


@pytest.mark.parametrize(
    "name", ["inputs_meta", "outputs_meta", "overridable_initializers", "model_meta", "providers"]
)
def test_attributes_that_scripts_read(pair: dict[ModuleType, Any], name: str) -> None:
    """Names with an underscore are private to ONNX Runtime; the others are attributes of its native
    session.
    """

    def read(engine: ModuleType) -> Any:
        session = pair[engine]
        if name == "providers":
            return session._providers, session._provider_options, bool(session._model_bytes)
        found = getattr(session, f"_{name}"), getattr(session._sess, name)
        return [getattr(each, "graph_name", each and str(each[0])) for each in found]

    same(read)


WORDS = {
    "name": FEED | {"zz": ROW},
    "type": FEED | {"a": ROWS.astype(np.float64)},
    "integers": FEED | {"b": np.array([1, 2, 3])},
    "rank": FEED | {"a": ROWS[None]},
    "size": FEED | {"a": ROWS[:, :2]},
    "sizes": FEED | {"b": ROW[:2]},
}


@pytest.mark.parametrize("name", WORDS)
def test_errors_begin_with_the_words_of_onnxruntime(pair: dict[ModuleType, Any], name: str) -> None:
    """Scripts parse the expected sizes and types from the messages."""
    feed, texts = WORDS[name], {}
    for engine in (ours, theirs):
        with pytest.raises(Exception, match=r"^\[ONNXRuntimeError\] : 2 : INVALID_ARGUMENT : ") as caught:
            pair[engine].run(None, feed)
        texts[engine] = str(caught.value)
    assert texts[ours].startswith(texts[theirs].rstrip() + "\n")
    assert "the inputs are a: f32[N, 3], b: f32[3]" in texts[ours]


def test_errors_about_outputs_begin_with_the_words_of_onnxruntime(pair: dict[ModuleType, Any]) -> None:
    for engine in (ours, theirs):
        with pytest.raises(Exception, match="INVALID_ARGUMENT : Invalid output name:sum"):
            pair[engine].run(["sum"], FEED)


def test_arguments_are_keys_and_metadata_may_be_changed(pair: dict[ModuleType, Any]) -> None:
    def put(engine: ModuleType) -> Any:
        first, second = pair[engine].get_inputs()
        meta = pair[engine].get_modelmeta()
        meta.producer_name = meta.producer_name
        return len({first, second, first}), type(engine.capi.onnxruntime_inference_collection).__name__

    assert same(put)[0] == 2
