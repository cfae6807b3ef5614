"""Models as users run them: results stay, inputs are only read, and graphs of odd forms run."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from tests.executables import targets
from tests.onnx_models import onnx_model
from tests.package.models import Classifier

Array = np.ndarray[Any, Any]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def test_outputs_of_one_run_outlive_the_next(model: gw.Model, classifier: Classifier) -> None:
    first = model(classifier.x)[0]
    kept = first.copy()
    for factor in (2, -3):
        second = model(classifier.x * np.float32(factor))[0]
        assert not np.shares_memory(first, second)
    assert np.array_equal(first, kept)
    assert first.flags.writeable and first.flags.owndata


def test_inputs_are_never_written(model: gw.Model, classifier: Classifier) -> None:
    x = classifier.x.copy()
    x.flags.writeable = False
    model(x)
    assert np.array_equal(x, classifier.x)


@pytest.mark.parametrize("batch", [0, 1, 2, 5])
def test_results_are_those_of_numpy_for_any_batch(
    model: gw.Model, classifier: Classifier, batch: int
) -> None:
    x = np.random.default_rng(batch).standard_normal((batch, 3, 12, 12)).astype(np.float32)
    np.testing.assert_allclose(model(x)[0], classifier.value(x), rtol=1e-4, atol=1e-6)


def test_bit_equal_at_any_number_of_threads(classifier: Classifier, options: Options) -> None:
    x = np.random.default_rng(0).standard_normal((7, 3, 12, 12)).astype(np.float32)
    results = []
    for threads in (1, 2, 3, 8):
        model = gw.compile(classifier.onnx(), options=replace(options, threads=threads))
        results += [model(x)[0].tobytes() for _ in range(3)]
    assert len(set(results)) == 1


def test_outputs_outlive_the_model(classifier: Classifier, options: Options) -> None:
    model = gw.compile(classifier.onnx(), options=options)
    (y,) = model(classifier.x)
    device = weakref.ref(model.executor)
    del model
    gc.collect()
    assert device() is None
    np.testing.assert_allclose(y, classifier.value(classifier.x), rtol=1e-4, atol=1e-6)


def test_runs_are_counted(classifier: Classifier, options: Options) -> None:
    model = gw.compile(classifier.onnx(), options=options)
    for batch in (1, 2, 1, 2):
        model(classifier.x[:batch])
    stats = model.stats()
    assert (stats["runs"], stats["host_calls"], stats["plan_misses"], stats["plan_hits"]) == (4, 0, 2, 2)


def test_only_outputs_asked_for_come_back(options: Options) -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Abs", ["x"], ["b"])]
    spec = (FLOAT, [3])
    model = gw.compile(onnx_model(nodes, {"x": spec}, {"a": spec, "b": spec}), options=options)
    x = np.array([1, -2, 3], np.float32)
    assert list(model.run({"x": x}, ["b"])) == ["b"]
    assert list(model.run({"x": x}, ["b", "a"])) == ["b", "a"]
    assert model.run({"x": x}, []) == {}


class TestOddGraphs:
    """Graphs at the edges of what a graph may be; each also through a file."""

    @pytest.fixture
    def run(self, options: Options, tmp_path: Any) -> Any:
        def run(model: bytes, *arrays: Array) -> tuple[Array, ...]:
            compiled = gw.compile(model, options=options)
            results = compiled(*arrays)
            compiled.save(tmp_path / "odd.om")
            loaded = gw.load(tmp_path / "odd.om", options=options)(*arrays)
            assert all(np.array_equal(a, b) for a, b in zip(results, loaded, strict=True))
            for i, a in enumerate(results):
                others = (*arrays, *results[:i])
                assert a.flags.writeable and not any(np.shares_memory(a, b) for b in others)
            return results

        return run

    def test_an_output_that_is_an_input(self, run: Any) -> None:
        spec = (FLOAT, ["N"])
        x = np.arange(5, dtype=np.float32)
        a, b = run(
            onnx_model(
                [node("Identity", ["x"], ["a"]), node("Neg", ["x"], ["b"])],
                {"x": spec},
                {"a": spec, "b": spec},
            ),
            x,
        )
        assert np.array_equal(a, x) and np.array_equal(b, -x)

    def test_an_output_that_is_an_input_without_any_node(self, run: Any) -> None:
        spec = (FLOAT, ["N"])
        x = np.arange(5, dtype=np.float32)
        (y,) = run(onnx_model([], {"x": spec}, {"x": spec}), x)
        assert np.array_equal(y, x)

    def test_an_output_that_is_a_constant(self, run: Any) -> None:
        w = np.arange(6, dtype=np.float32).reshape(2, 3)
        spec = (FLOAT, ["N"])
        model = onnx_model(
            [node("Neg", ["x"], ["y"]), node("Identity", ["w"], ["z"])],
            {"x": spec},
            {"y": spec, "z": (FLOAT, [2, 3])},
            {"w": w},
        )
        y, z = run(model, np.ones(3, np.float32))
        assert np.array_equal(y, [-1, -1, -1]) and np.array_equal(z, w)

    def test_one_value_as_several_outputs(self, run: Any) -> None:
        spec = (FLOAT, ["N"])
        nodes = [
            node("Neg", ["x"], ["t"]),
            node("Identity", ["t"], ["a"]),
            node("Identity", ["t"], ["b"]),
            node("Identity", ["t"], ["c"]),
        ]
        x = np.arange(4, dtype=np.float32)
        for y in run(onnx_model(nodes, {"x": spec}, {"a": spec, "b": spec, "c": spec, "t": spec}), x):
            assert np.array_equal(y, -x)

    def test_a_model_without_inputs(self, run: Any) -> None:
        nodes = [node("ConstantOfShape", ["s"], ["a"]), node("Add", ["a", "w"], ["y"])]
        weights = {"s": np.array([2, 3]), "w": np.arange(3, dtype=np.float32)}
        (y,) = run(onnx_model(nodes, {}, {"y": (FLOAT, [2, 3])}, weights))
        assert np.array_equal(y, [[0, 1, 2], [0, 1, 2]])

    def test_inputs_that_nothing_reads(self, run: Any) -> None:
        spec = (FLOAT, ["N"])
        x, unused = np.ones(3, np.float32), np.zeros((2, 2), np.int64)
        (y,) = run(
            onnx_model([node("Neg", ["x"], ["y"])], {"x": spec, "u": (INT64, [2, "K"])}, {"y": spec}),
            x,
            unused,
        )
        assert np.array_equal(y, -x)

    def test_scalar_inputs_and_outputs(self, run: Any) -> None:
        spec = (FLOAT, [])
        nodes = [node("Add", ["x", "y"], ["a"]), node("Exp", ["x"], ["b"])]
        a, b = run(
            onnx_model(nodes, {"x": spec, "y": spec}, {"a": spec, "b": spec}),
            np.float32(2),
            np.array(3, np.float32),
        )
        assert a.shape == b.shape == () and a == 5
        np.testing.assert_allclose(b, np.exp(2), rtol=1e-6)

    @pytest.mark.parametrize("n, k, m", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)])
    def test_matmul_with_no_elements(self, run: Any, n: int, k: int, m: int) -> None:
        a, b = np.ones((n, k), np.float32), np.ones((k, m), np.float32)
        specs = {"a": (FLOAT, ["n", "k"]), "b": (FLOAT, ["k", "m"])}
        (y,) = run(onnx_model([node("MatMul", ["a", "b"], ["y"])], specs, {"y": (FLOAT, ["n", "m"])}), a, b)
        assert np.array_equal(y, a @ b) and y.shape == (n, m)

    @pytest.mark.parametrize("op, empty", [("ReduceSum", 0.0), ("ReduceProd", 1.0), ("ReduceMax", -np.inf)])
    def test_reductions_over_nothing(self, run: Any, op: str, empty: float) -> None:
        attributes = {"axes": [1]} if op != "ReduceSum" else {}
        inputs = ["x", "axes"] if op == "ReduceSum" else ["x"]
        model = onnx_model(
            [node(op, inputs, ["y"], keepdims=0, **attributes)],
            {"x": (FLOAT, [2, "K"])},
            {"y": (FLOAT, [2])},
            {"axes": np.array([1])} if op == "ReduceSum" else {},
        )
        (y,) = run(model, np.zeros((2, 0), np.float32))
        assert np.array_equal(y, [empty, empty])

    def test_concat_of_nothing_and_something(self, run: Any) -> None:
        x, y = np.zeros((0, 3), np.float32), np.ones((2, 3), np.float32)
        spec = (FLOAT, ["N", 3])
        model = onnx_model(
            [node("Concat", ["x", "y"], ["z"], axis=0)],
            {"x": spec, "y": (FLOAT, ["M", 3])},
            {"z": (FLOAT, ["K", 3])},
        )
        assert np.array_equal(run(model, x, y)[0], y) and np.array_equal(run(model, x, x)[0], x)


class TestHostCalls:
    """Ops without a native kernel run on their references, and are counted."""

    def model(self, options: Options, element: int = FLOAT) -> gw.Model:
        nodes = [
            node("Add", ["x", "x"], ["t"]),
            node("Einsum", ["t"], ["d"], equation="iij->ij"),
            node("Neg", ["d"], ["y"]),
        ]
        return gw.compile(
            onnx_model(nodes, {"x": (element, ["N", "N", "M"])}, {"y": (element, ["N", "M"])}),
            options=options,
        )

    def test_results_are_correct_and_host_calls_are_counted(self, options: Options) -> None:
        model = self.model(options)
        (target,) = targets(model.package).values()
        assert any(task.kind.name == "HOSTCALL" for task in target.task_graph.tasks)
        for count, shape in enumerate([(3, 3, 2), (1, 1, 1), (4, 4, 0), (0, 0, 2)], start=1):
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            y = model(x)[0]
            assert np.array_equal(y, -2 * np.einsum("iij->ij", x)) and y.shape == shape[1:]
            assert model.stats()["host_calls"] == count

    def test_through_a_file(self, options: Options, tmp_path: Any) -> None:
        self.model(options).save(tmp_path / "host.om")
        loaded = gw.load(tmp_path / "host.om", options=options)
        x = np.arange(18, dtype=np.float32).reshape(3, 3, 2)
        assert np.array_equal(loaded(x)[0], -2 * np.einsum("iij->ij", x))
        assert loaded.stats()["host_calls"] == 1
