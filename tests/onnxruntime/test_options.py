"""Options have ONNX Runtime's fields, defaults and types."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright.onnxruntime as ours
from graphwright.onnxruntime.errors import InvalidGraph, Unsupported
from tests.onnxruntime.support import built, same, sums


def fields(engine: ModuleType, kind: str) -> dict[str, Any]:
    options = getattr(engine, kind)()
    names = [name for name in dir(options) if not name.startswith("_")]
    return {name: str(getattr(options, name)) for name in names if not callable(getattr(options, name))}


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_fields_and_defaults_are_the_same(kind: str) -> None:
    assert len(same(lambda engine: fields(engine, kind))) >= 5


class Pickled(ours.SessionOptions):
    """Pickles options, as immich does to send them to other processes."""

    def __getstate__(self) -> Any:
        return [(name, getattr(self, name)) for name in dir(self) if not callable(getattr(self, name))]

    def __setstate__(self, state: Any) -> None:
        Pickled.__init__(self)
        for name, value in state:
            setattr(self, name, value)


def test_options_are_all_fields_that_cannot_be_called() -> None:
    options = Pickled()
    options.intra_op_num_threads, options.logid = 3, "mine"
    made = pickle.loads(pickle.dumps(options))
    assert (made.intra_op_num_threads, made.logid) == (3, "mine")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("intra_op_num_threads", 2),
        ("intra_op_num_threads", "2"),
        ("intra_op_num_threads", 2.0),
        ("intra_op_num_threads", np.int64(2)),
        ("enable_profiling", 1),
        ("enable_profiling", np.bool_(True)),
        ("enable_profiling", None),
        ("enable_profiling", "yes"),
        ("enable_mem_pattern", False),
        ("graph_optimization_level", 99),
        ("optimized_model_filepath", Path("x")),
        ("logid", "mine"),
        ("no_such_field", 1),
    ],
)
def test_values_are_kept_or_rejected(name: str, value: Any) -> None:
    def put(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        setattr(options, name, value)
        return getattr(options, name)

    same(put)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_optimization_levels_are_stored(level: str) -> None:
    options = ours.SessionOptions()
    options.graph_optimization_level = getattr(ours.GraphOptimizationLevel, level)
    options.execution_mode = ours.ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level.name == level
    assert ours.SessionOptions().execution_mode == ours.ExecutionMode.ORT_SEQUENTIAL


@pytest.mark.parametrize(("kind", "what"), [("SessionOptions", "session"), ("RunOptions", "run")])
def test_config_entries_are_stored(kind: str, what: str) -> None:
    def entries(engine: ModuleType, key: Any, value: Any) -> Any:
        options = getattr(engine, kind)()
        getattr(options, f"add_{what}_config_entry")("key", value)
        return getattr(options, f"get_{what}_config_entry")(key)

    same(lambda engine: entries(engine, "key", "value"))
    same(lambda engine: entries(engine, "other", "value"))
    same(lambda engine: entries(engine, "key", 3))


def test_options_without_a_meaning_here_raise_an_error() -> None:
    with pytest.raises(TypeError, match=r"such as GraphOptimizationLevel\.ORT_ENABLE_ALL, not int"):
        ours.SessionOptions().graph_optimization_level = 99
    with pytest.raises(AttributeError, match=r"its fields are .*intra_op_num_threads"):
        ours.SessionOptions().inter_threads = 3


def test_a_library_of_custom_ops_is_accepted_if_the_model_does_not_need_it(tmp_path: Path) -> None:
    """Scripts register one for all their models: only a model with an op that nothing maps needs it."""
    library, other = tmp_path / "ops.so", "org.example.other"
    library.touch()
    options = ours.SessionOptions()
    options.register_custom_ops_library(str(library))
    (found,) = ours.InferenceSession(_with_op_of(""), options).run(None, {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(found, [-1, -1])
    with pytest.raises(Unsupported, match=rf"ops\.so: a library [\s\S]*docs/plugins\.md[\s\S]*{other}\.Neg"):
        ours.InferenceSession(_with_op_of(other), options)
    with pytest.raises(InvalidGraph, match="imports no opset"):
        ours.InferenceSession(_with_op_of(other, imports="com.example"), options)
    same(lambda engine: engine.SessionOptions().register_custom_ops_library(str(tmp_path / "missing.so")))
    same(lambda engine: engine.SessionOptions().register_custom_ops_library(3))


def _with_op_of(domain: str, imports: str = "") -> bytes:
    node = helper.make_node("Neg", ["x"], ["y"], domain=domain)
    model = built([node], [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])])
    model.opset_import.append(helper.make_opsetid(imports or domain or "unused", 1))
    made: bytes = model.SerializeToString()
    return made


@pytest.mark.parametrize("sizes", [(2, 3), (0,), (np.int64(4),), ("2",), (2.0,)])
def test_sizes_of_dimensions_have_the_same_effect(sizes: tuple[Any, ...]) -> None:
    """The first size of a repeated name counts."""

    def shape(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        for size in sizes:
            options.add_free_dimension_override_by_name("N", size)
        return engine.InferenceSession(sums(), options).get_inputs()[0].shape

    same(shape)


def test_a_size_below_0_is_rejected() -> None:
    with pytest.raises(ValueError, match="dimension 'N' cannot have size -2"):
        ours.SessionOptions().add_free_dimension_override_by_name("N", -2)


@pytest.mark.parametrize(
    ("key", "value"), [("", "x"), ("k" * 1025, "x"), ("k", "x" * 8193), ("k" * 1024, "x" * 8192)]
)
def test_entries_have_the_same_limits_of_length(key: str, value: str) -> None:
    same(lambda engine: engine.SessionOptions().add_session_config_entry(key, value))


@pytest.mark.parametrize("name", ["CPUExecutionProvider", "CUDAExecutionProvider", "NoSuchProvider"])
def test_providers_of_options_are_the_same(name: str) -> None:
    def added(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        before = options.has_providers()
        options.add_provider(name, {})
        return before, options.has_providers(), engine.InferenceSession(sums(), options).get_providers()

    same(added)


def test_names_and_values_must_have_the_same_number() -> None:
    def added(engine: ModuleType) -> None:
        value = engine.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
        engine.SessionOptions().add_external_initializers(["b", "c"], [value])

    assert same(added) == "RuntimeError"
